/* How many flops per second a thread of a device reaches where it is best: a large matrix product.
 */
#ifndef SL_PROFILE_PEAK_H
#define SL_PROFILE_PEAK_H

#include "device/device.h"

/* Measured for about `budget_ns`: the best of several products, in processor time, so that a busy
 * machine does not look slow. */
SL_MUST_CHECK sl_err sl_profile_peak(const struct sl_device_row *row, int64_t budget_ns,
                                     double *flops_per_s);

#endif
