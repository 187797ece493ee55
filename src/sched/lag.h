/* Steps that are not decided yet when a worker begins an iteration. */
#ifndef SL_SCHED_LAG_H
#define SL_SCHED_LAG_H

#include "sched/sched.h"

/* Max number of the steps 1 .. t that a worker has not made when it begins a micro-batch of
 * iteration t. 0 for synchronous schedules. */
int32_t sl_sched_decision_lag(const struct sl_sched *sched);

/* Mean number of steps by which the weights of a stage's forward passes are behind their iteration:
 * in the period or, without one, in the last iteration. delays[stages]. */
void sl_sched_delays(const struct sl_sched *sched, double *delays);

#endif
