/* Costs and possible borders of a model's nodes. Private to plan/cut*.c. */
#ifndef SL_PLAN_CUT_H
#define SL_PLAN_CUT_H

#include "graph/graph.h"

struct sl_plan_cut_costs {
    const struct sl_graph *graph;
    const double *cost; /* [forward nodes] flops of the node with its gradient */
    const bool *border; /* [forward nodes] may a stage begin here? */
};

struct sl_plan_cut_costs sl_plan_cut_costs(const struct sl_graph *graph,
                                           bool (*has_kernel)(const char *name),
                                           struct sl_arena *arena);

#endif
