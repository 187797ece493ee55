/* Report of a search for a plan of a model: stages, step time, memory, bound, runners-up.
 *
 * The report prints what the search found; it computes no plan itself.
 */
#ifndef SL_REPORT_SEARCH_H
#define SL_REPORT_SEARCH_H

#include "search/search.h"

struct sl_report_search {
    const struct sl_search_spec *spec;
    const struct sl_search *search;
};

/* Append the report as text, or as JSON (docs/formats.md). */
void sl_report_search(const struct sl_report_search *report, struct sl_text *out);
void sl_report_search_json(const struct sl_report_search *report, struct sl_text *out);

#endif
