/* Slots that hold activations, as memory counts them. */
#ifndef SL_SCHED_SLOTS_H
#define SL_SCHED_SLOTS_H

#include "sched/sched.h"

/* Slots of a run: a micro-batch keeps one from F to B or W. The count is the widest range of
 * micro-batches that hold one at the same time. */
int32_t sl_sched_slots(const struct sl_sched *sched, int seat);
/* Is the slot itself kept from I to W, because that is as large? Then KEPT takes no extra memory. */
bool sl_sched_keeps_slot(const struct sl_sched *sched, int seat);
/* Slots of a pool that take memory. If slots are kept until W, STASH counts those of a run and KEPT
 * none. */
int32_t sl_sched_pool_slots(const struct sl_sched *sched, int seat, int pool);

#endif
