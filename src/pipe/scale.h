/* The dynamic loss scale in a pipeline; see scale.c. Private to this directory. */
#ifndef SL_PIPE_SCALE_H
#define SL_PIPE_SCALE_H

#include "pipe/state.h"

/* Refuses a dynamic scale if stages step by their own norm. */
SL_MUST_CHECK sl_err sl_pipe_scale_check(const struct sl_train_config *c,
                                         const struct sl_sched *sched);
void sl_pipe_scale_start(struct sl_pipe *pipe); /* before a new schedule */
/* Numbers of a worker in its image. */
int64_t sl_pipe_scale_count(const struct sl_pipe *pipe);
void sl_pipe_scale_put(const struct sl_pipe_worker *worker, double *out);
void sl_pipe_scale_get(struct sl_pipe_worker *worker, const double *in);
/* The scale of an iteration of the schedule; its update after the decision about a step. */
double sl_pipe_scale_of(const struct sl_pipe_worker *worker, int64_t iteration);
void sl_pipe_scale_decided(struct sl_pipe_worker *worker, int64_t version, bool finite);
/* After a run to step `done` of the schedule; all ranks call. */
SL_MUST_CHECK sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t done);
void sl_pipe_scale_close(struct sl_pipe *pipe);

#endif
