/* Training on one worker: a step reads a batch and updates the weights.
 *
 *   open -> { step | eval | load } ... -> close
 */
#ifndef SL_RUN_TRAIN_H
#define SL_RUN_TRAIN_H

#include "data/data.h"
#include "optim/loss_scale.h"
#include "optim/lr.h"
#include "optim/norm.h"
#include "optim/policy.h"
#include "plan/bytes.h"
#include "run/ahead.h"
#include "run/finite.h"
#include "run/worker.h"

enum { SL_LOSS_MAX = 64 }; /* most losses of a model */

struct sl_step_report {
    int64_t step; /* counted from 1 */
    double loss;  /* weighted sum of the losses, as a mean over the counted items of the batch */
    double norm;  /* norm of the gradient before clipping; NAN: stages step at different times */
    double lr;
    double loss_scale; /* loss scale of this step; 0: losses are not scaled */
    bool skipped;      /* a gradient was not finite, so the weights did not change */
    struct sl_bad bad; /* why the step was skipped */
    int64_t samples;
    int64_t dur_ns;
    int64_t data_ns; /* workers of this process read data, in sum */
    int64_t cpu_ns;  /* CPU time of all threads of this process */
    /* pipelines: share of the workers' time that was spent outside actions, in this run */
    double bubble;
    int64_t worker_bytes; /* pipelines: memory of the largest worker; one worker: 0 */
    double peak_share; /* flops per second relative to sl_session_config.peak_flops; NAN: unknown */
};

struct sl_eval_report {
    int64_t step;
    double loss;
    /* accuracy of the output `logits` against the targets of the last loss; NAN: not computed */
    double accuracy;
    int64_t samples;
    int64_t dur_ns;
};

enum { SL_KINDS_MAX = 8 };

struct sl_train_config {
    const struct sl_graph *graph; /* differentiated graph; for evaluation only: the eval graph */
    const struct sl_graph *eval_graph; /* NULL: no evaluation */
    uint64_t model_hash;               /* hash of `graph`, for checkpoints; 0: unknown */
    const struct sl_data *data;
    struct sl_ahead *ahead; /* reads `data`; NULL: without threads */
    const struct sl_device_row *device;
    /* Pipelines with several kinds of device: worker w computes on kinds[w mod kind_count], and
     * `device` is the first kind. kind_count 0: all workers use `device`. */
    const struct sl_device_row *kinds[SL_KINDS_MAX];
    int kind_count;
    int threads;
    enum sl_dtype dtype; /* of activations: SL_FLOAT, SL_BF16 or SL_FP16 */
    bool tf32;           /* fp32 matrix products may round their inputs to tf32 */
    struct sl_optim optim;
    struct sl_lr lr;
    double base_lr, clip; /* clip <= 0: no clipping */
    struct sl_loss_scale loss_scale;
    int64_t batch, micros; /* per step: samples; micro-batches */
    int64_t steps;
    int64_t eval_every, eval_samples; /* steps between evaluations, and samples of each; 0: never */
    bool evaluates; /* evaluations may come at any time, even if eval_every is 0 */
    bool recompute;
    uint64_t seed;
    struct sl_policy_use policy;       /* staleness policy of an asynchronous pipeline */
    int64_t audit;                     /* audit one of this many actions; 0: none */
    const struct sl_grad_watch *grads; /* NULL: no callback */
};

/* A callback that sees the gradients of a step before norm, clipping and update. It may change them;
 * all holders of a parameter (replicas, tied stages) must then get the same values. Called by the
 * threads of the workers, for each holder. Gradients are sums over micro-batches, times the loss
 * scale. A gradient in device memory is copied out and back. */
struct sl_grad_watch {
    void *ctx;
    sl_err (*see)(void *ctx, const struct sl_param *param, float *gradient, int64_t count);
};

/* A run on one worker; run/store.h lists what a checkpoint holds of it. */
struct sl_train {
    struct sl_train_config config;
    struct sl_arena arena;
    struct sl_device *device;
    struct sl_worker *worker;
    struct sl_optim_param *params;   /* [program params] */
    struct sl_step_item *step_items; /* [program params] filled in every step */
    struct sl_norm_item *norm_items;
    double *norm_sums; /* [program params], then as many again for an audit */
    void *opt_scratch;
    struct sl_data_cursor cursor;
    int64_t step;                   /* number of finished steps */
    double *counts;                 /* [losses] counted items of the current batch */
    struct sl_scale_state scale;    /* loss scale of the current step */
    struct sl_run_tensors *tensors; /* run/store.h. NULL: not listed yet */
    struct sl_joined *joined;       /* run/part.h. NULL: no tensor is in parts, or not joined yet */
    struct sl_ckpt_copy *copy; /* snapshot for which a step waits before it writes; NULL: none */
};

SL_MUST_CHECK sl_err sl_run_train_open(const struct sl_train_config *config, struct sl_train **out);
void sl_run_train_close(struct sl_train *train);

