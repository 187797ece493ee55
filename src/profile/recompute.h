/* A forward pass that is computed again, as a stage that recomputes does: right before the backward
 * pass of its micro-batch, with weights that another forward pass has just read, and without inputs
 * being fed. */
#ifndef SL_PROFILE_RECOMPUTE_H
#define SL_PROFILE_RECOMPUTE_H

#include "profile/body.h"

/* What it takes, of what a forward pass takes with its inputs: the median of some rounds, fewer
 * where more workers measure it. */
SL_MUST_CHECK sl_err sl_profile_recompute_measure(struct sl_body *body, int workers, double *out);

#endif
