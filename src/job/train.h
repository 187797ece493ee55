/* Trains an opened job: runs the session and measures it. */
#ifndef SL_JOB_TRAIN_H
#define SL_JOB_TRAIN_H

#include "job/stats.h"
#include "job/work.h"

/* The speed of a run after a step. */
struct sl_job_speed {
    double rate;     /* items (sl_job_items) per second */
    int64_t left_ns; /* time until the last step */
    double peak;     /* share of the devices' peak; NAN: unknown */
};

/* Callbacks on rank 0, from the thread of sl_job_train; each may be NULL. */
struct sl_job_watch {
    void *ctx;
    const atomic_int *stop; /* not 0: finish the step, save and return */
    double peak_flops;      /* see sl_job_peak_flops; 0: unknown */
    int64_t trace_steps;    /* > 0: measure timelines of this many steps, for a live display */
    void (*on_start)(void *ctx, const struct sl_session_start *start);
    void (*on_step)(void *ctx, const struct sl_step_report *report,
                    const struct sl_job_speed *speed);
    /* Called for a step of an asynchronous pipeline of several ranks, before its final report. */
    void (*on_provisional)(void *ctx, const struct sl_step_report *report,
                           const struct sl_job_speed *speed);
    void (*on_eval)(void *ctx, const struct sl_eval_report *report);
    void (*on_trace)(void *ctx, const struct sl_timeline *timeline);
    /* Called when a checkpoint is durable; `every`: steps until the next one; 0: saves have no
     * fixed interval. */
    void (*on_save)(void *ctx, const struct sl_save_report *report, int64_t every);
};

/* Sums over the checkpoints of a run. */
struct sl_job_saves {
    int64_t count, concurrent; /* concurrent: number of those written while steps ran */
    int64_t stall_ns, write_ns, cpu_ns, concurrent_stall_ns;
    int64_t every; /* latest interval in steps; 0: none */
};

struct sl_job_outcome {
    struct sl_session_result result;
    struct sl_job_stats stats;
    struct sl_job_items items;
    struct sl_job_saves saves;
    int64_t *rank_bytes; /* [ranks] predicted bytes; NULL: unknown */
    double *bubbles;     /* [workers] idle share if the job traces; else NULL */
    int64_t start_ns;    /* start of the run by sl_clock_ns */
};

/* Trains, and writes RUN/timeline.trace.json if the job traces. If result.abandoned is set, a
 * worker hangs: neither close `work` nor free the outcome. Otherwise free the outcome even after an
 * error. */
SL_MUST_CHECK sl_err sl_job_train(struct sl_job_work *work, const struct sl_job_watch *watch,
                                  struct sl_job_outcome *out);
/* The same in parts: open starts or resumes the run; end takes the final measurements and writes
 * the timeline. `watch` and `outcome` must stay until close; after result.abandoned the work must
 * stay open too. All ranks make the same calls. Close `out` even after an error. */
struct sl_job_training;
SL_MUST_CHECK sl_err sl_job_training_open(struct sl_job_work *work,
                                          const struct sl_job_watch *watch,
                                          struct sl_job_outcome *outcome,
                                          struct sl_job_training **out);
SL_MUST_CHECK sl_err sl_job_training_advance(struct sl_job_training *training, int64_t steps);
SL_MUST_CHECK sl_err sl_job_training_save(struct sl_job_training *training);
const struct sl_runner *sl_job_training_runner(const struct sl_job_training *training);
SL_MUST_CHECK sl_err sl_job_training_end(struct sl_job_training *training);
void sl_job_training_close(struct sl_job_training *training);

/* SL_ERR_REFUSED if the run has diverged: its last steps were skipped. */
SL_MUST_CHECK sl_err sl_job_verdict(const struct sl_job_outcome *outcome);
/* outcome.c. Appends the results as JSON (docs/formats.md). Every rank calls. */
SL_MUST_CHECK sl_err sl_job_outcome_json(struct sl_job_work *work,
                                         const struct sl_job_outcome *outcome,
                                         struct sl_text *text);
/* Returns measured / predicted time of a step, minus 1; NAN: there is no forecast, or no step was
 * measured. `threads` of this process computed on `cores`. */
double sl_job_forecast_error(const struct sl_job_work *work, const struct sl_job_outcome *outcome,
                             int *threads, int *cores);
void sl_job_outcome_free(struct sl_job_outcome *outcome);

#endif
