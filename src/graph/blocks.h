/* Repeated blocks of a model: nodes whose scope has a number in it. "h.3.attn" is in block "h.3".
 * What other systems call a layer, and cut between. */
#ifndef SL_GRAPH_BLOCKS_H
#define SL_GRAPH_BLOCKS_H

#include "graph/graph.h"

struct sl_blocks {
    int count;
    const char **names; /* [count] "h.3", in the order of their first nodes */
    int *of;            /* [forward nodes] -1: in none */
    const char *row;    /* "h" when all are of one row, else NULL */
    int first, last;    /* nodes: the first and the last that is in a block */
};

void sl_graph_blocks(struct sl_arena *arena, const struct sl_graph *graph, struct sl_blocks *out);

/* How much of a name is the block it is in: up to the end of the first part that is a number; 0:
 * none of its parts is one. "h.3.attn" -> 3. */
size_t sl_graph_block_length(const char *name);

/* keep[n]: nodes with the same number from 0 make one layer, -1: a node by itself. What comes
 * before the blocks is one layer, and what comes behind them, where they stand in one row. */
void sl_graph_blocks_keep(const struct sl_blocks *blocks, int nodes, int *keep);

#endif
