/* The part of a problem that tensor parallelism adds. Its graph is that of one shard; its plan
 * names the nodes of the whole model. */
#ifndef SL_SEARCH_PROBLEM_SHARDS_H
#define SL_SEARCH_PROBLEM_SHARDS_H

#include "search/problem.h"

/* Is the node a collective between devices? It has fewer inputs than there are shards if the other
 * terms come from other devices. */
static inline bool sl_search_shards_meet(const struct sl_node *node) {
    return node->op->collective && node->in_count < node->attr[0].i;
}

/* Returns [forward nodes of the shard] a number: nodes with equal numbers stay in one unit.
 * block_of becomes that of the whole model. */
const int *sl_search_shards_keep(struct sl_arena *arena, const struct sl_problem_spec *spec,
                                 int *block_of);

/* Fills the collectives of units, and replaces nodes of units and names of ties by those of the
 * whole model. */
void sl_search_shards_fill(struct sl_arena *arena, const struct sl_problem_spec *spec,
                           const int *unit_of, struct sl_problem *problem);

#endif
