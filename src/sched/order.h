/* The order in which a seat runs forwards and adds gradients.
 *
 *     ascending   B0 B1 B2 B3               one worker's order, hence its bits
 *     other       B3 B2 B1 B0               the same sums in another order: other last bits
 *     restored    I3 I2 I1 B0 W1 W2 W3      ascending again; costs the memory of three kept I
 *
 * A sum contains only micro-batches of one iteration, so the order of iterations does not
 * matter. */
#ifndef SL_SCHED_ORDER_H
#define SL_SCHED_ORDER_H

#include "sched/sched.h"

struct sl_sched_order {
    bool gradients; /* every seat adds gradients in ascending order */
    /* every seat runs forwards in ascending order; running statistics depend on it */
    bool forwards;
    /* every seat adds all gradients of an iteration before those of the next one, as its step needs */
    bool iterations;
    /* the first gradient out of order: its stage, its micro-batch, and the one that came before
     * it */
    int stage;
    int32_t micro, after;
};

struct sl_sched_order sl_sched_order_of(const struct sl_sched *sched);
/* Returns SL_OK if gradients are in ascending order, else SL_ERR_REFUSED that names the first that
 * is not. */
SL_MUST_CHECK sl_err sl_sched_order_require(const struct sl_sched *sched);

/* Returns the passes with gradients in ascending order: an early gradient waits for those before
 * it, so its B becomes I and W. Returns NULL if they and their iterations are already in order, or if one would wait
 * beyond its segment. The result shares everything else with `passes`. */
struct sl_sched *sl_sched_order_restore(struct sl_arena *arena, const struct sl_sched *passes);

#endif
