/* Steps that are told while a run goes on, by the thread that waits for its end; see pipe_tell.c.
 * Workers say when the losses of a micro-batch are there, worker 0 when a step has its report. */
#ifndef SL_PIPE_TELL_H
#define SL_PIPE_TELL_H

#include "pipe/state.h"

void sl_pipe_tell_open(struct sl_pipe *pipe);
void sl_pipe_tell_close(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_tell_start(struct sl_pipe *pipe, int64_t steps); /* by all ranks */
void sl_pipe_tell_stop(struct sl_pipe *pipe); /* its reports are whole now */
void sl_pipe_tell_losses(struct sl_pipe *pipe, int64_t iteration);
void sl_pipe_tell_pass(struct sl_pipe *pipe); /* by worker 0 */
void sl_pipe_tell_ended(struct sl_pipe *pipe, int64_t version);
void sl_pipe_tell(struct sl_pipe *pipe);
/* What this rank shows to others; pipe_notes.c sends and receives it. */
void sl_pipe_tell_show(const struct sl_pipe *pipe, struct sl_word *out);

/* pipe.c: the loss of a step of this run, in the order of one worker; memory of the largest worker.
 */
double sl_pipe_loss(const struct sl_pipe *pipe, int64_t step);
int64_t sl_pipe_max_bytes(const struct sl_pipe *pipe);

#endif
