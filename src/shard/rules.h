/* The rules of ops: from the layout of one operand of a node, a rule finds the layouts of the
 * others. */
#ifndef SL_SHARD_RULES_H
#define SL_SHARD_RULES_H

#include "shard/shard.h"

/* A node with the layouts of its operands; a rule reads the layouts known so far and sets those
 * that follow. */
struct sl_shard_query {
    const struct sl_graph *graph;
    const struct sl_node *node;
    int shards;
    struct sl_shard_layout in[SL_MAX_IN], out[SL_MAX_OUT];
    bool sums;      /* output 0 is a sum of the shards' terms */
    int want_parts; /* set on failure: the axis would have to have this many parts; 0: no advice */
};

/* Applies the rule of the node's op. Returns false if the node cannot compute with these layouts.
 * Returns true at once if no operand is divided. */
bool sl_shard_rule_apply(struct sl_shard_query *query);

/* Returns the number of forward nodes. */
static inline int64_t sl_shard_nodes(const struct sl_graph *graph) {
    return graph->differentiated ? graph->forward_count : graph->nodes.count;
}

/* Can the axis be divided in this way? */
bool sl_shard_divides(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                      int shards);
/* Returns the shape of a shard's part. */
struct sl_shape sl_shard_shape(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                               int shards);
/* Sets the attributes of the node for one shard: sizes become those of its part. */
void sl_shard_attrs(const struct sl_shard_query *query, union sl_attr attr[SL_MAX_ATTR]);

#endif
