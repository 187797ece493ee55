/* Latency of the thread transport between two workers of this process. */
#ifndef SL_PROFILE_LINK_H
#define SL_PROFILE_LINK_H

#include "base/err.h"

#include <stdint.h>

/* Measures the median time from a send until the receiver runs, if the receiver waited long enough
 * to sleep. */
SL_MUST_CHECK sl_err sl_profile_latency(int64_t *out_ns);

#endif
