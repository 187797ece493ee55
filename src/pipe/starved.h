/* Time in which a thread was ready to run and had no processor: not its own fault. */
#ifndef SL_PIPE_STARVED_H
#define SL_PIPE_STARVED_H

#include <stdint.h>

/* How much of the `span_ns` since the last look the thread `tid` of this process spent so; 0 where
 * that is not known, and while it sleeps. `*cpu_ns` is kept between looks, 0 before the first. */
int64_t sl_pipe_starved_look(int tid, int64_t span_ns, int64_t *cpu_ns);

#endif
