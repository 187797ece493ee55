/* Repeated blocks of a model: nodes whose scope contains a number. "h.3.attn" is in block "h.3".
 * Other systems call a block a layer and cut between layers. */
#ifndef SL_GRAPH_BLOCKS_H
#define SL_GRAPH_BLOCKS_H

#include "graph/graph.h"

struct sl_blocks {
    int count;
    const char **names; /* [count] "h.3", in the order of their first nodes */
    int *of;            /* [forward nodes] the block of each; -1: none */
    const char *row;    /* the prefix "h" that all blocks share, or NULL */
    int first, last;    /* the first and the last node that are in a block */
};

void sl_graph_blocks(struct sl_arena *arena, const struct sl_graph *graph, struct sl_blocks *out);

/* Returns the length of the block prefix of a name, which ends after its first numeric part: 3 for
 * "h.3.attn". 0: the name has no such part. */
size_t sl_graph_block_length(const char *name);

/* Sets keep[n] to the layer of node n, from 0; -1: the node forms its own layer. If all blocks
 * share a prefix, the nodes before them form one layer, and so do the nodes after them. */
void sl_graph_blocks_keep(const struct sl_blocks *blocks, int nodes, int *keep);

#endif
