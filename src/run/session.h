/* A training session: the loop over a runner's steps, with evaluations, checkpoints and a log in a
 * run directory. It ends after the last step, or after the current one when asked to stop.
 *
 *   RUN/config.json              resolved settings of the run
 *   RUN/model.model              flat model text
 *   RUN/plan.plan                a pipeline's plan
 *   RUN/schedule.sched           its schedule, if it is from a file or a module
 *   RUN/forecast.json            predicted step time, if there is a prediction
 *   RUN/log.jsonl                one line per step, evaluation, staleness measurement
 *   RUN/events.out.tfevents...   the same scalars for TensorBoard
 *   RUN/ckpt/                    checkpoints (ckpt/ckpt.h)
 *   RUN/lock                     the process that writes to the run (ckpt/lock.h)
 */
#ifndef SL_RUN_SESSION_H
#define SL_RUN_SESSION_H

#include "ckpt/saver.h"
#include "run/runner.h"

/* Facts at the start of a session. */
struct sl_session_start {
    int64_t step;       /* finished before */
    int64_t params;     /* elements of all parameters */
    int64_t bytes;      /* one worker: predicted for the process; pipeline: allocated by workers */
    int64_t copy_bytes; /* of this process, for saving while steps run; 0: saving stops it */
    const int64_t *worker_bytes; /* [workers] of a pipeline, else NULL */
    int worker_count;
    const int64_t *rank_bytes; /* [ranks] of a pipeline: predicted for each process, else NULL */
    const char *skipped;       /* checkpoints that were skipped, and why, one per line; "": none */
};

/* Files and callbacks are those of rank 0. */
struct sl_session_config {
    const char *run;          /* directory; NULL: keep nothing */
    const char *config;       /* JSON text of config.json */
    const char *ckpt_config;  /* JSON text kept in checkpoints; NULL: config */
    const char *model;        /* flat model text of model.model */
    const char *plan_text;    /* of plan.plan; NULL: none */
    const char *sched_text;   /* of schedule.sched; NULL: none */
    const char *forecast;     /* of forecast.json; NULL: none */
    const char *init;         /* checkpoint with the initial weights, or NULL */
    int64_t checkpoint_every; /* steps; 0: only at the end */
    /* > 0 and no checkpoint_every: the first save after this time, later ones as often as their
     * cost allows. */
    int64_t pace_ns;
    bool save_stops;  /* the run waits until a checkpoint is durable; else it continues meanwhile */
    int keep;         /* checkpoints */
    bool keep_best;   /* save and keep the checkpoint of the lowest validation loss, too */
    int64_t patience; /* stop after so many evaluations without a lower loss; 0: never */
    bool resume;
    bool any_data;           /* a resumed run may have other data */
    int64_t from_step;       /* resume from the checkpoint of this step; 0: the newest whole one */
    const char *read_config; /* config.json as the caller read it for a resume; NULL: not read */
    double peak_flops;       /* per second that the cores in use can reach; 0: not known */
    const atomic_int *stop;  /* set by a signal: finish the step, save, return */
    void *ctx;
    void (*on_start)(void *ctx, const struct sl_session_start *start);
    void (*on_step)(void *ctx, const struct sl_step_report *report);
    /* A step that has ended while an asynchronous pipeline of several ranks is full. on_step gets
     * it, and those left out here, when the pipeline is empty. */
    void (*on_provisional)(void *ctx, const struct sl_step_report *report);
    void (*on_eval)(void *ctx, const struct sl_eval_report *report);
    /* After each run of a pipeline that measures; `step` is the last one in it. */
    void (*on_trace)(void *ctx, const struct sl_timeline *timeline, int64_t step);
    /* A checkpoint is durable; with pace_ns, the next one follows after `every` steps. */
    void (*on_save)(void *ctx, const struct sl_save_report *report, int64_t every);
};

struct sl_session_result {
    int64_t steps_done;   /* in this session */
    int64_t step;         /* of the run */
    int64_t skipped;      /* of steps_done: their gradient was not finite */
    int64_t last_skipped; /* so many at the end, not counting those that the loss scale caused */
    bool early;           /* stopped by `patience` */
    int64_t best_step;    /* of best_eval, with keep_best or patience */
    bool diverged;        /* the run has ended, and its last steps were all skipped */
    bool stopped, was_finished, resumed;
    bool abandoned; /* set by sl_pipe_session_run: a worker is stuck, its memory must stay */
    double last_loss, best_eval, last_eval; /* NAN: none */
    int64_t bytes;                          /* sl_session_start.bytes */
    struct sl_run_audit_count audit;        /* of this process */
};

/* Runs the session on an opened runner, which the caller closes: open, advance to the end, close. */
SL_MUST_CHECK sl_err sl_run_session_run(const struct sl_session_config *config,
                                        const struct sl_runner *runner,
                                        struct sl_session_result *result);

/* The same in parts; on several ranks all ranks make the same calls. What the arguments of open
 * point to must stay until close. Open starts or resumes the run. */
struct sl_session;
SL_MUST_CHECK sl_err sl_run_session_open(const struct sl_session_config *config,
                                         const struct sl_runner *runner,
                                         struct sl_session_result *result, struct sl_session **out);
/* Up to so many further steps, and updates the result. The last step of the run, or a stop, is
 * followed by a checkpoint. */
SL_MUST_CHECK sl_err sl_run_session_advance(struct sl_session *session, int64_t steps);
/* Saves a checkpoint of the current step and waits until it is durable. */
SL_MUST_CHECK sl_err sl_run_session_save(struct sl_session *session);
void sl_run_session_close(struct sl_session *session); /* NULL is fine */

#endif
