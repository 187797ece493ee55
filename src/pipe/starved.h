/* Time in which a thread was ready to run but had no CPU. */
#ifndef SL_PIPE_STARVED_H
#define SL_PIPE_STARVED_H

#include <stdint.h>

/* Returns the part of `span_ns` (the time since the last call) in which thread `tid` of this
 * process was starved. Returns 0 if that is unknown or the thread sleeps. The caller keeps
 * `*cpu_ns` between calls; it is 0 before the first. */
int64_t sl_pipe_starved_poll(int tid, int64_t span_ns, int64_t *cpu_ns);

#endif
