/* A store: the tensors of a run, wherever they are. A checkpoint is written from one and read into
 * one, piece by piece, so that nobody has to hold a whole model. */
#ifndef SL_CKPT_STORE_H
#define SL_CKPT_STORE_H

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
    /* Does the run have it? (Parameters that no node reads are nowhere.) Does this process? */
    bool (*has)(void *ctx, const struct sl_tensor_id *id);
    bool (*here)(void *ctx, const struct sl_tensor_id *id);
    sl_err (*get)(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                  void *out);
    sl_err (*put)(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                  const void *bytes);
    /* Host memory that only optimizer steps of this process write, NULL: it is not, or passes write
     * it, too. */
    const void *(*at_rest)(void *ctx, const struct sl_tensor_id *id);
};

/* Where a run stands. */
struct sl_store_place {
    int64_t step, sample;
    struct sl_scale_state scale; /* of the loss; value 0: not known */
};

/* A checkpoint to be: in `run`/ckpt, of which `keep` stay (0: all); `config` is kept with it. */
struct sl_save {
    const char *run, *config;
    int keep;
    struct sl_store_place place;
};

/* save.c. Loading finds the latest; weights_only: parameters and statistics, `*place` is left
 * alone. */
SL_MUST_CHECK sl_err sl_ckpt_store_save(const struct sl_store *store, const struct sl_save *save);
SL_MUST_CHECK sl_err sl_ckpt_store_load(const struct sl_store *store, const char *run,
                                        bool weights_only, struct sl_store_place *place);

/* Every tensor that the run has, in a fixed order; `item` says its name and shape. */
struct sl_ckpt_item;
typedef sl_err (*sl_store_visit_fn)(void *ctx, const struct sl_ckpt_item *item,
                                    const struct sl_tensor_id *id);
SL_MUST_CHECK sl_err sl_ckpt_store_visit(const struct sl_store *store, struct sl_arena *arena,
                                         sl_store_visit_fn visit, void *ctx);

/* copy.c: the tensors that are here, as they were at one moment, for somebody who writes them while
 * the run goes on. Its memory is there, and touched, as soon as it is open.
 *
 * It is taken in two parts: what passes write, and what is not in host memory, while the run stands
 * still (begin); the rest by another thread (finish), beside passes, which only read it. Who is
 * about to write weights or optimizer state waits for the end of that (await). */
struct sl_copy;
SL_MUST_CHECK sl_err sl_ckpt_copy_open(const struct sl_store *store, struct sl_copy **out);
void sl_ckpt_copy_close(struct sl_copy *copy); /* NULL is fine */
SL_MUST_CHECK sl_err sl_ckpt_copy_begin(struct sl_copy *copy);
void sl_ckpt_copy_finish(struct sl_copy *copy);
void sl_ckpt_copy_await(struct sl_copy *copy); /* NULL is fine */
/* How many wait now, and the longest that one has waited since the last call. */
int sl_ckpt_copy_waiters(const struct sl_copy *copy);
int64_t sl_ckpt_copy_waited_ns(struct sl_copy *copy);
int64_t sl_ckpt_copy_bytes(const struct sl_copy *copy);
/* A piece of a tensor that is here. */
void sl_ckpt_copy_get(const struct sl_copy *copy, const struct sl_tensor_id *id, int64_t from,
                      int64_t size_bytes, void *out);

/* save.c: one worker as a store, and where it stands. Writing reads `copy`, while the run goes on;
 * NULL: the run itself, which stands still. */
struct sl_store sl_ckpt_train_store(struct sl_train *train);
struct sl_store_place sl_ckpt_train_place(const struct sl_train *train);
SL_MUST_CHECK sl_err sl_ckpt_train_write(void *train, const struct sl_copy *copy,
                                         const struct sl_save *save);

/* A copy of it, for which its optimizer steps wait from now on. */
SL_MUST_CHECK sl_err sl_ckpt_train_open_copy(struct sl_train *train, struct sl_copy **out);

/* Memory of a tensor on a worker (weights: of slab `version`), NULL when it has none of it. */
char *sl_ckpt_worker_memory(const struct sl_worker *worker, const struct sl_tensor_id *id,
                            int version);
/* at_rest of a store: when there is a copy that steps wait for. With several weight versions slabs
 * take turns, and the start of a run moves them, too. */
const void *sl_ckpt_train_at_rest(const struct sl_train *train, const struct sl_tensor_id *id);

#endif
