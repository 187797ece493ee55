/* The nodes that carry the branch structure, numbered from 1 in topological order. Such a number
 * is a place; place 0 is the start of all paths. Private to branch*.c. */
#ifndef SL_GRAPH_BRANCH_FLOW_H
#define SL_GRAPH_BRANCH_FLOW_H

#include "graph/branch.h"

struct sl_flow {
    const struct sl_graph *graph;
    int count;    /* number of places; they are 1 .. count */
    int *node_of; /* [count + 1] node of each place */
    int *place;   /* [nodes] place of each; 0: it carries no structure */
    int *owner;   /* [nodes] place that owns a side node; 0: none */
    int *begin; /* [count + 2] the inputs of place i are edge[begin[i]] .. edge[begin[i + 1] - 1] */
    int *edge;  /* places of the inputs; a place without inputs has one input, place 0 */
    bool *skip; /* [edges] is it a skip edge? */
    bool *ends; /* [count + 1] is it a loss? */
    bool *weighted; /* [count + 1] does it, or a side node of it, read a parameter? */
};

/* Marks skip edges and returns them, frozen in the arena; *long_count of them are long. */
struct sl_skip *sl_graph_flow_skips(struct sl_flow *flow, struct sl_arena *scratch,
                                    struct sl_arena *arena, int *count, int *long_count);

#endif
