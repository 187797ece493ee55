/* The order in which a seat runs forwards and adds gradients.
 *
 *     ascending   B0 B1 B2 B3               one worker's order, hence its bits
 *     other       B3 B2 B1 B0               the same sums in another order: other last bits
 *     restored    I3 I2 I1 B0 W1 W2 W3      ascending again, for the memory of three `kept`
 *
 * Only micro-batches of one iteration are added up, so the order of iterations does not matter.
 */
#ifndef SL_SCHED_ORDER_H
#define SL_SCHED_ORDER_H

#include "sched/sched.h"

struct sl_sched_order {
    bool gradients; /* added in ascending order on every seat */
    bool forwards;  /* run in ascending order on every seat: running statistics */
    int stage;      /* of the first gradient out of order: */
    int32_t micro, after;
};

struct sl_sched_order sl_sched_order_of(const struct sl_sched *sched);
/* True, or SL_ERR_REFUSED that names the first gradient out of order. */
SL_MUST_CHECK sl_err sl_sched_order_require(const struct sl_sched *sched);

/* The passes with gradients in ascending order: a gradient that is early waits for those before it,
 * and its B becomes I and W. NULL: they are in order, or one waits beyond its segment. The rest of
 * the result is that of `passes`. */
struct sl_sched *sl_sched_order_restore(struct sl_arena *arena, const struct sl_sched *passes);

#endif
