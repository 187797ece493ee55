/* Where a run ends; see halt.c. */
#ifndef SL_PIPE_HALT_H
#define SL_PIPE_HALT_H

#include "pipe/state.h"

void sl_pipe_halt_open(struct sl_pipe *pipe);
void sl_pipe_halt_close(struct sl_pipe *pipe);
/* Why this pipeline cannot pause in the middle of a run; NULL: it can. */
const char *sl_pipe_halt_obstacle(struct sl_pipe *pipe);
/* Called before the workers start. The run ends after step `done` of the schedule, or a few steps
 * earlier if it cannot pause there. */
SL_MUST_CHECK sl_err sl_pipe_halt_start(struct sl_pipe *pipe, int64_t done);
/* Called by a worker: sets `*at` to the number of its next action. False: the run ends here for the
 * worker. */
bool sl_pipe_halt_next(struct sl_pipe *pipe, int worker, int64_t *at);
/* Called repeatedly by the thread that waits for the workers; shortens the run if it was asked to
 * end. */
void sl_pipe_halt_poll(struct sl_pipe *pipe);
/* Called after a run: returns the step of the schedule after which it ended. */
int64_t sl_pipe_halt_end(struct sl_pipe *pipe);

#endif
