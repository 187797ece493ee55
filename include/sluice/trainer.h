/* A trainer: a training run under the control of the program.
 *
 *     new -> set ... use ... on ... -> open -> { run | evaluate | tensor | save } ... -> close
 *
 * It does what 'sluice train' does, with the same defaults, refusals and bits: settings have the
 * names of config.json (docs/formats.md), for example "batch", "stages", "out", "resume".
 *
 * Ownership: the trainer copies texts, nets and pipelines; arrays, contexts and communicators that
 * it uses stay the caller's and must live until close. Threads: one thread at a time uses a trainer,
 * any number of trainers run at once; sl_trainer_cancel may be called by any thread or by a signal
 * handler. On several ranks every rank makes the same calls.
 */
#ifndef SLUICE_TRAINER_H
#define SLUICE_TRAINER_H

#include "sluice/pipeline.h"
#include "sluice/samples.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_trainer;

SL_API sl_err sl_trainer_new(struct sl_trainer **out);
/* Frees the trainer without saving; NULL is allowed. Closing it twice is reported, not a crash. */
SL_API void sl_trainer_close(struct sl_trainer *trainer);

/* ---- before open ---- */

/* Sets a field of the job. The key "sizes" sets sizes of the model, for example "L=4,C=128". */
SL_API sl_err sl_trainer_set(struct sl_trainer *trainer, const char *key, const char *value);
/* Sets the fields of a file, X.toml or X.json, as the option --config does. */
SL_API sl_err sl_trainer_read(struct sl_trainer *trainer, const char *file);
/* Searches models by name in this directory. */
SL_API sl_err sl_trainer_models(struct sl_trainer *trainer, const char *directory);
/* Trains a copy of a checked net instead of the setting "model". */
SL_API sl_err sl_trainer_use_net(struct sl_trainer *trainer, const struct sl_net *net);
/* Uses a copy of a plan of the same model instead of the setting "plan". */
SL_API sl_err sl_trainer_use_pipeline(struct sl_trainer *trainer,
                                      const struct sl_pipeline *pipeline);
/* Trains on samples of the program instead of the setting "data". The struct is copied; what it
 * points to must live until close. */
SL_API sl_err sl_trainer_use_samples(struct sl_trainer *trainer, const struct sl_samples *samples);
/* Places the workers on the ranks of an MPI communicator: a pointer to the caller's MPI_Comm, which
 * must live until close. NULL: MPI_COMM_WORLD. MPI is started if it is not. */
SL_API sl_err sl_trainer_use_mpi(struct sl_trainer *trainer, const void *communicator);
/* Keeps the gradients of each step, so that sl_trainer_get_tensor can read them. */
SL_API sl_err sl_trainer_keep_gradients(struct sl_trainer *trainer);

enum sl_event_kind {
    SL_EVENT_START,      /* the run was opened; `step` steps were finished before */
    SL_EVENT_STEP,       /* a step ended; sets loss, norm, lr, skipped, samples, dur_ns */
    SL_EVENT_EVALUATION, /* an evaluation ended; sets loss, accuracy, samples, dur_ns */
    SL_EVENT_CHECKPOINT, /* the checkpoint of `step` is durable; dur_ns is the time it took */
};

/* An event of a run. `size` tells which fields exist: later versions add fields at the end. */
struct sl_trainer_event {
    size_t size;
    enum sl_event_kind kind;
    int skipped; /* not 0: the gradient was not finite, so the weights did not change */
    int64_t step, samples, dur_ns;
    double loss, accuracy, norm, lr; /* NAN if not known */
    const char *text; /* for START: which checkpoints were skipped and why; "": nothing to say */
};

/* Called by the thread of open, run or evaluate, on rank 0. A result other than 0 cancels. */
typedef int (*sl_on_event)(void *ctx, const struct sl_trainer_event *event);
SL_API sl_err sl_trainer_on_event(struct sl_trainer *trainer, sl_on_event callback, void *ctx);

