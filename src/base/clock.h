/* Monotonic time in nanoseconds. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t sl_clock_ns(void);
bool sl_clock_past(int64_t until_ns); /* 0: never */

/* Processor time of this thread: what it takes does not depend on who else runs. */
int64_t sl_clock_cpu_ns(void);

/* Processor time of this process: of all its threads, in it and in the system. */
int64_t sl_clock_process_ns(void);

#endif
