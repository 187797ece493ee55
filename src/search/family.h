/* The downsets at which a search may cut, and the tensors that cross each.
 *
 * All downsets of the graph when there are few; otherwise the prefixes of a few topological orders
 * that stay on a branch as long as they can. In such an order a run of units is a part of a branch,
 * a branch, or several neighbouring branches, and since stages keep their true edges, branches
 * still run side by side. `complete` says which of the two it is; whoever prints a result says it
 * too.
 */
#ifndef SL_SEARCH_FAMILY_H
#define SL_SEARCH_FAMILY_H

#include "search/problem.h"

struct sl_family {
    struct sl_ideals ideals; /* a superset comes later; first empty, last full */
    bool complete;           /* every downset of the graph is here */
    bool nested;             /* each contains all earlier ones */
    const int *live_at;      /* [count + 1] */
    const int *live;         /* tensors made inside and read outside, ascending per ideal */
};

/* `most`: give up listing all downsets beyond this many; 0: only the first order (nested). */
void sl_search_family_build(struct sl_arena *arena, const struct sl_problem *problem, int max,
                            struct sl_family *out);

#endif
