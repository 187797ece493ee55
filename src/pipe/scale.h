/* The dynamic loss scale in a pipeline; see scale.c. Private to this directory. */
#ifndef SL_PIPE_SCALE_H
#define SL_PIPE_SCALE_H

#include "pipe/state.h"

/* Refuses a dynamic scale if stages step by their own norm. */
SL_MUST_CHECK sl_err sl_pipe_scale_check(const struct sl_train_config *c,
                                         const struct sl_sched *sched);
void sl_pipe_scale_start(struct sl_pipe *pipe); /* before a run */
/* The scale of an iteration of this run; its update after the decision about a step. */
double sl_pipe_scale_of(const struct sl_pipe_worker *worker, int64_t iteration);
void sl_pipe_scale_decided(struct sl_pipe_worker *worker, int64_t version, bool finite);
SL_MUST_CHECK sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t steps); /* all ranks call */
void sl_pipe_scale_close(struct sl_pipe *pipe);

#endif
