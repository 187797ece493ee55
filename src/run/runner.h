/* A runner executes optimizer steps for the training loop (run/session.h). It is an interface to
 * one worker (run/runner.c) or to a pipeline (pipe/pipe.h), which the caller opens and closes.
 *
 *   open a worker or a pipeline -> wrap it as a runner -> session: attach, load, {run, eval, save}
 *   -> close it
 *
 * Between calls no worker runs, and the store shows the state after a step; an asynchronous pipeline
 * may have micro-batches in flight. On several ranks every rank makes the same calls. */
#ifndef SL_RUN_RUNNER_H
#define SL_RUN_RUNNER_H

#include "comm/comm.h"
#include "run/audit.h"
#include "run/store.h"
#include "sched/timeline.h"

#include <stdatomic.h>

/* How far the weights that a pass read were from the version that it stood for. */
struct sl_staleness {
    int64_t step; /* step that made that version */
    int64_t base; /* version the pass started from, counted over the whole run */
    int stage, ahead;
    bool backward, predicts;
    double predicted, stale; /* root mean square, over all elements of the stage's weights */
};

/* Callbacks and flags between a runner and its caller while run() is running. */
struct sl_run_hooks {
    /* Called by the thread of run() for steps that end before run() returns, in order; the
     * bubble in the report is that of the run so far. With several ranks only rank 0 calls it,
     * for some of the steps, with losses added in another order: the report is provisional.
     * NULL: no early reports. */
    void (*on_step)(void *ctx, const struct sl_step_report *report);
    void *ctx;
    /* If *stop is not 0, an asynchronous pipeline of one process ends run() early, after whole
     * steps. The same if pause(), called a few times a second, returns true. NULL: never. */
    const atomic_int *stop;
    bool (*pause)(void *ctx);
};

struct sl_runner {
    const struct sl_runner_row *row;
    void *ctx;                           /* argument of the row's functions */
    const struct sl_train_config *train; /* configuration of the run */
    struct sl_comm *comm;                /* ranks of the run; NULL: one process */
    int64_t max_steps;                   /* most steps that one run() should be given */
    bool is_synchronous;                 /* no micro-batch is in flight between steps */
    /* why the run cannot be evaluated, saved or stopped before its end; NULL: it can */
    const char *obstacle;
};

struct sl_runner_row {
    const char *name;
    /* Called once, before the first run(). */
    void (*attach)(void *ctx, const struct sl_run_hooks *hooks);
    /* Runs at most `steps` steps; sets *ran to their number and fills reports[0 .. *ran - 1]. */
    sl_err (*run)(void *ctx, int64_t steps, struct sl_step_report *reports, int64_t *ran);
    /* Loss and accuracy over train->eval_samples samples of the validation split. */
    sl_err (*eval)(void *ctx, struct sl_eval_report *report);

    /* The state for checkpoints: tensors and position. restore() gets the position on the root; the
     * other ranks pass zeros. */
    struct sl_ckpt_store (*store)(void *ctx);
    struct sl_ckpt_place (*place)(void *ctx);
    sl_err (*restore)(void *ctx, const struct sl_ckpt_place *place);

    int64_t (*step)(const void *ctx); /* number of finished steps */
    /* Returns the predicted memory of this process: workers and messages. `files`: the process
     * takes part in saves. */
    int64_t (*predicted_bytes)(const void *ctx, bool files);
    /* Returns the allocated memory of each worker of all ranks; NULL: one worker. */
    const int64_t *(*worker_bytes)(const void *ctx, int *count);
    struct sl_run_audit_count (*audit)(const void *ctx); /* counts of this process */
    /* Returns the timeline of the last run(); NULL: not measured, or one worker. */
    const struct sl_timeline *(*timeline)(const void *ctx);
    /* Moves the staleness that all ranks measured since the last call to `*out`, in order; the
     * caller frees it. */
    sl_err (*take_staleness)(void *ctx, struct sl_staleness **out, int64_t *count);
};

/* Entries for runners of one worker, which has no list of workers, no timeline and no staleness. */
const int64_t *sl_run_no_worker_bytes(const void *ctx, int *count);
const struct sl_timeline *sl_run_no_timeline(const void *ctx);
sl_err sl_run_no_staleness(void *ctx, struct sl_staleness **out, int64_t *count);

/* One worker as a runner; the caller closes it. */
struct sl_runner sl_run_train_runner(struct sl_train *train);

/* Refuses a run that would fail at its first evaluation or checkpoint. */
SL_MUST_CHECK sl_err sl_run_runner_check(const struct sl_runner *runner, int64_t checkpoint_every);

/* Loads a checkpoint through the runner. Every rank calls it. */
SL_MUST_CHECK sl_err sl_run_runner_load(const struct sl_runner *runner,
                                        const struct sl_ckpt_source *source);

#endif
