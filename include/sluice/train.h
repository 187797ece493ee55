/* Training of a net, on one worker or as a pipeline of threads. */
#ifndef SLUICE_TRAIN_H
#define SLUICE_TRAIN_H

#include "sluice/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Input of sl_train_net. Set `size`; a field that is zero or NULL takes the default of 'sluice
 * train'. Later versions add fields at the end. */
struct sl_train_request {
    size_t size;                        /* sizeof(struct sl_train_request) */
    const struct sl_pipeline *pipeline; /* a plan of the same net; NULL: one worker */
    const char *schedule;    /* schedule of the pipeline; default: the plan's, else 1f1b */
    const char *data;        /* as the option --data; default "synthetic" */
    const char *optimizer;   /* for example "adamw:wd=0.1" */
    const char *lr_schedule; /* for example "cosine:warmup=100" */
    const char *run;         /* run directory for log and checkpoints; NULL: none */
    double lr;               /* learning rate; default: the optimizer's */
    double clip;             /* maximum norm of the gradient; default 1; < 0: none */
    int64_t batch, micros;   /* samples per step, micro-batches per step */
    int64_t steps;
    uint64_t seed;
    int threads;      /* threads of each worker */
    int resume;       /* not 0: continue the run in `run` with its settings, or start it */
    int allow_change; /* not 0: a resumed run takes new settings even if they change its results */
};

/* A finished step, as the library reports it. Later versions add fields at the end; `size` tells
 * which fields exist. */
struct sl_train_step {
    size_t size;
    int64_t step, samples, dur_ns;
    double loss, norm, lr; /* norm is NAN if stages step at different times */
    int skipped;           /* not 0: the update was skipped because the gradient was not finite */
};

/* Called after each step. A result other than 0 stops the training after this step. */
typedef int (*sl_train_on_step)(void *ctx, const struct sl_train_step *step);

/* Trains a net; call it after sl_net_autodiff. *loss is the last loss. With `run`, the final
 * weights are saved; 'sluice eval', 'sluice sample' and 'sluice report' read them. */
SL_API sl_err sl_train_net(const struct sl_net *net, const struct sl_train_request *request,
                           sl_train_on_step on_step, void *ctx, double *loss);

#ifdef __cplusplus
}
#endif

#endif
