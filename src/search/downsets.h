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
    struct sl_ideals ideals; /* supersets come later; the first is empty, the last is full */
    bool complete;           /* lists every downset of the graph */
    bool nested;             /* each contains all earlier ones */
    const int *live_at;      /* [count + 1] */
    const int *live;         /* tensors written inside and read outside, ascending per ideal */
};

/* Lists all downsets if there are at most `max`. max 0: only the first order (nested). */
void sl_search_downsets_build(struct sl_arena *arena, const struct sl_problem *problem, int max,
                              struct sl_search_downsets *out);

#endif
