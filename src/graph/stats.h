/* Statistics of a model: parameters, flops, activations, nodes.
 *
 * "Per sample" means for a micro-batch of one sample; values without B (statistics of a channel)
 * count once. */
#ifndef SL_GRAPH_STATS_H
#define SL_GRAPH_STATS_H

#include "graph/graph.h"

struct sl_graph_stats {
    int64_t parameters, states; /* number of elements; a tied parameter counts once */
    double forward_flops;       /* per sample; a multiply-add is two flops */
    double input_grad_flops;    /* flops of the nodes tagged I */
    double weight_grad_flops;   /* flops of the nodes tagged W */
    /* Bytes per sample of the forward values that a backward node reads, 4 bytes per element. A
     * view counts as its source; parameters and states do not count. */
    int64_t activation_bytes;
    int64_t forward_nodes, input_grad_nodes, weight_grad_nodes;
};

/* Fills the statistics. Those of the backward pass are 0 unless the graph is differentiated. */
void sl_graph_stats(const struct sl_graph *graph, struct sl_graph_stats *stats);

/* Returns the host memory of the graph object. */
int64_t sl_graph_bytes(const struct sl_graph *graph);

#endif
