/* What a serial run takes from a schedule: the order in which a stage runs the micro-batches of
 * a step, and the weight version that each pass reads.
 *
 * Versions follow from the order of passes and steps on each worker and from the version rule alone:
 *
 *     newest    F, B: number of steps before the pass
 *     stash     F: number of steps before the pass; B: the version of its F
 *     vsync     number of steps before F on the entry stage
 *     twobw     F, B of step t (from 0): max(t - 1, 0)
 *
 * The versions and slots that lowering wrote into the actions are not used. */
#ifndef SL_RUN_SERIAL_ORDER_H
#define SL_RUN_SERIAL_ORDER_H

#include "sched/sched.h"

struct sl_serial_order {
    int64_t *at[2];      /* [0: F, 1: sums][step * micros + i] the i-th micro-batch of the step */
    int32_t *version[2]; /* [0: F, 1: B][step * micros + j]; NULL: all passes read the newest */
    int32_t lag;         /* most steps between a pass and the version it reads */
    bool crossed;        /* in some step, a forward comes after one of a later step */
};

/* Returns one order per stage. `sched` NULL: ascending. Reads sched->iters steps of an asynchronous
 * schedule, and only the first step of a synchronous one, which stands for all. */
struct sl_serial_order *sl_run_serial_orders(struct sl_arena *arena, const struct sl_plan *plan,
                                             int64_t batch, const struct sl_sched *sched);

#endif
