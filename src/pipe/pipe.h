/* A pipeline: worker threads that execute a verified schedule, action by action.
 *
 *   open -> { run n steps | eval | save | load } ... -> close
 *
 *   worker thread w:  for each action of its list: actions[kind](worker, action)
 *
 * There is one channel per edge, direction and pair of replicas. A pass waits for its inputs; a send
 * waits for a free place. The schedule is verified without any buffering, so no wait is endless.
 * When a worker fails, all workers end with its error.
 *
 * A synchronous run of n steps is one schedule of n iterations; the pipeline is empty afterwards. An
 * asynchronous schedule makes all steps of the training run. Between two calls of run it pauses, right
 * after a step of every worker, with micro-batches in flight: evaluations and checkpoints see the
 * weights after that step and do not change the results (pipe/resume.h).
 */
#ifndef SL_PIPE_PIPE_H
#define SL_PIPE_PIPE_H

#include "comm/comm.h"
#include "pipe/bind.h"
#include "run/runner.h"

/* Sanitizers slow everything down, and workers sleep on their locks. */
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
    const struct sl_schedule *row; /* NULL: the one called `schedule` */
    int64_t slack;                 /* of the schedule: see sl_schedule_opts */
    struct sl_comm *comm;          /* NULL: all workers are threads of this process */
    enum sl_bind_mode bind;
    bool lend;  /* a waiting worker executes pieces of other workers' passes (device/lend.h) */
    bool trace; /* measure the timeline */
    int64_t trace_steps; /* of a synchronous schedule per timeline; 0: enough for a picture */
    bool staleness;      /* measure it */
    bool global_step;    /* asynchronous schedules: clip and skip by the global norm */
    int64_t stall_ns;    /* the watchdog's minimum (watchdog.c); 0: SL_STALL_NS */
    /* Called by worker threads before every action, for tests and drills; an error ends the run.
     * NULL: none. */
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
    void *on_action_ctx;
    struct sl_run_hooks hooks;
};

struct sl_pipe;

SL_MUST_CHECK sl_err sl_pipe_open(const struct sl_pipe_config *config, struct sl_pipe **out);
/* After a stall a worker may never return. Then close frees nothing, and all that the configuration
 * names must stay (sl_pipe_is_abandoned). NULL is fine. */
void sl_pipe_close(struct sl_pipe *pipe);
bool sl_pipe_is_abandoned(const struct sl_pipe *pipe);

/* Runs `steps` optimizer steps and fills reports[steps]; hooks.stop may end it earlier (see
 * sl_pipe_ran). */
SL_MUST_CHECK sl_err sl_pipe_run(struct sl_pipe *pipe, int64_t steps,
                                 struct sl_step_report *reports);

/* eval.c: loss and accuracy over train->eval_samples samples of the validation split, with the bits
 * of sl_run_train_eval. The pipeline needs an eval_graph, and eval_every or evaluates. */
SL_MUST_CHECK sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report);

/* runner.c: the pipeline as a runner of the training loop; the caller closes the pipeline. */
struct sl_runner sl_pipe_runner(struct sl_pipe *pipe);

/* The runner that `config` describes: a pipeline, or one worker if it has no plan. Close it unless
 * the pipeline is abandoned and what `config` names may go. */
struct sl_pipe_run {
    struct sl_pipe *pipe; /* or NULL */
    struct sl_train *one; /* or NULL */
    struct sl_runner runner;
};
SL_MUST_CHECK sl_err sl_pipe_run_open(const struct sl_pipe_config *config, struct sl_pipe_run *out);
void sl_pipe_run_close(struct sl_pipe_run *run);
/* Opens a runner, runs the session and closes the runner. After result->abandoned nothing that
 * `config` names may be freed. */
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
int64_t sl_pipe_ran(const struct sl_pipe *pipe);        /* steps of the last sl_pipe_run */
/* Share of the workers' time outside actions, in the last run. */
double sl_pipe_bubble(const struct sl_pipe *pipe);

/* Measured staleness of all ranks since the last call, in order. All ranks call; the caller frees
 * it. */
SL_MUST_CHECK sl_err sl_pipe_take_staleness(struct sl_pipe *pipe, struct sl_staleness **out,
                                            int64_t *count);

/* Pieces of passes that local workers have executed for others; 0 unless config.lend. */
int64_t sl_pipe_lent(const struct sl_pipe *pipe);

/* Of the local workers, if the run is audited. */
struct sl_run_audit_count sl_pipe_audit_count(const struct sl_pipe *pipe);

bool sl_pipe_is_synchronous(const struct sl_pipe *pipe);
int sl_pipe_stage_count(const struct sl_pipe *pipe);
/* The memory of a stage; NULL: it is on another rank. */
struct sl_worker *sl_pipe_worker(const struct sl_pipe *pipe, int stage); /* of replica 0 */
struct sl_worker *sl_pipe_replica(const struct sl_pipe *pipe, int stage, int replica);
/* The weight slab that holds the newest weights. */
int sl_pipe_newest(const struct sl_pipe *pipe, int stage); /* of its first local replica */
/* Replicas with other numbers of micro-batches may hold other numbers of versions. */
int sl_pipe_replica_newest(const struct sl_pipe *pipe, int stage, int replica);
/* Of the last run; NULL unless config.trace. */
const struct sl_timeline *sl_pipe_timeline(const struct sl_pipe *pipe);
/* Memory of each worker, of all ranks: allocated; and as the verifier counts it. */
const int64_t *sl_pipe_bytes(const struct sl_pipe *pipe);
int64_t sl_pipe_proved_bytes(const struct sl_pipe *pipe, int worker);
/* Memory that this process needs for its workers, as the verifier counts it, with all places of the
 * channels that begin or end here. Between ranks both ends hold the whole ring. `files`: it takes
 * part in saves or loads. */
int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files);

#endif