/* Called before each update for each parameter. The threads of the workers may call it at the
 * same time. It may change the gradient; every holder of the parameter (replicas, tied stages)
 * must then get the same values. The gradient is a sum over the batch, times the loss scale,
 * before clipping. In an asynchronous pipeline a tied parameter is for reading only. A result
 * other than 0 ends the run with SL_ERR_INPUT. */
typedef int (*sl_on_gradient)(void *ctx, const char *parameter, float *gradient, int64_t count);
SL_API sl_err sl_trainer_on_gradient(struct sl_trainer *trainer, sl_on_gradient callback,
                                     void *ctx);

/* Checks the settings, builds plan and schedule, opens the devices, and starts or resumes the run. */
SL_API sl_err sl_trainer_open(struct sl_trainer *trainer);

/* ---- after open ---- */

/* Returns the value of a field as JSON, as in config.json; NULL on an error. Before open, it is the
 * value that was set. Valid until the next call with the same trainer. */
SL_API const char *sl_trainer_get(struct sl_trainer *trainer, const char *key);
/* Runs up to `steps` optimizer steps; 0: to the end. After the last step, and after a cancellation,
 * the run is saved if it has a directory. After an error only close is useful. SL_ERR_REFUSED: the
 * run has diverged. */
SL_API sl_err sl_trainer_run(struct sl_trainer *trainer, int64_t steps);
/* Ends the current call of run after a whole step, or the next one if none is under way. Any thread
 * and any signal handler may call it. */
SL_API void sl_trainer_cancel(struct sl_trainer *trainer);
/* Number of finished steps of the run; -1 if it is not open. */
SL_API int64_t sl_trainer_step(const struct sl_trainer *trainer);
/* Saves a checkpoint and waits until it is durable; needs the setting "out". */
SL_API sl_err sl_trainer_save(struct sl_trainer *trainer);
/* Returns what 'sluice train --json' prints; NULL on an error. Valid until the next call with the
 * same trainer. */
SL_API const char *sl_trainer_report(struct sl_trainer *trainer);

/* The result of an evaluation. Set `size`; later versions add fields at the end. */
struct sl_evaluation {
    size_t size;
    int64_t step, samples, dur_ns;
    double loss, accuracy; /* accuracy is NAN if the model has no output `logits` */
};
/* Computes the loss of "eval_samples" validation samples. It does not change the run. */
SL_API sl_err sl_trainer_evaluate(struct sl_trainer *trainer, struct sl_evaluation *out);

/* ---- tensors, after open ---- */

enum sl_tensor_kind {
    SL_TENSOR_WEIGHT,
    SL_TENSOR_STATISTIC, /* a running statistic of the model */
    SL_TENSOR_OPTIMIZER, /* state of the optimizer, named "WEIGHT:exp_avg" */
    SL_TENSOR_GRADIENT,  /* gradient of the last step, named "WEIGHT:gradient"; read only */
};
enum { SL_TENSOR_RANK = 8 };
/* A tensor. Set `size`; later versions add fields at the end. The name is valid until close. */
struct sl_tensor {
    size_t size;
    const char *name;
    enum sl_tensor_kind kind;
    int rank;
    int64_t dim[SL_TENSOR_RANK], count; /* count: number of values */
};
SL_API int64_t sl_trainer_tensor_count(struct sl_trainer *trainer);
/* Describes a tensor; `index` counts from 0. SL_ERR_USAGE past the last one. */
SL_API sl_err sl_trainer_tensor(struct sl_trainer *trainer, int64_t index, struct sl_tensor *out);
/* Copy the values of a tensor out, or in. `count` is the number of values of the array, which must
 * be that of the tensor. Values may be set only while no micro-batch is in flight: in an
 * asynchronous pipeline before the first step, in others between any two steps. */
SL_API sl_err sl_trainer_get_tensor(struct sl_trainer *trainer, const char *name, float *values,
                                    int64_t count);
SL_API sl_err sl_trainer_set_tensor(struct sl_trainer *trainer, const char *name,
                                    const float *values, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
