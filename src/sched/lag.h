/* How many steps are not decided yet when a worker begins an iteration. */
#ifndef SL_SCHED_LAG_H
#define SL_SCHED_LAG_H

#include "sched/sched.h"

/* Returns the largest number of steps (of 1 .. t) that a worker has not made when it begins a
 * micro-batch of iteration t. 0 for synchronous schedules. */
int32_t sl_sched_decision_lag(const struct sl_sched *sched);

/* Sets delays[stage] to the mean number of steps by which the weights of the stage's forward passes
 * are older than their iteration, in the period or, without one, in the last iteration. */
void sl_sched_delays(const struct sl_sched *sched, double *delays);

#endif
