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
#include "run/runner.h"

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
    bool lend;  /* a waiting worker executes pieces of other workers' passes (device/lend.h) */
    bool trace; /* measure the timeline */
    int64_t trace_steps; /* of a synchronous schedule per timeline; 0: enough for a picture */
    bool staleness;      /* measure it */
    bool global_step;    /* asynchronous schedules: clip and skip by the global norm */
    int64_t stall_ns;    /* the watchdog's minimum (guard.c); 0: SL_STALL_NS */
    /* Called by worker threads before every action, for tests and drills; an error ends the run.
     * NULL: none. */
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
    void *on_action_ctx;
    struct sl_run_hooks hooks;
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

/* eval.c: loss and accuracy over train->eval_samples samples of the validation split, when the
 * pipeline was opened with an eval_graph and eval_every > 0; the bits of sl_run_train_eval. */
SL_MUST_CHECK sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report);

/* runner.c: the pipeline as a runner of the training loop; the caller closes the pipeline. */
struct sl_runner sl_pipe_runner(struct sl_pipe *pipe);
/* Opens the runner that `config` describes (a pipeline, or one worker if it has no plan), runs the
 * session and closes the runner. After result->abandoned nothing that `config` names may be freed. */
struct sl_session_config;
struct sl_session_result;
SL_MUST_CHECK sl_err sl_pipe_session_run(const struct sl_session_config *session,
                                         const struct sl_pipe_config *config,
                                         struct sl_session_result *result);

/* store.c: the tensors of all ranks (ckpt/store.h), and all of them with the position of the run
 * into a one-worker run on rank 0 (NULL elsewhere). All ranks call gather. */
struct sl_ckpt_store sl_pipe_store(struct sl_pipe *pipe);
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
