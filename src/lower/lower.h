/* Lowering turns the passes of a schedule into a program, with messages, reductions, steps, and
 * slots for everything that is kept. */
#ifndef SL_LOWER_LOWER_H
#define SL_LOWER_LOWER_H

#include "sched/sched.h"

/* Makes a new schedule, which may point into `passes`. Gradients are added in the order of one
 * worker where the plan has the memory for it. Returns SL_ERR_REFUSED if the passes cannot run. */
SL_MUST_CHECK sl_err sl_lower_passes(struct sl_arena *arena, const struct sl_sched *passes,
                                     struct sl_sched **out);

#endif
