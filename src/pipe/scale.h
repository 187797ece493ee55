/* The scale of the loss in a pipeline. Private to pipe*.c. */
#ifndef SL_PIPE_SCALE_H
#define SL_PIPE_SCALE_H

#include "pipe/state.h"

/* Has the schedule verdicts for the rule to follow? */
SL_MUST_CHECK sl_err sl_pipe_scale_check(const struct sl_train_config *c,
                                         const struct sl_sched *sched);
void sl_pipe_scale_start(struct sl_pipe *pipe); /* a run */
/* In an iteration of this run; what a verdict does to it. */
double sl_pipe_scale_of(const struct sl_pipe_worker *worker, int64_t iteration);
void sl_pipe_scale_judged(struct sl_pipe_worker *worker, int64_t version, bool finite);
SL_MUST_CHECK sl_err sl_pipe_scale_end(struct sl_pipe *pipe, int64_t steps); /* of all ranks */
void sl_pipe_scale_close(struct sl_pipe *pipe);

#endif
