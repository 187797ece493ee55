/* Training a net, on one worker or as a pipeline of threads. */
#ifndef SLUICE_TRAIN_H
#define SLUICE_TRAIN_H

#include "sluice/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zeros and NULLs are what the program takes by default. */
struct sl_train_request {
    const struct sl_pipeline *pipeline; /* of the same net; NULL: one worker */
    const char *schedule;               /* of the pipeline; NULL: the plan's, else 1f1b */
    const char *data;                   /* as --data; NULL: synthetic */
    const char *optimizer;              /* "adamw:wd=0.1" */
    const char *lr_schedule;            /* "cosine:warmup=100" */
    const char *run;                    /* directory for log and checkpoints; NULL: none */
    double lr;                          /* 0: the optimizer's usual one */
    double clip;                        /* largest norm of the gradient; 0: 1; below 0: none */
    int64_t batch, micros;              /* samples per step, micro-batches they are cut into */
    int64_t steps;
    uint64_t seed;
    int threads; /* of a worker */
};

/* What a step came to. Later versions add fields at the end. */
struct sl_run_train_step {
    int64_t step, samples, dur_ns;
    double loss, norm, lr; /* norm NAN: stages step at different times */
    int skipped;           /* the gradient was not finite */
};

/* Called after each step; anything but 0 ends the training there. */
typedef int (*sl_train_on_step)(void *ctx, const struct sl_run_train_step *step);

/* Trains a net (autodiff must have run); *loss is the last one. Weights start from `seed`; with
 * `run` they are saved at the end, and 'sluice eval', 'sluice sample', 'sluice report' go on. */
sl_err sl_train_net(const struct sl_net *net, const struct sl_train_request *request,
                    sl_train_on_step on_step, void *ctx, double *loss);

#ifdef __cplusplus
}
#endif

#endif
