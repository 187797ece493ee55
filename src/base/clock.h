/* Monotonic time in nanoseconds. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>

int64_t sl_clock_ns(void);

#endif
