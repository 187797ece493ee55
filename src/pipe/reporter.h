/* Reports of steps while an asynchronous run continues; see reporter.c. Workers call add_losses when
 * the losses of a micro-batch are computed; worker 0 calls pass and step_ended; the thread that
 * waits for the workers calls poll. */
#ifndef SL_PIPE_REPORTER_H
#define SL_PIPE_REPORTER_H

#include "pipe/state.h"

void sl_pipe_reporter_open(struct sl_pipe *pipe);
void sl_pipe_reporter_close(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_reporter_start(struct sl_pipe *pipe, int64_t steps); /* all ranks */
void sl_pipe_reporter_stop(struct sl_pipe *pipe); /* the final reports are ready */
void sl_pipe_reporter_add_losses(struct sl_pipe *pipe, int64_t iteration);
void sl_pipe_reporter_pass(struct sl_pipe *pipe); /* worker 0 */
void sl_pipe_reporter_step_ended(struct sl_pipe *pipe, int64_t version);
void sl_pipe_reporter_poll(struct sl_pipe *pipe);
/* Loss sums of this rank for the others; status.c sends and receives them. */
void sl_pipe_reporter_publish(const struct sl_pipe *pipe, struct sl_pipe_loss_sums *out);

/* Losses of the iterations in flight that have arrived, for a checkpoint. */
void sl_pipe_reporter_put(const struct sl_pipe *pipe, double *out, int64_t count);
void sl_pipe_reporter_get(struct sl_pipe *pipe, const double *in, int64_t count);

/* pipe.c: the loss of an iteration, in the order of one worker; memory of the largest worker. */
double sl_pipe_loss(const struct sl_pipe *pipe, int64_t iteration);
int64_t sl_pipe_max_bytes(const struct sl_pipe *pipe);

#endif
