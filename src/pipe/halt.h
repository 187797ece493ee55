/* Ending an asynchronous run before its time; see pipe_halt.c. */
#ifndef SL_PIPE_HALT_H
#define SL_PIPE_HALT_H

#include "pipe/state.h"

void sl_pipe_halt_open(struct sl_pipe *pipe);
void sl_pipe_halt_close(struct sl_pipe *pipe);
void sl_pipe_halt_start(struct sl_pipe *pipe); /* before the workers of a run */
/* By a worker, before a repetition of the period: does it come? Then, what all have agreed on. */
bool sl_pipe_goes_on(struct sl_pipe *pipe, int32_t rep);
int32_t sl_pipe_reps(struct sl_pipe *pipe);
/* By the thread that waits for the workers, now and again. */
void sl_pipe_halt_look(struct sl_pipe *pipe);
/* After a run: the schedule is what was run; how many steps that is. */
int64_t sl_pipe_halt_end(struct sl_pipe *pipe, int64_t steps);

#endif
