/* Reports of steps while an asynchronous run continues; see reporter.c. Workers call add_losses when
 * the losses of a micro-batch are computed; worker 0 calls pass and step_ended; the thread that
 * waits for the workers calls poll. */
#ifndef SL_PIPE_REPORTER_H
#define SL_PIPE_REPORTER_H

#include "pipe/state.h"

void sl_pipe_reporter_open(struct sl_pipe *pipe);
void sl_pipe_reporter_close(struct sl_pipe *pipe);
/* all ranks call */
SL_MUST_CHECK sl_err sl_pipe_reporter_start(struct sl_pipe *pipe, int64_t steps);
void sl_pipe_reporter_stop(struct sl_pipe *pipe); /* called when the final reports are ready */
void sl_pipe_reporter_add_losses(struct sl_pipe *pipe, int64_t iteration);
void sl_pipe_reporter_pass(struct sl_pipe *pipe); /* called by worker 0 */
void sl_pipe_reporter_step_ended(struct sl_pipe *pipe, int64_t version);
void sl_pipe_reporter_poll(struct sl_pipe *pipe);
/* Copies the loss sums of this rank, for the other ranks; status.c sends and receives them. */
void sl_pipe_reporter_publish(const struct sl_pipe *pipe, struct sl_pipe_loss_sums *out);

/* put and get save and restore how many loss terms of each iteration in flight have arrived. */
void sl_pipe_reporter_put(const struct sl_pipe *pipe, double *out, int64_t count);
void sl_pipe_reporter_get(struct sl_pipe *pipe, const double *in, int64_t count);

/* pipe.c. Loss: of an iteration, added in the order of one worker. Max_bytes: memory of the largest
 * worker. */
double sl_pipe_loss(const struct sl_pipe *pipe, int64_t iteration);
int64_t sl_pipe_max_bytes(const struct sl_pipe *pipe);

#endif
