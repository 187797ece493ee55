/* The downsets (ideals) of the unit graph at which a search may cut, and the tensors that cross
 * each.
 *
 * If the graph has few downsets: all of them (`complete`). Otherwise the prefixes of two
 * topological orders that stay on a branch as long as they can. In such an order a run of units is
 * a part of a branch, a branch, or several neighbouring branches. Stages keep their true edges, so
 * branches still run in parallel. Reports state whether the search was complete.
 */
#ifndef SL_SEARCH_DOWNSETS_H
#define SL_SEARCH_DOWNSETS_H

#include "search/problem.h"

struct sl_search_downsets {
    /* sorted so that supersets come later; the first is empty, the last is full */
    struct sl_ideals ideals;
    bool complete;      /* it contains every downset of the graph */
    bool nested;        /* each downset contains all earlier ones */
    const int *live_at; /* [count + 1] where the tensors of each downset begin in `live` */
    /* for each downset, the tensors written inside and read outside it, ascending */
    const int *live;
};

/* Lists all downsets if there are at most `max`; otherwise the prefixes of two orders. max 0: only
 * the first order (nested). */
void sl_search_downsets_build(struct sl_arena *arena, const struct sl_problem *problem, int max,
                              struct sl_search_downsets *out);

#endif
