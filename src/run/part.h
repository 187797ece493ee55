/* Parameters of which a graph has parts (sl_part_of): where their elements are in the whole tensor, and
 * a store that joins them, so that checkpoints do not depend on the number of shards. */
#ifndef SL_RUN_PART_H
#define SL_RUN_PART_H

#include "run/store.h"

/* The index in the whole tensor of element `index` of a part. NULL: the same. */
int64_t sl_run_part_whole(const struct sl_part_of *part, int64_t index);
/* The number of elements of the part whose index in the whole tensor is below `whole`. */
int64_t sl_run_part_below(const struct sl_part_of *part, int64_t whole);

struct sl_joined;

/* A store with whole tensors under their own names; echoes are not in it, a load fills them too.
 * `store` has tensors ids[i] of the graph. Keeps its state in *joined, made in the arena on the
 * first call. A graph without parts: the store itself. The parts of a tensor are consecutive
 * parameters, shard 0 first. */
struct sl_ckpt_store sl_run_store_join(struct sl_arena *arena, const struct sl_graph *graph,
                                       const struct sl_tensor_id *ids,
                                       const struct sl_ckpt_store *store,
                                       struct sl_joined **joined);

#endif
