/* Tensor parallelism: decides which tensors of a model are divided among t shards, and makes the
 * graphs that compute with the parts.
 *
 *   sl_graph -> sl_shard_choose -> layouts -> sl_shard_rewrite -> sl_graph of all shards
 *
 * A tensor is replicated, or every shard has an equal part of one axis. Divided tensors form
 * *regions*. A region begins where a product with a weight makes columns of which each shard computes
 * its share, and ends where a product sums over them: each shard then has a term of the result.
 *
 *     x --enter--> [ columns ] -> gelu -> [ rows ] --sum--> y        enter backward: a sum over shards
 *     replicated     divided     divided   divided        replicated
 *
 * All other tensors are replicated: every shard computes them. The choice divides each region
 * for which all ops have a rule (sl_op.divide) and all sizes are multiples of t. The result is
 * Megatron's layout for transformers (Shoeybi et al. 2019), with one all-reduce forward and one
 * backward per region. If the vocabulary may be divided, so are the tables and heads that share
 * it. */
#ifndef SL_SHARD_SHARD_H
#define SL_SHARD_SHARD_H

#include "graph/graph.h"

/* The layout of one value. */
struct sl_shard_layout {
    bool divided;
    int axis,
        /* the axis consists of `parts` equal runs, and each run is divided among the shards */
        parts;
};

struct sl_shard_layouts {
    int shards;
    struct sl_shard_layout *at; /* [values] */
    bool *sums;                 /* [nodes] is output 0 the sum of the shards' terms? */
    int regions;                /* number of regions; 0: everything is replicated */
    bool vocabulary;            /* tables and losses over classes may be divided too */
};

/* Chooses the layouts of the forward part of a checked graph. choose: divides as many parameters as
 * possible. choose_like: divides the parameters that the choice `like` for graph `of` divides (an
 * evaluation graph needs the weights of the training graph). */
SL_MUST_CHECK sl_err sl_shard_choose(struct sl_arena *arena, const struct sl_graph *graph,
                                     int shards, struct sl_shard_layouts *out);
SL_MUST_CHECK sl_err sl_shard_choose_like(struct sl_arena *arena, const struct sl_graph *graph,
                                          const struct sl_graph *of,
                                          const struct sl_shard_layouts *like,
                                          struct sl_shard_layouts *out);

/* Like choose, and divides the vocabulary: only the largest table, because every table costs a
 * sum. */
SL_MUST_CHECK sl_err sl_shard_choose_vocabulary(struct sl_arena *arena,
                                                const struct sl_graph *graph, int shards,
                                                struct sl_shard_layouts *out);

/* Proves that the layouts fit together: every node with a divided tensor obeys the rule of its op,
 * terms are summed, losses and outputs are replicated. SL_ERR_INPUT names the node.
 * sl_shard_rewrite calls it. */
SL_MUST_CHECK sl_err sl_shard_check(const struct sl_graph *graph,
                                    const struct sl_shard_layouts *layouts);

/* The origin of a node of the new graph. */
struct sl_shard_node {
    int node;  /* node of the old graph */
    int shard; /* the shard that computes it; with `together`: 0 if it is replicated */
};

/* The graph of all shards, checked, not differentiated.
 *
 *   together   for one worker: replicated nodes once, divided ones once per shard; sums are ordinary
 *              nodes. It is a complete model that any runner can train.
 *   apart      for t workers: shard k has its own copy of all nodes, and no node reads a value of
 *              another shard; sums are collectives. Copies beyond shard 0 are echoes.
 *   alone      shard 0 of those: what one device computes, for costs and bytes. It cannot run: a
 *              divided vocabulary has the costs of its parts, but not their arithmetic, and outputs
 *              of divided values are left out.
 *
 * The first two forms compute the same bits: a shard runs the same ops on the same shapes, and
 * sums have one order. A divided parameter W becomes W.shard-0, W.shard-1, ...; its echoes are
 * W.echo-1, ... . */
enum sl_shard_form { SL_SHARD_TOGETHER, SL_SHARD_APART, SL_SHARD_ALONE };
SL_MUST_CHECK sl_err sl_shard_rewrite(const struct sl_graph *graph,
                                      const struct sl_shard_layouts *layouts,
                                      enum sl_shard_form form, struct sl_graph **out,
                                      struct sl_shard_node **nodes);

/* Makes the differentiated graph of shard 0 alone, and finds the node of `graph` for each of its
 * forward nodes. SL_ERR_REFUSED: no part of the model can be divided. */
SL_MUST_CHECK sl_err sl_shard_alone(struct sl_arena *arena, const struct sl_graph *graph,
                                    int shards, bool vocabulary, struct sl_graph **out,
                                    const int **whole_of);

#endif
