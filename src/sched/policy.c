/* A schedule as policies see it: numbers of a pass, numbers of a stage. Heights are counted in
 * micro-batches in flight: with slack there are more of them to an edge. */
#include "sched/deps.h"

static int64_t height_of(const struct sl_sched *sched, int stage) {
    return (int64_t)sched->plan->stages[stage].height * (1 + sched->slack);
}

static int64_t depth_of(const struct sl_sched *sched) {
    return (int64_t)(sched->plan->depth - 1) * (1 + sched->slack) + 1;
}

struct sl_policy_pass sl_sched_policy_pass_of(const struct sl_sched *sched,
                                              const struct sl_action *pass) {
    return (struct sl_policy_pass){.height = height_of(sched, pass->stage),
                                   .depth = depth_of(sched),
                                   .micros = sched->micros[pass->stage],
                                   .micro = pass->micro,
                                   .version = pass->version,
                                   .backward = pass->kind != SL_FORWARD,
                                   .global_step = sched->global_step};
}

/* Of the m forwards of a step, those before the last step read an older version. A stage of height h
 * is h backwards behind its forwards, so the sum of the staleness over a step is ceil(h/m) +
 * ceil((h-1)/m) + ... + ceil((h-m+1)/m) = h. A step `late` passes after its gradient adds
 * ceil(late/2) forwards to these. */
struct sl_policy_at sl_sched_policy_at_of(const struct sl_sched *sched, int stage) {
    struct sl_policy_at at = {.height = height_of(sched, stage),
                              .depth = depth_of(sched),
                              .micros = sched->micros[stage]};
    int64_t late = sched->global_step ? (sl_sched_step_delay(sched, stage) + 1) / 2 : 0;
    switch (sched->rule) {
    case SL_RULE_SYNC: at.delay = 0; break;
    case SL_RULE_2BW: at.delay = 1; break;
    case SL_RULE_VSYNC: /* that of the entry */
        at.delay = (double)(at.depth - 1 + sched->global_step) / (double)at.micros;
        break;
    default: at.delay = (double)(at.height + late) / (double)at.micros; break;
    }
    return at;
}
