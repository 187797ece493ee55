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

/* Sets a field of the job. Sizes of the model: key "sizes", value "L=4,C=128". */
SL_API sl_err sl_trainer_set(struct sl_trainer *trainer, const char *key, const char *value);
/* Sets the fields of a file, X.toml or X.json, as --config. */
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
    SL_EVENT_START,      /* opened; step: finished before */
    SL_EVENT_STEP,       /* loss, norm, lr, skipped, samples, dur_ns */
    SL_EVENT_EVALUATION, /* loss, accuracy, samples, dur_ns */
    SL_EVENT_CHECKPOINT, /* step is durable; dur_ns: until then */
};

/* An event of a run. `size` tells which fields exist: later versions add fields at the end. */
struct sl_trainer_event {
    size_t size;
    enum sl_event_kind kind;
    int skipped; /* the gradient was not finite: weights are untouched */
    int64_t step, samples, dur_ns;
    double loss, accuracy, norm, lr; /* NAN: not known */
    const char *text; /* START: checkpoints that were skipped and why; "": nothing to say */
};

/* Called by the thread of open, run or evaluate, on rank 0. A result other than 0 cancels. */
typedef int (*sl_on_event)(void *ctx, const struct sl_trainer_event *event);
SL_API sl_err sl_trainer_on_event(struct sl_trainer *trainer, sl_on_event callback, void *ctx);

/* Called before each update for each parameter, by the threads of the workers, at once. It may change
 * the gradient; every holder of the parameter (replicas, tied stages) must then get the same values.
 * The gradient is a sum over the batch, times the loss scale, before clipping. In an asynchronous
 * pipeline a tied parameter is for reading only. A result other than 0 ends the run with
 * SL_ERR_INPUT. */
typedef int (*sl_on_gradient)(void *ctx, const char *parameter, float *gradient, int64_t count);
SL_API sl_err sl_trainer_on_gradient(struct sl_trainer *trainer, sl_on_gradient callback,
                                     void *ctx);

/* Checks the settings, builds plan and schedule, opens the devices, and starts or resumes the run. */
SL_API sl_err sl_trainer_open(struct sl_trainer *trainer);

/* ---- after open ---- */

/* The value of a field as JSON, as in config.json; NULL on an error. Before open: as it was set.
 * Valid until the next call with the same trainer. */
SL_API const char *sl_trainer_get(struct sl_trainer *trainer, const char *key);
/* Runs up to `steps` optimizer steps; 0: to the end. After the last step, and after a cancellation,
 * the run is saved if it has a directory. After an error only close is useful. SL_ERR_REFUSED: the
 * run has diverged. */
SL_API sl_err sl_trainer_run(struct sl_trainer *trainer, int64_t steps);
/* Ends the current call of run after a whole step, or the next one if none is under way. Any thread
 * and any signal handler may call it. */
SL_API void sl_trainer_cancel(struct sl_trainer *trainer);
/* Finished steps of the run; -1: not open. */
SL_API int64_t sl_trainer_step(const struct sl_trainer *trainer);
/* Saves a checkpoint and waits until it is durable; needs the setting "out". */
SL_API sl_err sl_trainer_save(struct sl_trainer *trainer);
/* What 'sluice train --json' prints; NULL on an error. Valid until the next call with the same
 * trainer. */
SL_API const char *sl_trainer_report(struct sl_trainer *trainer);

/* Set `size`; later versions add fields at the end. */
struct sl_evaluation {
    size_t size;
    int64_t step, samples, dur_ns;
    double loss, accuracy; /* accuracy NAN: the model has no output `logits` */
};
/* Loss over "eval_samples" samples of the validation split. It changes no bit of the run. */
SL_API sl_err sl_trainer_evaluate(struct sl_trainer *trainer, struct sl_evaluation *out);

/* ---- tensors, after open ---- */

enum sl_tensor_kind {
    SL_TENSOR_WEIGHT,
    SL_TENSOR_STATISTIC, /* a running statistic of the model */
    SL_TENSOR_OPTIMIZER, /* state of the optimizer: "WEIGHT:exp_avg" */
    SL_TENSOR_GRADIENT,  /* of the last step: "WEIGHT:gradient"; read only */
};
enum { SL_TENSOR_RANK = 8 };
/* Set `size`; later versions add fields at the end. The name is valid until close. */
struct sl_tensor {
    size_t size;
    const char *name;
    enum sl_tensor_kind kind;
    int rank;
    int64_t dim[SL_TENSOR_RANK], count; /* count: of its values */
};
SL_API int64_t sl_trainer_tensor_count(struct sl_trainer *trainer);
/* index: 0 .. count - 1 */
SL_API sl_err sl_trainer_tensor(struct sl_trainer *trainer, int64_t index, struct sl_tensor *out);
/* Copies the values of a tensor out, or in. count: values of the array, as many as the tensor has.
 * Set: only while no micro-batch is in flight, that is, before the first step of an asynchronous
 * pipeline, and between any two steps of others. */
SL_API sl_err sl_trainer_get_tensor(struct sl_trainer *trainer, const char *name, float *values,
                                    int64_t count);
SL_API sl_err sl_trainer_set_tensor(struct sl_trainer *trainer, const char *name,
                                    const float *values, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
