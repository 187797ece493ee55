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

/* When is a tensor part of a checkpoint? */
enum sl_ckpt_when {
    SL_CKPT_ALWAYS,
    SL_CKPT_PREVIOUS,  /* place.previous: weights one version older than the newest */
    SL_CKPT_IN_FLIGHT, /* place.in_flight: state of a pipeline that is not empty */
};

/* A tensor of fp32 values. */
struct sl_ckpt_entry {
    const char *name;
    const struct sl_shape *shape;
    enum sl_ckpt_group group;
    const char *policy; /* staleness policy that keeps it between steps, or NULL */
    enum sl_ckpt_when when;
};

struct sl_ckpt_store {
    /* Every tensor of the run, in the same order on all ranks; the functions take its index. */
    const struct sl_ckpt_entry *entries;
    int64_t count;
    bool is_root;
    void *ctx;
    bool (*is_local)(void *ctx, int64_t entry); /* in this process? */
    sl_err (*get)(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out);
    sl_err (*put)(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes);
    /* Host memory of the tensor if only optimizer steps write it, else NULL. */
    const void *(*at_rest)(void *ctx, int64_t entry);
    /* From now on optimizer steps call sl_ckpt_copy_await(copy); NULL: no longer. */
    void (*attach)(void *ctx, struct sl_ckpt_copy *copy);
    /* Ranks other than the root: answer requests until the root ends. They read local tensors from
     * the copy, or from the run where it is NULL. NULL function: one process. */
    sl_err (*serve)(void *ctx, const struct sl_ckpt_copy *copy);
    /* On every rank, when its part has ended with `err`. Returns the first error of any rank that
     * it knows. NULL function: one process. */
    sl_err (*end)(void *ctx, sl_err err);
    /* The root, before a load: does the state in flight of the checkpoint fit the run? SL_ERR_REFUSED
     * if it does not and the run must not go on without it. NULL function: it is ignored. */
    sl_err (*fits)(void *ctx, const struct sl_ckpt_place *place, bool may_drop, bool *fits);
};

/* The position of a run, and the facts that a resume must share with it. */
enum { SL_CKPT_SCALE_TEXT = 256, SL_CKPT_CUT_TEXT = 64 };
struct sl_ckpt_place {
    int64_t step, sample;                /* finished steps; samples consumed */
    uint64_t seed;                       /* of the run */
    uint64_t data;                       /* fingerprint of the data set */
    uint64_t model;                      /* hash of the graph; 0: not known */
    char loss_scale[SL_CKPT_SCALE_TEXT]; /* state of a dynamic loss scale; "": none */
    char cut[SL_CKPT_CUT_TEXT];          /* where an asynchronous pipeline paused; "": nowhere */
    bool previous, in_flight;            /* tensors of these kinds are saved, or were loaded */
};

/* Where a checkpoint goes. */
struct sl_ckpt_target {
    const char *run;                   /* directory */
    const char *config;                /* text kept in the checkpoint */
    int keep;                          /* checkpoints, 0: all */
    const struct sl_ckpt_files *files; /* NULL: the system's */
};

/* save.c. Every rank calls. Local tensors come from `copy`; NULL: from the store itself, which must
 * not change meanwhile. */
SL_MUST_CHECK sl_err sl_ckpt_store_save(const struct sl_ckpt_store *store,
                                        const struct sl_ckpt_copy *copy,
                                        const struct sl_ckpt_target *target,
                                        const struct sl_ckpt_place *place);

/* Which checkpoint to load. */
struct sl_ckpt_source {
    const char *run;
    bool weights_only; /* parameters and running statistics, not the position */
    bool any_data;     /* the run may continue with other data, and without its state in flight */
    int64_t step;      /* only with `skipped`; 0: the newest whole one */
    /* NULL: only the latest checkpoint counts. Else the newest whole one, by the process that may
     * write to the run (sl_ckpt_roll_back); the text tells what was skipped and why, "": nothing. */
    struct sl_text *skipped;
};

/* load.c. Every rank calls. Reads a checkpoint of a run. weights_only: `*place` keeps its value. Else
 * place->seed, place->data and place->model must hold those of this run; the root's `*place` becomes
 * that of the checkpoint, the others keep theirs. */
SL_MUST_CHECK sl_err sl_ckpt_store_load(const struct sl_ckpt_store *store,
                                        const struct sl_ckpt_source *source,
                                        struct sl_ckpt_place *place);

/* Is the entry part of a checkpoint of this place? */
static inline bool sl_ckpt_entry_counts(const struct sl_ckpt_entry *entry,
                                        const struct sl_ckpt_place *place) {
    return entry->when == SL_CKPT_ALWAYS ||
           (entry->when == SL_CKPT_PREVIOUS ? place->previous : place->in_flight);
}

/* copy.c: a snapshot of the local tensors, from which a thread writes while the run continues. All
 * its memory is allocated and touched by open.
 *
 *   step loop   begin: copies tensors that passes write, or that are not in host memory
 *   writer      finish: copies the rest while passes read it
 *   step loop   await: an optimizer step waits for finish before it writes
 */
SL_MUST_CHECK sl_err sl_ckpt_copy_open(const struct sl_ckpt_store *store,
                                       struct sl_ckpt_copy **out);
void sl_ckpt_copy_close(struct sl_ckpt_copy *copy); /* NULL is fine */
SL_MUST_CHECK sl_err sl_ckpt_copy_begin(struct sl_ckpt_copy *copy,
                                        const struct sl_ckpt_place *place);
void sl_ckpt_copy_finish(struct sl_ckpt_copy *copy);
void sl_ckpt_copy_await(struct sl_ckpt_copy *copy); /* NULL is fine */
/* Threads in await now; the longest wait since the last call. */
int sl_ckpt_copy_waiters(const struct sl_ckpt_copy *copy);
int64_t sl_ckpt_copy_waited_ns(struct sl_ckpt_copy *copy);
int64_t sl_ckpt_copy_bytes(const struct sl_ckpt_copy *copy);
/* A piece of a local tensor. */
void sl_ckpt_copy_get(const struct sl_ckpt_copy *copy, int64_t entry, int64_t from,
                      int64_t size_bytes, void *out);

#endif
