/* What a search found, for people and as JSON. */
#ifndef SL_CLI_SEARCH_REPORT_H
#define SL_CLI_SEARCH_REPORT_H

#include "search/search.h"

struct sl_cli_search_report {
    const struct sl_search_spec *spec;
    const struct sl_search *search;
    const struct sl_cost *cost; /* NULL: a roofline estimate */
    int64_t search_ns;
};

void sl_cli_search_report(const struct sl_cli_search_report *report, struct sl_text *out);
void sl_cli_search_report_json(const struct sl_cli_search_report *report, struct sl_text *out);

#endif
