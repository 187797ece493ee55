/* The tensors that a checkpoint of a run holds, and one worker as a store (ckpt/store.h). */
#ifndef SL_RUN_STORE_H
#define SL_RUN_STORE_H

#include "ckpt/store.h"
#include "run/train.h"

/* The parts of a run that have tensors. SL_PART_OLDER (a weight one version older) and SL_PART_SEAT
 * (the state in flight of a seat) exist only in pipelines. */
enum sl_tensor_part { SL_PART_WEIGHT, SL_PART_OPTIM, SL_PART_STATE, SL_PART_OLDER, SL_PART_SEAT };

struct sl_tensor_id {
    enum sl_tensor_part part;
    /* index of the graph's params; SL_PART_STATE: of its states; SL_PART_SEAT: of the plan's
     * seats */
    int index;
    int slab; /* SL_PART_OPTIM: index of the optimizer's slab */
};

/* A list of tensors; entry i of the store is tensor ids[i]. */
struct sl_run_tensors {
    struct sl_ckpt_entry *entries;
    struct sl_tensor_id *ids;
    int64_t count;
};

/* Lists all tensors for which `has` holds: parameters, each with its optimizer state, then running
 * statistics. Parameters that no node reads are left out. The list is in the arena. */
struct sl_run_tensors
sl_run_tensors_build(struct sl_arena *arena, const struct sl_train_config *config,
                     bool (*has)(const void *ctx, const struct sl_tensor_id *id), const void *ctx);

/* Returns the memory of a tensor on a worker (weights: in slab `version`), or NULL if the worker
 * does not have it. */
char *sl_run_worker_memory(const struct sl_worker *worker, const struct sl_tensor_id *id,
                           int version);
/* Implements at_rest of a store: returns the tensor's memory if a snapshot is attached and only
 * optimizer steps write the tensor. With several weight versions the slabs take turns, so no tensor
 * is at rest. */
const void *sl_run_train_at_rest(const struct sl_train *train, const struct sl_tensor_id *id);

/* The position of a run as a checkpoint holds it. Parsing leaves *scale unchanged if the text has
 * none, or if the loss scale of the configuration is not dynamic; `run` appears in messages. */
struct sl_ckpt_place sl_run_place(const struct sl_train_config *config, int64_t step,
                                  int64_t sample, const struct sl_scale_state *scale);
SL_MUST_CHECK sl_err sl_run_place_scale(const struct sl_train_config *config,
                                        const struct sl_ckpt_place *place,
                                        struct sl_scale_state *scale);

/* One worker as a store, which is valid as long as the worker. */
struct sl_ckpt_store sl_run_train_store(struct sl_train *train);
struct sl_ckpt_place sl_run_train_place(const struct sl_train *train);
SL_MUST_CHECK sl_err sl_run_train_restore(struct sl_train *train,
                                          const struct sl_ckpt_place *place);

#endif
