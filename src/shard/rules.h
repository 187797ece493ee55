/* The rules of ops: how the layout of one operand of a node determines those of the others. */
#ifndef SL_SHARD_RULES_H
#define SL_SHARD_RULES_H

#include "shard/shard.h"

/* A node under consideration; rules read the layouts known so far and set those that follow. */
struct sl_shard_query {
    const struct sl_graph *graph;
    const struct sl_node *node;
    int shards;
    struct sl_shard_layout in[SL_MAX_IN], out[SL_MAX_OUT];
    bool sums;      /* output 0 is a sum of terms */
    int want_parts; /* on failure: the axis would have to have so many parts; 0: no advice */
};

/* False: this node cannot compute with these layouts. A query without divided operands is true. */
bool sl_shard_rule_apply(struct sl_shard_query *query);

/* Forward nodes. */
static inline int64_t sl_shard_nodes(const struct sl_graph *graph) {
    return graph->differentiated ? graph->forward_count : graph->nodes.count;
}

/* Can the axis be divided so? */
bool sl_shard_divides(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                      int shards);
/* The shape of a shard's part. */
struct sl_shape sl_shard_shape(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                               int shards);
/* Attributes of the node for one shard: sizes become those of its part. */
void sl_shard_attrs(const struct sl_shard_query *query, union sl_attr attr[SL_MAX_ATTR]);

#endif
