/* The graph of a chunk: N tokens of each sequence, after `past` others whose keys and values are in
 * caches.
 *
 *   tokens [B,T] -> ... -> logits [B,T,V]          the evaluation graph of a model
 *   tokens [B,N], past [B], last [B], text [B,T] -> ... -> logits [B,1,V] of row `last`
 *
 * The chunk has the same ops on fewer rows wherever an op computes each token alone. Values that other
 * tokens read (keys, values) go to caches, which are states of the graph. So every row has the bits of
 * the evaluation graph: docs/design/0031-generation.md. A graph that cannot be cut like this is
 * refused with the op that mixes tokens.
 */
#ifndef SL_DECODE_CHUNK_H
#define SL_DECODE_CHUNK_H

#include "graph/graph.h"

struct sl_decode_sizes {
    int64_t context, vocab; /* T and V of the model */
};

/* SL_ERR_REFUSED: not a model of the next token, or an op that is not known to be causal. */
SL_MUST_CHECK sl_err sl_decode_sizes_of(const struct sl_graph *graph, struct sl_decode_sizes *out);

/* tokens per sequence: N; batch: sequences. The caller closes the graph. */
SL_MUST_CHECK sl_err sl_decode_chunk_build(const struct sl_graph *graph, int64_t tokens,
                                           int64_t batch, struct sl_graph **out);

#endif
