/* Clocks in nanoseconds: monotonic time, and processor time of a thread or of the process. */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t sl_clock_ns(void);
bool sl_clock_past(int64_t until_ns); /* true: until_ns, if not 0, has passed */

/* Processor time of this thread. Time in which other threads had the core does not count. */
int64_t sl_clock_cpu_ns(void);

/* Processor time of all threads of this process, user and system. */
int64_t sl_clock_process_ns(void);

#endif
