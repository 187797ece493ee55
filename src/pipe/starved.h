/* Time in which a thread was ready to run but had no CPU. */
#ifndef SL_PIPE_STARVED_H
#define SL_PIPE_STARVED_H

#include <stdint.h>

/* The part of `span_ns` (since the last call) that thread `tid` of this process was starved; 0 if
 * unknown, or while it sleeps. The caller keeps `*cpu_ns` between calls, 0 before the first. */
int64_t sl_pipe_starved_poll(int tid, int64_t span_ns, int64_t *cpu_ns);

#endif
