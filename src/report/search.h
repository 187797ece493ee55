/* Report of a search for a plan of a model: stages, step time, memory, bound, runners-up.
 *
 * The report prints what the search found; it computes no plan itself.
 */
#ifndef SL_REPORT_SEARCH_H
#define SL_REPORT_SEARCH_H

#include "search/search.h"

/* Best step time on a better machine; 0: no plan was found there. */
struct sl_report_what_if {
    bool known;        /* false: not searched, and not printed */
    int64_t memory_ns; /* with twice the memory per device */
    int64_t links_ns;  /* with links twice as fast */
};

struct sl_report_search {
    const struct sl_search_spec *spec;
    const struct sl_search *search;
    int64_t search_ns; /* duration of the search */
    struct sl_report_what_if what_if;
};

/* Append the report as text, or as JSON (docs/formats.md). */
void sl_report_search(const struct sl_report_search *report, struct sl_text *out);
void sl_report_search_json(const struct sl_report_search *report, struct sl_text *out);

#endif
