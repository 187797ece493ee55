/* The nodes that carry the branch structure, numbered from 1 in topological order; place 0 is the
 * start of all paths. Private to branch*.c. */
#ifndef SL_GRAPH_BRANCH_FLOW_H
#define SL_GRAPH_BRANCH_FLOW_H

#include "graph/branch.h"

struct sl_flow {
    const struct sl_graph *graph;
    int count;      /* places 1 .. count */
    int *node_of;   /* [count + 1] */
    int *place;     /* [nodes] 0: carries no structure */
    int *owner;     /* [nodes] owner of a side node, a place; 0: none */
    int *begin;     /* [count + 2] inputs of place i are edge[begin[i] .. begin[i + 1]) */
    int *edge;      /* places; 0 for a place that has none */
    bool *skip;     /* [edges] */
    bool *ends;     /* [count + 1] a loss */
    bool *weighted; /* [count + 1] reads a parameter, or a side node of it does */
};

/* Marks skip edges and returns them, frozen in the arena; *long_count of them are long. */
struct sl_skip *sl_graph_flow_skips(struct sl_flow *flow, struct sl_arena *scratch,
                                    struct sl_arena *arena, int *count, int *long_count);

#endif
