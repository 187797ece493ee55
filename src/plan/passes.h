/* Which passes a stage has; sl_sched_deps_has applies it, lowering drops the others. */
#ifndef SL_PLAN_PASSES_H
#define SL_PLAN_PASSES_H

/* Frozen parameters have no gradients, so a stage may compute only the gradients of its inputs,
 * or nothing after F. */
enum sl_stage_passes {
    SL_STAGE_TRAINS,  /* F, and B or both I and W */
    SL_STAGE_FROZEN,  /* F and B; B does what I does in other stages, and there is no W */
    SL_STAGE_FORWARD, /* F only: no stage below it trains, so it gets no gradient */
};

#endif
