/* A store: the tensors of a run, wherever they are. A checkpoint is written from one and read into
 * one, piece by piece, so that nobody has to hold a whole model. */
#ifndef SL_RUN_STORE_H
#define SL_RUN_STORE_H

#include "run/train.h"

enum sl_tensor_part { SL_PART_WEIGHT, SL_PART_OPTIM, SL_PART_STATE };

struct sl_tensor_id {
    enum sl_tensor_part part;
    int index; /* of the graph's params; STATE: of its states */
    int slab;  /* OPTIM: which of the optimizer's */
};

struct sl_store {
    const struct sl_train_config *config;
    void *ctx;
    /* Does the run have it? (Parameters that no node reads are nowhere.) */
    bool (*has)(void *ctx, const struct sl_tensor_id *id);
    sl_err (*get)(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                  void *out);
    sl_err (*put)(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                  const void *bytes);
};

/* Where a run stands. */
struct sl_store_place {
    int64_t step, sample;
};

/* save.c: a checkpoint in `run`/ckpt; `config` is kept with it. Loading finds the latest;
 * weights_only: parameters and statistics, `*place` is left alone. */
SL_MUST_CHECK sl_err sl_store_save(const struct sl_store *store, struct sl_store_place place,
                                   const char *run, int keep, const char *config);
SL_MUST_CHECK sl_err sl_store_load(const struct sl_store *store, const char *run, bool weights_only,
                                   struct sl_store_place *place);

/* Memory of a tensor on a worker (weights: of slab `version`), NULL when it has none of it. */
char *sl_worker_memory(const struct sl_worker *worker, const struct sl_tensor_id *id, int version);

#endif
