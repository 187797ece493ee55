/* Parameters of which a graph has only parts (sl_part_of): where their elements are in the whole
 * tensor, and a store that joins them, so that checkpoints do not depend on the number of
 * shards. */
#ifndef SL_RUN_PART_H
#define SL_RUN_PART_H

#include "run/store.h"

/* Returns the index in the whole tensor of element `index` of a part. part NULL: the same index. */
int64_t sl_run_part_whole(const struct sl_part_of *part, int64_t index);
/* Returns how many elements of the part have an index below `whole` in the whole tensor. */
int64_t sl_run_part_below(const struct sl_part_of *part, int64_t whole);

struct sl_joined;

/* Returns a store of whole tensors, under their own names, on top of `store`, whose entry i is
 * tensor ids[i] of the graph. A load fills echoes too, but the store does not list them. Its state
 * is *joined, made in the arena on the first call. Without parts in the graph, returns `store`
 * itself. The parts of a tensor are consecutive parameters, shard 0 first. */
struct sl_ckpt_store sl_run_store_join(struct sl_arena *arena, const struct sl_graph *graph,
                                       const struct sl_tensor_id *ids,
                                       const struct sl_ckpt_store *store,
                                       struct sl_joined **joined);

#endif
