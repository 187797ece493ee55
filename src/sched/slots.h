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

/* A message ring holds the buffers of both ends and is the reader's memory. Counting those of each end
 * where they are gives the same sum per worker if a message comes back for each. Over edges without
 * gradients none does: the reader counts both ends (bytes of the sender's pool are 0). */
int64_t sl_sched_ring_bytes(const struct sl_sched *sched, int seat);

#endif
