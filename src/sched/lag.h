/* What workers know of the verdicts when they begin an iteration. */
#ifndef SL_SCHED_LAG_H
#define SL_SCHED_LAG_H

#include "sched/sched.h"

/* How many steps, at most, a worker that begins a micro-batch of iteration t has not yet made of
 * those 1 .. t: 0 where schedules are synchronous. */
int32_t sl_sched_decision_lag(const struct sl_sched *sched);

#endif
