/* Rewriting of graphs before they are differentiated: several ops become the one op that they
 * mean, and unneeded nodes are dropped.
 *
 *   sl_rewrite_prune     a copy with the nodes that the losses need, or else the outputs
 *   sl_rewrite_fuse      a copy with patterns replaced, until nothing changes
 *
 * Graphs of exporters are made of small ops: a norm is a mean, a difference, a square, ... Each
 * pattern has one function, in fuse_*.c, which looks from the last op of the pattern back to its
 * inputs. A replaced node remains without readers; pruning drops it. */
#ifndef SL_REWRITE_REWRITE_H
#define SL_REWRITE_REWRITE_H

#include "graph/graph.h"

/* Values of stored states. `values` returns the elements of the state `name`, which stay as long as
 * the graph, or NULL. */
struct sl_rewrite_constants {
    void *ctx;
    const double *(*values)(void *ctx, const char *name);
};

SL_MUST_CHECK sl_err sl_rewrite_prune(const struct sl_graph *graph, bool by_loss,
                                      struct sl_graph **out);
/* Replaces *graph, which has either losses or outputs (by_loss: losses). */
SL_MUST_CHECK sl_err sl_rewrite_fuse(struct sl_graph **graph, bool by_loss,
                                     const struct sl_rewrite_constants *constants);

#endif