/* Runs one optimizer step. If it is skipped, report->bad names the first op with a bad value. */
SL_MUST_CHECK sl_err sl_run_train_step(struct sl_train *train, struct sl_step_report *report);

/* step.c. If the loss scale probably caused the skip, sets report->bad, so that no search
 * follows. */
void sl_run_train_blame_scale(const struct sl_train_config *config, struct sl_step_report *report);
/* Returns the loss scale for a report; 0: losses are not scaled. */
double sl_run_train_reported_scale(const struct sl_train_config *config, double value);

/* skip.c. Repeats step `step` (0-based) on these samples with the current weights, and finds the
 * first value that is not finite. Running statistics keep their values. */
SL_MUST_CHECK sl_err sl_run_train_find_bad(struct sl_train *train, int64_t step,
                                           const struct sl_data_range *range, struct sl_bad *bad);

/* eval.c. Computes loss and accuracy over `samples` samples of the validation split. */
SL_MUST_CHECK sl_err sl_run_train_eval(struct sl_train *train, int64_t samples,
                                       struct sl_eval_report *report);

/* A part of an evaluation over `all` samples, in whole micro-batches. Its losses are added to the
 * report; `counted` and `right` accumulate the accuracy over the parts. */
struct sl_eval_range {
    int64_t all, first, count; /* in samples */
    int64_t counted, right;
};
SL_MUST_CHECK sl_err sl_run_train_eval_range(struct sl_train *train, struct sl_eval_range *range,
                                             struct sl_eval_report *report);

enum sl_worker_program sl_run_train_eval_program(const struct sl_train *train);
/* Returns a named output of the evaluation program, or NULL if it has none. */
const struct sl_program_port *sl_run_train_find_output(const struct sl_train *train,
                                                       const char *name);

/* store.c. Loads the latest checkpoint of `run`. weights_only: parameters and running statistics,
 * but not the position. */
SL_MUST_CHECK sl_err sl_run_train_load(struct sl_train *train, const char *run, bool weights_only);

/* Predicts the memory of the run; sl_plan_stage_bytes_total sums it. */
struct sl_stage_bytes sl_run_train_bytes(const struct sl_train *train);

/* Functions that pipelines use too. full_samples: samples of a full micro-batch if `batch` is cut
 * into `micros`. seed: random seed of a step (0-based), so that dropout differs from step to step.
 * open_optimizer: makes the optimizer's rows for the worker's parameters. */
int64_t sl_run_train_full_samples(int64_t batch, int64_t micros);
uint64_t sl_run_train_seed(uint64_t seed, int64_t step);
SL_MUST_CHECK sl_err sl_run_train_open_optimizer(struct sl_train *train);
SL_MUST_CHECK sl_err sl_run_train_check(const struct sl_train_config *config);

/* step.c. apply: applies the gradient of the batch. norms: writes sums of squares into norm_sums[].
 * update: makes step t at rate lr on weight slab `version`, which holds the old weights. */
SL_MUST_CHECK sl_err sl_run_train_apply(struct sl_train *train, struct sl_step_report *report);
SL_MUST_CHECK sl_err sl_run_train_norms(struct sl_train *train, int grad_slot);
struct sl_update_args {
    int64_t t; /* number of the step, from 1 */
    double lr;
    float scale;
    int version, grad_slot;
    const double *lr_of; /* [params] separate learning rates, or NULL */
    /* [params] scales used instead of `scale`, or NULL; below 0: the parameter is not updated */
    const float *scale_of;
    bool delta; /* store the direction of the step in the last slab */
};
SL_MUST_CHECK sl_err sl_run_train_update(struct sl_train *train, const struct sl_update_args *args);

/* feed.c: puts the inputs and seeds of one micro-batch into a slot. */
struct sl_feed {
    enum sl_data_split split;
    enum sl_worker_program program;
    int64_t first, count; /* in samples */
    int slot;
};
SL_MUST_CHECK sl_err sl_run_train_feed(struct sl_train *train, const struct sl_feed *feed);
/* Returns the feed of micro-batch j of a step over these samples. */
struct sl_feed sl_run_train_micro(const struct sl_train *train, const struct sl_data_range *range,
                                  int64_t j);
/* The losses of the micro-batch in the slot, each times its share of train->counts. loss_terms:
 * writes terms[loss] for the losses that this worker computes. add_losses: adds them up. */
SL_MUST_CHECK sl_err sl_run_train_loss_terms(struct sl_train *train, const struct sl_feed *feed,
                                             double *terms);
SL_MUST_CHECK sl_err sl_run_train_add_losses(struct sl_train *train, const struct sl_feed *feed,
                                             double *loss);
/* Counts the items of each loss in a range of samples. */
SL_MUST_CHECK sl_err sl_run_train_count(const struct sl_train *train, enum sl_data_split split,
                                        int64_t first, int64_t count, double *out);

#endif
