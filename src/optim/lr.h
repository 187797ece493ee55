/* Learning-rate schedules: lr(t) is a pure function of the step t (from 1).
 *
 *     base |      ________                    warm-up is in front of each:
 *          |     /        \___                  t <= warmup:  base * t / warmup
 *          |    /             \____           then p = (t - warmup) / (total - warmup), at most 1:
 *     min  |___/                   \____        constant 1, linear 1-(1-min)p,
 *           0 warmup             total          cosine min + (1-min)(1+cos(pi p))/2,
 *    polynomial min + (1-min)(1-p)^power; wsd 1, then in the last part `decay` a line to min;
 *    onecycle (no warm-up) half a cosine from start to 1 in the part `up`, then one to min;
 *    step gamma^floor((t - 1 - warmup) / every); inverse-sqrt sqrt(warmup / t)
 *
 * Text: "cosine:warmup=100,total=1000,min=0.1"; min is a fraction of the base rate.
 */
#ifndef SL_OPTIM_LR_H
#define SL_OPTIM_LR_H

#include "optim/spec.h"

enum { SL_LR_HYPER = 5 };

struct sl_lr_row {
    const char *name, *brief;
    const struct sl_hyper *hyper; /* row 0 is warmup; row 1, if there is one, is total */
    /* Returns the factor after warm-up; p in [0, 1]; t is the step. */
    double (*factor)(const double *hyper, double p, double t);
};

struct sl_lr {
    const struct sl_lr_row *row;
    double hyper[SL_LR_HYPER];
};

extern const struct sl_lr_row *const sl_optim_lr_rows[];
extern const int sl_optim_lr_row_count;

/* `total` defaults to `steps`, the length of the run; steps 0: the text must give `total`. */
SL_MUST_CHECK sl_err sl_optim_lr_parse(const char *text, int64_t steps, struct sl_lr *out);
void sl_optim_lr_put(struct sl_text *text, const struct sl_lr *lr); /* always writes total */
double sl_optim_lr_at(const struct sl_lr *lr, double base, int64_t t);

#endif
