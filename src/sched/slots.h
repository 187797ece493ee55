/* Slots that hold activations, as memory counts them. */
#ifndef SL_SCHED_SLOTS_H
#define SL_SCHED_SLOTS_H

#include "sched/sched.h"

/* Slots of a run: a micro-batch keeps one from F to B or W, and those that do at once lie in a
 * range of so many at most. */
int32_t sl_sched_slots(const struct sl_sched *sched, int seat);
/* Is what is kept from I to W the slot itself, because it is as large? Then memory does not have it
 * beside the stash. */
bool sl_sched_keeps_slot(const struct sl_sched *sched, int seat);
/* Slots of a pool that take memory; where slots are kept, STASH has those of a run and KEPT none.
 */
int32_t sl_sched_pool_slots(const struct sl_sched *sched, int seat, int pool);

#endif
