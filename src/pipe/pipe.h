/* A pipeline: obeys a verified schedule, action by action.
 *
 *   worker thread w:  for each action of its list: actions[kind](worker, action)
 *
 * Messages travel through channels, one per edge, direction and pair of replicas; a pass waits for
 * what it reads, a send waits for a free place, and since the schedule is verified with no
 * buffering at all, neither can wait for ever. When one worker fails, it says so to all, and all
 * end with its error.
 *
 * A run of n steps is one schedule of n iterations. Between runs the pipeline is empty, so that
 * evaluation and checkpoints see whole weights.
 */
#ifndef SL_PIPE_PIPE_H
#define SL_PIPE_PIPE_H

#include "comm/comm.h"
#include "pipe/bind.h"
#include "run/audit.h"
#include "run/train.h"
#include "sched/timeline.h"

#include <signal.h>

/* How far the weights that a pass read were from those it stood for (pipe_watch.c). */
struct sl_staleness {
    int64_t step; /* whose making showed it */
    int64_t base; /* version it started from, counted over the whole run */
    int stage, ahead;
    bool backward, predicts;
    double predicted, stale; /* root mean square, over all elements of the stage's weights */
};

/* Under a sanitizer everything is slow, and workers sleep on locks of its own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int64_t SL_STALL_NS = 60000000000;
#else
static const int64_t SL_STALL_NS = 5000000000;
#endif

struct sl_pipe_config {
    const struct sl_train_config *train;
    const struct sl_plan *plan;
    const int *stage_of; /* [forward nodes] */
    const char *schedule;
    int64_t slack;        /* of the schedule: see sl_sched_opts */
    struct sl_comm *comm; /* NULL: all workers are threads of this process */
    enum sl_bind_mode bind;
    bool lend; /* workers of a process that wait take pieces of others' work (device/lend.h) */
    bool trace;
    bool staleness;   /* watch it */
    bool global_step; /* asynchronous schedules: one verdict (norm, finite) before each step */
    int64_t stall_ns; /* no action is stalled sooner (pipe_guard.c); 0: SL_STALL_NS */
    /* Called by worker threads before every action: tests wait here, and drills fail. NULL: none.
     */
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
    void *on_action_ctx;
    /* Called by the thread of sl_pipe_run for steps that end while an asynchronous run goes on, in
     * order; the bubble is that of the run so far. Of several ranks rank 0 is told, of some steps
     * only, with losses that are added in another order. NULL: nobody listens. */
    void (*on_step)(void *ctx, const struct sl_step_report *report);
    void *on_step_ctx;
    /* Not 0: an asynchronous run of one process ends soon, after whole steps. NULL: never. */
    const volatile sig_atomic_t *stop;
};

struct sl_pipe;

SL_MUST_CHECK sl_err sl_pipe_open(const struct sl_pipe_config *config, struct sl_pipe **out);
/* After a stall a worker may never come back: then its memory, and all that the configuration
 * names, stays as it is (sl_pipe_is_abandoned). */
void sl_pipe_close(struct sl_pipe *pipe);
bool sl_pipe_is_abandoned(const struct sl_pipe *pipe);

/* Run `steps` optimizer steps, or fewer when it is stopped: sl_pipe_ran; reports[steps] is filled.
 */
SL_MUST_CHECK sl_err sl_pipe_run(struct sl_pipe *pipe, int64_t steps,
                                 struct sl_step_report *reports);

/* pipe_eval.c: loss and accuracy over train->eval_samples samples of the validation split, when the
 * pipeline was opened with an eval_graph and eval_every > 0; the bits of sl_run_train_eval. */
SL_MUST_CHECK sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report);

/* pipe_store.c: a checkpoint of the pipeline (see sl_ckpt_train_write), and back, into every weight
 * version. Rank 0 writes and reads; all ranks must call. Who fails to write tells all workers. The
 * copy is of what this rank has. */
struct sl_copy;
struct sl_save;
SL_MUST_CHECK sl_err sl_pipe_open_copy(struct sl_pipe *pipe, struct sl_copy **out);
SL_MUST_CHECK sl_err sl_pipe_write(void *pipe, const struct sl_copy *copy,
                                   const struct sl_save *save);
struct sl_store_place sl_pipe_place(const struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_load(struct sl_pipe *pipe, const char *run, bool weights_only);
/* All tensors and the place in the run into a one-worker run on rank 0 (NULL elsewhere). */
SL_MUST_CHECK sl_err sl_pipe_gather(struct sl_pipe *pipe, struct sl_train *train);

int64_t sl_pipe_step_count(const struct sl_pipe *pipe); /* finished steps of the run */
int64_t sl_pipe_ran(const struct sl_pipe *pipe);        /* those of the last sl_pipe_run */
/* Of the last run: the part of the workers' time that was not spent in actions. */
double sl_pipe_bubble(const struct sl_pipe *pipe);

/* What was watched on all ranks in the runs since the last call, in order; the caller frees it, and
 * calls it on all ranks. */
SL_MUST_CHECK sl_err sl_pipe_take_staleness(struct sl_pipe *pipe, struct sl_staleness **out,
                                            int64_t *count);

/* Pieces of work that workers of this rank have done for others; 0 unless they lend. */
int64_t sl_pipe_lent(const struct sl_pipe *pipe);

/* Of the workers of this rank, when the run is audited. */
struct sl_run_audit_count sl_pipe_audit_count(const struct sl_pipe *pipe);

bool sl_pipe_is_synchronous(const struct sl_pipe *pipe);
int sl_pipe_stage_count(const struct sl_pipe *pipe);
/* The memory of a stage; NULL: it is on another rank. */
struct sl_worker *sl_pipe_worker(const struct sl_pipe *pipe, int stage); /* of replica 0 */
struct sl_worker *sl_pipe_replica(const struct sl_pipe *pipe, int stage, int replica);
/* The weight slab that holds the newest weights. */
int sl_pipe_newest(const struct sl_pipe *pipe, int stage);
const struct sl_timeline *
sl_pipe_timeline(const struct sl_pipe *pipe); /* of the last run, or NULL */
/* Memory of each worker, of all ranks: allocated; and what the verifier has counted for it. */
const int64_t *sl_pipe_bytes(const struct sl_pipe *pipe);
int64_t sl_pipe_proved_bytes(const struct sl_pipe *pipe, int worker);
/* What this process needs for its workers: what the verifier has counted for them, with all places
 * of the channels that begin or end here. Between ranks both ends see the whole ring. `files`: it
 * reads or writes some, else nothing is sent for that. */
int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files);

#endif
