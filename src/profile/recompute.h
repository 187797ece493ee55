/* The cost of recomputation. A recomputed forward pass runs right before the backward pass, after
 * another forward pass has read the same weights, and without feeding inputs. */
#ifndef SL_PROFILE_RECOMPUTE_H
#define SL_PROFILE_RECOMPUTE_H

#include "profile/body.h"

/* Measures the median of recompute time / (forward time with feeding). With more workers it makes
 * fewer rounds. */
SL_MUST_CHECK sl_err sl_profile_recompute_measure(struct sl_body *body, int workers, double *out);

#endif
