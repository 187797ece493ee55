/* Measures the peak flops per second of one thread of a device, with a large matrix product. */
#ifndef SL_PROFILE_PEAK_H
#define SL_PROFILE_PEAK_H

#include "device/device.h"

/* Measures for about `budget_ns` and takes the fastest of several products. The clock is processor
 * time, so that other load has no effect. */
SL_MUST_CHECK sl_err sl_profile_peak(const struct sl_device_row *row, int64_t budget_ns,
                                     double *flops_per_s);

#endif
