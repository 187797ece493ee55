/* A function that sees the nodes of a graph while it is built. */
#ifndef SL_GRAPH_HOOK_H
#define SL_GRAPH_HOOK_H

#include "base/err.h"

struct sl_graph;

/* Called after each node that sl_graph_node adds. It may add nodes, and replace the node's first
 * output for the readers of that output. */
struct sl_graph_hook {
    void *ctx;
    sl_err (*after)(void *ctx, struct sl_graph *graph, int node, int *first_out);
};

#endif
