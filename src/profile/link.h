/* What lies between two workers of this process: the transport that a pipeline on threads uses. */
#ifndef SL_PROFILE_LINK_H
#define SL_PROFILE_LINK_H

#include "base/err.h"

#include <stdint.h>

/* From a send to the moment at which somebody who has waited long enough to sleep goes on: the
 * median of several. */
SL_MUST_CHECK sl_err sl_profile_latency(int64_t *out_ns);

#endif
