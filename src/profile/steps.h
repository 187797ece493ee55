/* How long the steps of workers take. */
#ifndef SL_PROFILE_STEPS_H
#define SL_PROFILE_STEPS_H

#include "profile/body.h"

/* Bytes of parameters per second, the norm of the gradient included: all workers at once, as
 * synchronous runs step; one of them into another version of the weights while the others compute.
 * 0: there are no parameters. */
struct sl_step_rates {
    double step, version;
};
/* A worker's part, in a thread of its own; all workers must come. */
SL_MUST_CHECK sl_err sl_profile_steps_measure(struct sl_body *body, const struct sl_optim *optim,
                                              struct sl_crowd *crowd, int worker, int workers,
                                              struct sl_step_rates *out);

#endif
