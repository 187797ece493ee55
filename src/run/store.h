/* The tensors that a checkpoint of a run holds, and one worker as a store (ckpt/store.h). */
#ifndef SL_RUN_STORE_H
#define SL_RUN_STORE_H

#include "ckpt/store.h"
#include "run/train.h"

/* Pipelines also have: a weight one version older; the state in flight of a seat. */
enum sl_tensor_part { SL_PART_WEIGHT, SL_PART_OPTIM, SL_PART_STATE, SL_PART_OLDER, SL_PART_SEAT };

struct sl_tensor_id {
    enum sl_tensor_part part;
    int index; /* of the graph's params; STATE: of its states; SEAT: of the plan's seats */
    int slab;  /* OPTIM: which of the optimizer's */
};

/* Entry i of a store is tensor ids[i]. */
struct sl_run_tensors {
    struct sl_ckpt_entry *entries;
    struct sl_tensor_id *ids;
    int64_t count;
};

/* All tensors for which `has` holds: parameters, each with its optimizer state, then running
 * statistics. Parameters that no node reads are nowhere. The list is in the arena. */
struct sl_run_tensors
sl_run_tensors_build(struct sl_arena *arena, const struct sl_train_config *config,
                     bool (*has)(const void *ctx, const struct sl_tensor_id *id), const void *ctx);

/* Memory of a tensor on a worker (weights: of slab `version`), NULL when it has none of it. */
char *sl_run_worker_memory(const struct sl_worker *worker, const struct sl_tensor_id *id,
                           int version);
/* For at_rest of a store: its memory, if a copy is attached and only steps write it. With several
 * weight versions slabs take turns, so none is at rest. */
const void *sl_run_train_at_rest(const struct sl_train *train, const struct sl_tensor_id *id);

/* A position as a checkpoint holds it. Parsing leaves *scale alone if the text has none, or if the
 * loss scale of the configuration is not dynamic; `run` is for the message. */
struct sl_ckpt_place sl_run_place(const struct sl_train_config *config, int64_t step,
                                  int64_t sample, const struct sl_scale_state *scale);
SL_MUST_CHECK sl_err sl_run_place_scale(const struct sl_train_config *config,
                                        const struct sl_ckpt_place *place,
                                        struct sl_scale_state *scale);

/* One worker. The store is valid as long as the worker. */
struct sl_ckpt_store sl_run_train_store(struct sl_train *train);
struct sl_ckpt_place sl_run_train_place(const struct sl_train *train);
SL_MUST_CHECK sl_err sl_run_train_restore(struct sl_train *train,
                                          const struct sl_ckpt_place *place);

#endif
