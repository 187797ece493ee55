/* Measures the speed of optimizer steps. */
#ifndef SL_PROFILE_STEPS_H
#define SL_PROFILE_STEPS_H

#include "profile/body.h"

/* Parameter bytes per second, including the gradient norm; 0: no parameters.
 * step: all workers step at the same time, as in synchronous runs.
 * version: one worker steps into another weight version while the others compute. */
struct sl_step_rates {
    double step, version;
};
/* The work of one worker, called in its thread. All workers must call it. */
SL_MUST_CHECK sl_err sl_profile_steps_measure(struct sl_body *body, const struct sl_optim *optim,
                                              struct sl_crowd *crowd, int worker, int workers,
                                              struct sl_step_rates *out);

#endif
