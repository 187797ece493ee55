/* Statistics of a model: parameters, flops, activations, nodes.
 *
 * "Per sample" is a micro-batch of one; values without B (statistics of a channel) count once.
 */
#ifndef SL_GRAPH_STATS_H
#define SL_GRAPH_STATS_H

#include "graph/graph.h"

struct sl_graph_stats {
    int64_t parameters, states; /* elements; a tied parameter counts once */
    double forward_flops;       /* per sample, a multiply-add is two */
    double input_grad_flops;    /* of the nodes tagged I */
    double weight_grad_flops;   /* of the nodes tagged W */
    /* Forward values that a backward node reads, per sample, 4 bytes an element. A view counts as
     * its source; parameters and states do not count. */
    int64_t activation_bytes;
    int64_t forward_nodes, input_grad_nodes, weight_grad_nodes;
};

/* The backward figures are 0 unless the graph is differentiated. */
void sl_graph_stats(const struct sl_graph *graph, struct sl_graph_stats *stats);

/* Host memory of the graph itself. */
int64_t sl_graph_bytes(const struct sl_graph *graph);

#endif
