/* A store: the tensors of a run and its position, wherever they are in memory. The runner of a
 * training run fills this interface; ckpt.h draws how a save and a load use it.
 *
 * Tensors are moved in pieces, so no process holds a whole model. One process, the root, reads and
 * writes files. The others answer its requests in serve().
 */
#ifndef SL_CKPT_STORE_H
#define SL_CKPT_STORE_H

#include "ckpt/ckpt.h"
#include "graph/graph.h"

struct sl_ckpt_copy;
struct sl_ckpt_place;

/* The condition under which a tensor is part of a checkpoint. */
enum sl_ckpt_when {
    SL_CKPT_ALWAYS,
    SL_CKPT_PREVIOUS,  /* if place.previous: weights one version older than the newest */
    SL_CKPT_IN_FLIGHT, /* if place.in_flight: state of a pipeline that is not empty */
};

/* A tensor of fp32 values. */
struct sl_ckpt_entry {
    const char *name;
    const struct sl_shape *shape;
    enum sl_ckpt_group group;
    const char *policy; /* the staleness policy that keeps this tensor between steps, or NULL */
    enum sl_ckpt_when when;
};

struct sl_ckpt_store {
    /* Every tensor of the run, in the same order on all ranks; the functions take its index. */
    const struct sl_ckpt_entry *entries;
    int64_t count;
    bool is_root;
    void *ctx;
    bool (*is_local)(void *ctx, int64_t entry); /* is the tensor in this process? */
    sl_err (*get)(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out);
    sl_err (*put)(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes);
    /* Returns the host memory of the tensor if only optimizer steps write it, else NULL. */
    const void *(*at_rest)(void *ctx, int64_t entry);
    /* From now on optimizer steps call sl_ckpt_copy_await(copy). copy NULL: no longer. */
    void (*attach)(void *ctx, struct sl_ckpt_copy *copy);
    /* Called on ranks other than the root: answers requests until the root ends. Reads local
     * tensors from the snapshot `copy`, or from the run if it is NULL. NULL function: one
     * process. */
    sl_err (*serve)(void *ctx, const struct sl_ckpt_copy *copy);
    /* Called on every rank when its part has ended with `err`. Returns the first error of any rank
     * that it knows of. NULL function: one process. */
    sl_err (*end)(void *ctx, sl_err err);
    /* Called on the root before a load: does the state in flight that the checkpoint holds fit the
     * run? SL_ERR_REFUSED if it does not and the run must not continue without it. NULL function:
     * the state is ignored. */
    sl_err (*fits)(void *ctx, const struct sl_ckpt_place *place, bool may_drop, bool *fits);
};

/* The position of a run, and the facts that a resume must share with it. */
enum { SL_CKPT_SCALE_TEXT = 256, SL_CKPT_CUT_TEXT = 64 };
struct sl_ckpt_place {
    int64_t step, sample;                /* finished steps; consumed samples */
    uint64_t seed;                       /* seed of the run */
    uint64_t data;                       /* fingerprint of the data set */
    uint64_t model;                      /* hash of the graph; 0: unknown */
    char loss_scale[SL_CKPT_SCALE_TEXT]; /* state of a dynamic loss scale; "": no such scale */
    char cut[SL_CKPT_CUT_TEXT]; /* the cut where an asynchronous pipeline paused; "": it did not */
    bool previous, in_flight;   /* are tensors of these kinds saved, or have they been loaded? */
};

/* Where and how a checkpoint is written. */
struct sl_ckpt_target {
    const char *run;                   /* run directory */
    const char *config;                /* text that the checkpoint contains */
    int keep;                          /* number of checkpoints to keep; 0: all */
    const struct sl_ckpt_files *files; /* NULL: those of the system */
};

/* save.c. Every rank calls. Reads local tensors from `copy`; NULL: from the store itself, which
 * must not change meanwhile. */
SL_MUST_CHECK sl_err sl_ckpt_store_save(const struct sl_ckpt_store *store,
                                        const struct sl_ckpt_copy *copy,
                                        const struct sl_ckpt_target *target,
                                        const struct sl_ckpt_place *place);

/* The checkpoint to load, and how. */
struct sl_ckpt_source {
    const char *run;
    bool weights_only; /* load parameters and running statistics, but not the position */
    bool any_data;     /* the run may continue with other data and without its state in flight */
    int64_t step;      /* used only with `skipped`; 0: the newest undamaged one */
    /* NULL: load the latest checkpoint or fail. Else load the newest undamaged one; only the
     * process that may write to the run does that (sl_ckpt_roll_back). The text tells what was
     * skipped and why; "": nothing. */
    struct sl_text *skipped;
};

/* load.c. Every rank calls. Reads a checkpoint of a run. With weights_only `*place` does not
 * change. Else place->seed, place->data and place->model must hold those of this run; the root's
 * `*place` becomes that of the checkpoint, and those of other ranks do not change. */
SL_MUST_CHECK sl_err sl_ckpt_store_load(const struct sl_ckpt_store *store,
                                        const struct sl_ckpt_source *source,
                                        struct sl_ckpt_place *place);

/* Is the entry part of a checkpoint with this position? */
static inline bool sl_ckpt_entry_counts(const struct sl_ckpt_entry *entry,
                                        const struct sl_ckpt_place *place) {
    return entry->when == SL_CKPT_ALWAYS ||
           (entry->when == SL_CKPT_PREVIOUS ? place->previous : place->in_flight);
}

/* copy.c. A snapshot of the local tensors, from which a thread writes while the run continues. open
 * allocates and touches all its memory.
 *
 *   step loop   begin: copies tensors that passes write, or that are not in host memory
 *   writer      finish: copies the other tensors while passes read them
 *   step loop   await: an optimizer step waits for finish before it writes */
SL_MUST_CHECK sl_err sl_ckpt_copy_open(const struct sl_ckpt_store *store,
                                       struct sl_ckpt_copy **out);
void sl_ckpt_copy_close(struct sl_ckpt_copy *copy); /* copy may be NULL */
SL_MUST_CHECK sl_err sl_ckpt_copy_begin(struct sl_ckpt_copy *copy,
                                        const struct sl_ckpt_place *place);
void sl_ckpt_copy_finish(struct sl_ckpt_copy *copy);
void sl_ckpt_copy_await(struct sl_ckpt_copy *copy); /* copy may be NULL */
/* waiters: threads that are in await now. waited_ns: the longest wait since the last call. */
int sl_ckpt_copy_waiters(const struct sl_ckpt_copy *copy);
int64_t sl_ckpt_copy_waited_ns(struct sl_ckpt_copy *copy);
int64_t sl_ckpt_copy_bytes(const struct sl_ckpt_copy *copy);
/* Copies a piece of a local tensor out of the snapshot. */
void sl_ckpt_copy_get(const struct sl_ckpt_copy *copy, int64_t entry, int64_t from,
                      int64_t size_bytes, void *out);

#endif
