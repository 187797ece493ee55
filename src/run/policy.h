/* Staleness policies on a worker: predicted weights, and extended optimizer steps. Pipelines and the
 * emulator use it, so that both get the same bits.
 *
 * Both use the device's step and predict (out = w - lr*s*direction). To extrapolate along a kept
 * tensor instead of an optimizer's direction, predict uses the row of plain gradient descent, whose
 * direction is the stored tensor. */
#ifndef SL_RUN_POLICY_H
#define SL_RUN_POLICY_H

#include "run/train.h"

/* [params] are those of the worker's program. */
struct sl_run_policy {
    struct sl_train *train;
    struct sl_policy_at *ats;      /* [params] position of the stage, for policies */
    double *rates;                 /* [params] of the current step */
    struct sl_optim_param *stored; /* [params] rows whose direction is a stored tensor */
    int kept;                      /* slab of the tensor that the policy keeps, -1: none */
};

/* Allocates in the arena of `train`, whose worker is open; the caller fills `ats`. */
void sl_run_policy_open(struct sl_run_policy *policy, struct sl_train *train);

/* Weights `ahead` steps beyond those of slab `from`, which are the newest (policies that keep a
 * velocity: micro-batches back). */
struct sl_run_predict {
    int from, to; /* weight slabs */
    char *out;    /* instead of slab `to`: memory, with parameter i at out + out_at[i] */
    const int64_t *out_at;
    int64_t ahead, micros; /* micros: of a step */
    int64_t step;          /* that made the weights; 0: none yet */
    const int *params;     /* [param_count] only these; NULL: all */
    int param_count;
};
SL_MUST_CHECK sl_err sl_run_policy_predict(struct sl_run_policy *policy,
                                           const struct sl_run_predict *predict);

/* The optimizer step; sets the rates and args->delta. `scratch`: a weight slab that velocities need
 * for a moment; -1: the policy keeps none here. `follows` [params]: whose velocity is kept; NULL:
 * all. */
SL_MUST_CHECK sl_err sl_run_policy_update(struct sl_run_policy *policy, struct sl_update_args *args,
                                          int scratch, const bool *follows);

#endif
