/* The part of a problem that tensor parallelism adds: its graph is that of one shard, its plan names the
 * nodes of the whole model. */
#ifndef SL_SEARCH_PROBLEM_SHARDS_H
#define SL_SEARCH_PROBLEM_SHARDS_H

#include "search/problem.h"

/* Is the node a collective? With fewer inputs than shards the other terms come from other devices. */
static inline bool sl_search_shards_meet(const struct sl_node *node) {
    return node->op->collective && node->in_count < node->attr[0].i;
}

/* [forward nodes of the shard] nodes of equal numbers stay in one unit. block_of becomes that of the
 * whole model. */
const int *sl_search_shards_keep(struct sl_arena *arena, const struct sl_problem_spec *spec,
                                 int *block_of);

/* Collectives of units; nodes of units and names of ties become those of the whole model. */
void sl_search_shards_fill(struct sl_arena *arena, const struct sl_problem_spec *spec,
                           const int *unit_of, struct sl_problem *problem);

#endif
