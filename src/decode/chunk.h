/* The graph of a chunk: N tokens of each sequence, after `past` others whose keys and values are in
 * caches.
 *
 *   tokens [B,T] -> ... -> logits [B,T,V]          the evaluation graph of a model
 *   tokens [B,N], past [B], last [B], text [B,T] -> ... -> logits [B,1,V] of row `last`
 *
 * Where an op computes each token separately, the chunk has the same op on fewer rows. Values
 * that other tokens read (keys, values) go to caches, which are states of the graph. So every
 * row has the bits of the evaluation graph (docs/design/0031-generation.md). A graph that cannot
 * be cut in this way is refused, with the op that mixes tokens. */
#ifndef SL_DECODE_CHUNK_H
#define SL_DECODE_CHUNK_H

#include "graph/graph.h"

struct sl_decode_sizes {
    int64_t context, vocab; /* T and V of the model */
};

/* Finds the sizes. SL_ERR_REFUSED: the model does not predict the next token, or an op is not known
 * to be causal. */
SL_MUST_CHECK sl_err sl_decode_sizes_of(const struct sl_graph *graph, struct sl_decode_sizes *out);

/* Builds the graph of a chunk. tokens: N, per sequence; batch: number of sequences. The caller
 * closes the graph. */
SL_MUST_CHECK sl_err sl_decode_chunk_build(const struct sl_graph *graph, int64_t tokens,
                                           int64_t batch, struct sl_graph **out);

#endif
