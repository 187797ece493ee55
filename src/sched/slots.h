/* Slots that hold activations, as memory counts them. */
#ifndef SL_SCHED_SLOTS_H
#define SL_SCHED_SLOTS_H

#include "sched/sched.h"

/* Number of slots for the activations of a run. A micro-batch holds a slot from F to B or W. The
 * count is the widest range of micro-batches that hold one at the same time. */
int32_t sl_sched_slots(const struct sl_sched *sched, int seat);
/* Is the stash slot itself kept from I to W, because what W needs is as large? Then pool KEPT takes
 * no extra memory. */
bool sl_sched_keeps_slot(const struct sl_sched *sched, int seat);
/* Number of slots of a pool that take memory. If stash slots are kept until W, STASH counts all
 * slots of a run and KEPT counts none. */
int32_t sl_sched_pool_slots(const struct sl_sched *sched, int seat, int pool);

/* Bytes of the message rings that a seat reads. A ring holds the buffers of both ends and lies in
 * the reader's memory. Counting each end's buffers at that end gives the same sum per worker if
 * every message is answered by one in the other direction. Edges without gradients have no answer:
 * there the reader counts both ends, and the sender's pool has 0 bytes. */
int64_t sl_sched_ring_bytes(const struct sl_sched *sched, int seat);

#endif
