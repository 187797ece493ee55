/* Ending an asynchronous run early; see halt.c. */
#ifndef SL_PIPE_HALT_H
#define SL_PIPE_HALT_H

#include "pipe/state.h"

void sl_pipe_halt_open(struct sl_pipe *pipe);
void sl_pipe_halt_close(struct sl_pipe *pipe);
void sl_pipe_halt_start(struct sl_pipe *pipe); /* before the workers of a run */
/* Called by a worker before a repetition of the period: shall it run? Later: how many have run. */
bool sl_pipe_halt_continues(struct sl_pipe *pipe, int32_t rep);
int32_t sl_pipe_halt_reps(struct sl_pipe *pipe);
/* Called repeatedly by the thread that waits for the workers. */
void sl_pipe_halt_poll(struct sl_pipe *pipe);
/* After a run: makes pipe->sched the schedule that was run; returns its steps. */
int64_t sl_pipe_halt_end(struct sl_pipe *pipe, int64_t steps);

#endif
