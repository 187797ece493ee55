/* A pipeline: worker threads that execute a verified schedule, action by action.
 *
 *   open -> { run n steps | eval | save | load } ... -> close
 *
 *   worker thread w:  for each action of its list: actions[kind](worker, action)
 *
 * There is one channel per edge, direction and pair of replicas. A pass waits for its inputs; a send
 * waits for a free place. The verifier proves the schedule without counting on buffers, so every
 * wait ends. When a worker fails, all workers end with its error.
 *
 * For a synchronous run of n steps the schedule has n iterations; the pipeline is empty afterwards.
 * An asynchronous schedule makes all steps of the training run. Between two calls of sl_pipe_run it
 * pauses with micro-batches in flight, each worker right after a step: evaluations and checkpoints
 * see the weights after that step and do not change the results (pipe/resume.h). */
#ifndef SL_PIPE_PIPE_H
#define SL_PIPE_PIPE_H

#include "comm/comm.h"
#include "pipe/bind.h"
#include "run/runner.h"

/* A longer limit under sanitizers: they slow everything down, and workers sleep on their locks. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int64_t SL_STALL_NS = 60000000000;
#else
static const int64_t SL_STALL_NS = 5000000000;
#endif

struct sl_pipe_config {
    const struct sl_train_config *train;
    const struct sl_plan *plan;
    const int *stage_of; /* [forward nodes] stage of each */
    const char *schedule;
    const struct sl_schedule *row; /* NULL: the row with the name `schedule` */
    int64_t slack;                 /* slack of the schedule: see sl_schedule_opts */
    struct sl_comm *comm;          /* NULL: all workers are threads of this process */
    enum sl_bind_mode bind;
    bool lend;  /* a waiting worker executes pieces of other workers' passes (device/lend.h) */
    bool trace; /* measure the timeline */
    int64_t trace_steps; /* steps per timeline of a synchronous schedule; 0: enough for a picture */
    bool staleness;      /* measure the staleness of weights */
    bool global_step;    /* asynchronous schedules: clip and skip by the global norm */
    int64_t stall_ns;    /* the watchdog's least stall limit (watchdog.c); 0: SL_STALL_NS */
    /* Called by worker threads before every action that runs; for tests and drills. An error ends the run.
     * NULL: none. */
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
    void *on_action_ctx;
    struct sl_run_hooks hooks;
};

struct sl_pipe;

SL_MUST_CHECK sl_err sl_pipe_open(const struct sl_pipe_config *config, struct sl_pipe **out);
/* Closes a pipeline, or NULL. If it is abandoned (a worker hangs after a stall and may never
 * return), close frees nothing, and everything that the configuration points to must stay. */
void sl_pipe_close(struct sl_pipe *pipe);
bool sl_pipe_is_abandoned(const struct sl_pipe *pipe);

/* Runs `steps` optimizer steps and fills reports[steps]; hooks.stop may end it earlier (see
 * sl_pipe_ran). */
SL_MUST_CHECK sl_err sl_pipe_run(struct sl_pipe *pipe, int64_t steps,
                                 struct sl_step_report *reports);

/* eval.c. Loss and accuracy over train->eval_samples samples of the validation split,
 * bit-identical to sl_run_train_eval. The train config must have an eval_graph, and set
 * eval_every or evaluates. */
SL_MUST_CHECK sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report);

/* runner.c. The pipeline as a runner of the training loop; the caller closes the pipeline. */
struct sl_runner sl_pipe_runner(struct sl_pipe *pipe);

/* The runner that `config` describes: a pipeline, or one worker if it has no plan. If the pipeline
 * is abandoned, do not close the runner and keep all that `config` points to. */
struct sl_pipe_run {
    struct sl_pipe *pipe; /* NULL: one worker */
    struct sl_train *one; /* NULL: a pipeline */
    struct sl_runner runner;
};
SL_MUST_CHECK sl_err sl_pipe_run_open(const struct sl_pipe_config *config, struct sl_pipe_run *out);
void sl_pipe_run_close(struct sl_pipe_run *run);
/* Opens a runner, runs the session and closes the runner. If result->abandoned is set, the caller
 * must not free anything that `config` points to. */
struct sl_session_config;
struct sl_session_result;
SL_MUST_CHECK sl_err sl_pipe_session_run(const struct sl_session_config *session,
                                         const struct sl_pipe_config *config,
                                         struct sl_session_result *result);

/* store.c. store: the tensors of all ranks as a store (ckpt/store.h). gather: copies all tensors
 * and the position of the run into a one-worker run on rank 0; all ranks call it, `train` is NULL
 * on the others. */
struct sl_ckpt_store sl_pipe_store(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_gather(struct sl_pipe *pipe, struct sl_train *train);

int64_t sl_pipe_step_count(const struct sl_pipe *pipe); /* steps of the run that are finished */
int64_t sl_pipe_ran(const struct sl_pipe *pipe);        /* steps that the last sl_pipe_run made */
/* Share of the workers' time that was spent outside actions, in the last run. */
double sl_pipe_bubble(const struct sl_pipe *pipe);

/* Moves the staleness that all ranks measured since the last call to `*out`, in order. All ranks
 * call; the caller frees it. */
SL_MUST_CHECK sl_err sl_pipe_take_staleness(struct sl_pipe *pipe, struct sl_staleness **out,
                                            int64_t *count);

/* Pieces of passes that local workers have executed for others; 0 unless config.lend. */
int64_t sl_pipe_lent(const struct sl_pipe *pipe);

/* What the audit has checked on the local workers, if the run is audited. */
struct sl_run_audit_count sl_pipe_audit_count(const struct sl_pipe *pipe);

bool sl_pipe_is_synchronous(const struct sl_pipe *pipe);
int sl_pipe_stage_count(const struct sl_pipe *pipe);
/* The worker of a stage, which holds its memory; NULL if it is on another rank. */
struct sl_worker *sl_pipe_worker(const struct sl_pipe *pipe, int stage); /* its replica 0 */
struct sl_worker *sl_pipe_replica(const struct sl_pipe *pipe, int stage, int replica);
/* The weight slab that holds the newest weights. */
int sl_pipe_newest(const struct sl_pipe *pipe, int stage); /* slab of the first local replica */
/* The same for one replica: replicas with different numbers of micro-batches may keep different
 * numbers of versions. */
int sl_pipe_replica_newest(const struct sl_pipe *pipe, int stage, int replica);
/* The timeline of the last run; NULL unless config.trace. */
const struct sl_timeline *sl_pipe_timeline(const struct sl_pipe *pipe);
/* Bytes of each worker, of all ranks: those allocated; and those that the verifier counts. */
const int64_t *sl_pipe_bytes(const struct sl_pipe *pipe);
int64_t sl_pipe_proved_bytes(const struct sl_pipe *pipe, int worker);
/* Returns the bytes that this process needs for its workers, as the verifier counts them, with all
 * places of the channels that begin or end here. Between ranks both ends hold the whole ring.
 * `files`: the process takes part in saves or loads. */
int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files);

#endif
