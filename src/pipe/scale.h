/* The dynamic loss scale in a pipeline; see scale.c. Private to this directory. */
#ifndef SL_PIPE_SCALE_H
#define SL_PIPE_SCALE_H

#include "pipe/state.h"

/* Refuses a dynamic scale if every stage clips and skips by its own norm. */
SL_MUST_CHECK sl_err sl_pipe_scale_check(const struct sl_train_config *c,
                                         const struct sl_sched *sched);
void sl_pipe_scale_start(struct sl_pipe *pipe); /* called before a new schedule */
/* The numbers that a worker adds to its image. */
int64_t sl_pipe_scale_count(const struct sl_pipe *pipe);
void sl_pipe_scale_put(const struct sl_pipe_worker *worker, double *out);
void sl_pipe_scale_get(struct sl_pipe_worker *worker, const double *in);
/* scale_of: the scale of an iteration of the schedule. decided: updates the scale after the
 * decision about a step. */
double sl_pipe_scale_of(const struct sl_pipe_worker *worker, int64_t iteration);
void sl_pipe_scale_decided(struct sl_pipe_worker *worker, int64_t version, bool finite);
/* Called by all ranks after a run to step `done` of the schedule. */
SL_MUST_CHECK sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t done);
void sl_pipe_scale_close(struct sl_pipe *pipe);

#endif
