/* Hyper-parameters and weight-decay scalars that several optimizers share. */
#ifndef SL_OPTIM_COMMON_H
#define SL_OPTIM_COMMON_H

#include "optim/optim.h"

#define SL_HYPER_BETA(name_, fallback_, brief_)                                                    \
    { name_, fallback_, 0, 1, SL_RANGE_HALF_OPEN, brief_ }
#define SL_HYPER_EPS(fallback_)                                                                    \
    { "eps", fallback_, 1e-30, 1, SL_RANGE_CLOSED, "added to the root" }
/* The last two hyper-parameters of every row. */
#define SL_HYPER_DECAY(fallback_)                                                                  \
    {"wd", fallback_, 0, 10, SL_RANGE_CLOSED, "weight decay"}, {                                   \
        "wd_all", 0, 0, 1, SL_RANGE_WHOLE, "1: decay biases and norms too"                         \
    }

/* Returns the weight decay of this parameter: `wd`, or 0 if it does not decay. */
double sl_optim_decay(const struct sl_optim_param *param);

/* Set lr and either shrink (decoupled) or l2 (coupled: the decay is a part of the gradient). */
void sl_optim_coef_decoupled(const struct sl_optim_param *param, double lr,
                             struct sl_step_coef *out);
void sl_optim_coef_coupled(const struct sl_optim_param *param, double lr, struct sl_step_coef *out);

/* Sets *out to beta and *rest to 1 - beta, computed in double. */
void sl_optim_coef_beta(double beta, float *out, float *rest);

#endif
