/* A training session in a run directory: steps, evaluations, checkpoints, log; stops when asked.
 *
 *   RUN/config.json    what was asked for, resolved          RUN/log.jsonl  one line per step:
 * truth RUN/ckpt/          checkpoints                           RUN/events.out.tfevents...
 * TensorBoard
 */
#ifndef SL_RUN_SESSION_H
#define SL_RUN_SESSION_H

#include "ckpt/saver.h"
#include "pipe/pipe.h"
#include "run/audit.h"

#include <signal.h>

/* What a session is about to do. */
struct sl_session_start {
    int64_t step;       /* finished before */
    int64_t params;     /* elements of all parameters */
    int64_t bytes;      /* sl_run_session_bytes; of a pipeline: what its workers have allocated */
    int64_t copy_bytes; /* of this process, for checkpoints beside the run; 0: saving stops it */
    const int64_t *worker_bytes; /* [workers] of a pipeline, else NULL */
    const int64_t *rank_bytes;   /* [ranks] of a pipeline: predicted for each process, else NULL */
};

struct sl_session_config {
    struct sl_train_config train;
    const struct sl_plan *plan; /* a pipeline; NULL: one worker */
    const int *stage_of;        /* [forward nodes], with a plan */
    const char *schedule;
    enum sl_bind_mode bind;   /* of the pipeline's workers */
    bool lend;                /* their idle threads to each other: see sl_pipe_config */
    int64_t slack;            /* see sl_sched_opts */
    struct sl_comm *comm;     /* of the pipeline; NULL: threads. Files and callbacks are rank 0's */
    const char *run;          /* directory; NULL: keep nothing */
    const char *config;       /* JSON text of config.json */
    const char *model;        /* flat model text of model.model */
    const char *plan_text;    /* of plan.plan; NULL: none */
    const char *forecast;     /* of forecast.json; NULL: none */
    const char *init;         /* checkpoint to take weights from, or NULL */
    int64_t checkpoint_every; /* steps; 0: only at the end */
    /* > 0 and no checkpoint_every: the first save after so long, the others as its cost allows.
     * Asynchronous schedules drain for a save, which changes them: they are saved at the end. */
    int64_t pace_ns;
    bool save_stops; /* the run, until a checkpoint is durable; else it is written beside the run */
    int keep;        /* checkpoints */
    bool resume;
    double peak_flops; /* per second, what the cores in use reach at best; 0: not known */
    const volatile sig_atomic_t *stop; /* set by a signal: finish the step, save, return */
    void *ctx;
    void (*on_start)(void *ctx, const struct sl_session_start *start);
    void (*on_end)(void *ctx); /* of every rank, after the last step, while all memory is held */
    void (*on_step)(void *ctx, const struct sl_step_report *report);
    /* A step that has ended while an asynchronous pipeline of several ranks is full: on_step hears
     * of it, and of those that were left out, when the pipeline is empty. */
    void (*on_provisional)(void *ctx, const struct sl_step_report *report);
    void (*on_eval)(void *ctx, const struct sl_eval_report *report);
    int64_t stall_ns; /* see sl_pipe_config */
    /* Before every action of a pipeline, by its worker; see sl_pipe_config. */
    sl_err (*on_action)(void *ctx, int worker, int64_t action);
    void *on_action_ctx;
    bool global_step; /* asynchronous schedules: one verdict before each step */
    bool staleness;   /* log it */
    bool trace;       /* measure when everything happens in a pipeline */
    int64_t
        trace_steps; /* synchronous schedules: so many at a time; 0: enough for a good picture */
    /* After each run of the pipeline; `step` of the training run is the last one in it. */
    void (*on_trace)(void *ctx, const struct sl_timeline *timeline, int64_t step);
    /* A checkpoint is durable; with pace_ns, the next one comes after `every` steps. */
    void (*on_save)(void *ctx, const struct sl_save_report *report, int64_t every);
};

struct sl_session_result {
    int64_t steps_done; /* in this session */
    int64_t step;       /* of the run */
    bool stopped, was_finished, resumed;
    bool abandoned; /* a worker is stuck: what the configuration names must stay */
    double last_loss, best_eval, last_eval; /* NAN: none */
    int64_t bytes;                          /* sl_run_session_bytes; of a pipeline: allocated */
    struct sl_run_audit_count audit;        /* of this process */
};

/* What the process is predicted to need when one worker trains: the worker, its data set, saving.
 */
int64_t sl_run_session_bytes(const struct sl_session_config *config, const struct sl_train *train);

SL_MUST_CHECK sl_err sl_run_session_run(const struct sl_session_config *config,
                                        struct sl_session_result *result);

#endif
