/* A training session: the loop over a runner's steps, with evaluations, checkpoints and a log in a
 * run directory. It ends after the last step, or after the current one when asked to stop.
 *
 *   RUN/config.json              resolved settings of the run
 *   RUN/model.model              flat model text
 *   RUN/plan.plan                a pipeline's plan
 *   RUN/schedule.sched           its schedule, if it is from a file or a module
 *   RUN/categories.json          names of categories of the data, if there are any
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
    int64_t step;   /* steps that were finished before */
    int64_t params; /* number of elements of all parameters */
    /* one worker: predicted bytes of the process; pipeline: bytes allocated by the workers */
    int64_t bytes;
    /* bytes of this process for the snapshot of a save; 0: saving stops the run */
    int64_t copy_bytes;
    const int64_t *worker_bytes; /* [workers] bytes of a pipeline's workers, else NULL */
    int worker_count;
    const int64_t *rank_bytes; /* [ranks] predicted bytes of a pipeline's processes, else NULL */
    const char *obstacle;      /* of the runner */
    const char *skipped; /* checkpoints that were skipped, and why, one per line; "": none was */
};

/* What a session does. Files and callbacks are used on rank 0 only. */
struct sl_session_config {
    const char *run;          /* run directory; NULL: write no files */
    const char *config;       /* JSON text of config.json */
    const char *ckpt_config;  /* JSON text for checkpoints; NULL: the same as `config` */
    const char *model;        /* flat model text of model.model */
    const char *plan_text;    /* text of plan.plan; NULL: no plan */
    const char *sched_text;   /* text of schedule.sched; NULL: none */
    const char *forecast;     /* text of forecast.json; NULL: none */
    const char *categories;   /* of categories.json; NULL: none */
    const char *init;         /* checkpoint with the initial weights, or NULL */
    int64_t checkpoint_every; /* steps between checkpoints; 0: only at the end */
    /* If > 0 and checkpoint_every is 0: the first save comes after this time, later ones as often
     * as their cost allows. */
    int64_t pace_ns;
    /* the run waits until a checkpoint is durable; false: it continues meanwhile */
    bool save_stops;
    int keep;         /* number of checkpoints to keep */
    bool keep_best;   /* also save and keep the checkpoint with the lowest validation loss */
    int64_t patience; /* stop after this many evaluations without a lower loss; 0: never */
    bool resume;
    bool any_data; /* a resumed run may use other data */
    /* resume from the checkpoint of this step; 0: from the newest undamaged one */
    int64_t from_step;
    const char *read_config; /* config.json as the caller read it for a resume; NULL: not read */
    double peak_flops;       /* flops per second that the cores in use can reach; 0: unknown */
    const atomic_int *stop;  /* set by a signal: finish the step, save and return */
    void *ctx;
    void (*on_start)(void *ctx, const struct sl_session_start *start);
    void (*on_step)(void *ctx, const struct sl_step_report *report);
    /* Called for a step that ends while an asynchronous pipeline of several ranks is still running;
     * some steps are left out. on_step gets all of them when the run has ended. */
    void (*on_provisional)(void *ctx, const struct sl_step_report *report);
    void (*on_eval)(void *ctx, const struct sl_eval_report *report);
    /* Called after each run of a pipeline that is traced; `step` is the last one in the
     * timeline. */
    void (*on_trace)(void *ctx, const struct sl_timeline *timeline, int64_t step);
    /* Called when a checkpoint is durable; with pace_ns, the next one follows after `every`
     * steps. */
    void (*on_save)(void *ctx, const struct sl_save_report *report, int64_t every);
};

struct sl_session_result {
    int64_t steps_done; /* steps made in this session */
    int64_t step;       /* steps of the run so far */
    int64_t skipped;    /* steps of steps_done that were skipped: their gradient was not finite */
    /* skipped steps in a row at the end, without those that the loss scale caused */
    int64_t last_skipped;
    bool early;        /* stopped by `patience` */
    int64_t best_step; /* step of best_eval; set with keep_best or patience */
    bool diverged;     /* the run has ended, and its last steps were all skipped */
    bool stopped, was_finished, resumed;
    bool abandoned; /* set by sl_pipe_session_run: a worker hangs, so its memory must stay */
    double last_loss, best_eval, last_eval; /* NAN: no such value */
    int64_t bytes;                          /* sl_session_start.bytes */
    struct sl_run_audit_count audit;        /* counts of this process */
};

/* Runs the session on an opened runner, which the caller closes: calls open, advance to the end,
 * and close below. */
SL_MUST_CHECK sl_err sl_run_session_run(const struct sl_session_config *config,
                                        const struct sl_runner *runner,
                                        struct sl_session_result *result);

/* The same in steps; all ranks make the same calls. Open starts or resumes the run; what its
 * arguments point to must stay until close. */
struct sl_session;
SL_MUST_CHECK sl_err sl_run_session_open(const struct sl_session_config *config,
                                         const struct sl_runner *runner,
                                         struct sl_session_result *result, struct sl_session **out);
/* Runs up to `steps` further steps and updates the result. After the last step of the run, or a
 * stop, it saves a checkpoint. */
SL_MUST_CHECK sl_err sl_run_session_advance(struct sl_session *session, int64_t steps);
/* Saves a checkpoint of the current step and waits until it is durable. */
SL_MUST_CHECK sl_err sl_run_session_save(struct sl_session *session);
void sl_run_session_close(struct sl_session *session); /* session may be NULL */

#endif
