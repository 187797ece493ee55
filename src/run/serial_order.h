/* What a schedule says to a serial run: in which order a stage runs the micro-batches of a step, and
 * which weight version each pass reads.
 *
 * Versions follow from the order of passes and steps on each worker and from the version rule alone:
 *
 *     newest    F, B: the steps before the pass
 *     stash     F the same, B the version of its F
 *     vsync     the steps before F on the entry stage
 *     twobw     F, B of step t (from 0): max(t - 1, 0)
 *
 * What lowering wrote on the actions (versions, slots) is not read. */
#ifndef SL_RUN_SERIAL_ORDER_H
#define SL_RUN_SERIAL_ORDER_H

#include "sched/sched.h"

struct sl_serial_order {
    int64_t *at[2];      /* [0: F, 1: sums][step * micros + i] micro-batch of the step */
    int32_t *version[2]; /* [0: F, 1: B][step * micros + j]; NULL: all passes read the newest */
    int32_t lag;         /* most steps between a pass and the version it reads */
    bool crossed;        /* a step has a forward behind one of a later step */
};

/* One per stage. `sched` NULL: ascending. Of a synchronous schedule only the first step is read; it
 * stands for all. Else sched->iters steps. */
struct sl_serial_order *sl_run_serial_orders(struct sl_arena *arena, const struct sl_plan *plan,
                                             int64_t batch, const struct sl_sched *sched);

#endif
