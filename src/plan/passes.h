/* Which passes a stage has; sl_sched_deps_has applies it, lowering drops the others. */
#ifndef SL_PLAN_PASSES_H
#define SL_PLAN_PASSES_H

/* Frozen parameters have no gradients, so a stage may compute gradients of
 * its inputs only, or nothing behind F. */
enum sl_stage_passes {
    SL_STAGE_TRAINS,  /* F, and B or I and W */
    SL_STAGE_FROZEN,  /* F and B, which is the I of others: it has no W */
    SL_STAGE_FORWARD, /* F: no stage below it trains, so no gradient reaches it */
};

#endif
