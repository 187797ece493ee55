/* How policies see a schedule: numbers of a pass, numbers of a stage. Heights are counted in passes
 * of one replica. Slack adds passes per edge; where neighbours have different numbers of replicas,
 * an edge counts as fewer or more passes. */
#include "sched/deps.h"

/* Micro-batches in flight from a stage on, over all its replicas. */
static int64_t flight_of(const struct sl_sched *sched, int stage) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    return s->window + (int64_t)s->height * sched->slack;
}

static int64_t height_of(const struct sl_sched *sched, int stage) {
    int64_t width = sched->plan->stages[stage].width, more = flight_of(sched, stage) - width;
    return more <= 0 ? 0 : (more + width - 1) / width;
}

int64_t sl_sched_half_times_below(const struct sl_sched *sched, int stage) {
    const struct sl_plan *plan = sched->plan;
    int64_t top = plan->window + (int64_t)(plan->depth - 1) * sched->slack;
    return (top - flight_of(sched, stage)) / plan->stages[stage].width;
}

static int64_t depth_of(const struct sl_sched *sched, int stage) {
    return sl_sched_half_times_below(sched, stage) + height_of(sched, stage) + 1;
}

struct sl_policy_pass sl_sched_policy_pass_of(const struct sl_sched *sched,
                                              const struct sl_action *pass) {
    return (struct sl_policy_pass){.height = height_of(sched, pass->stage),
                                   .depth = depth_of(sched, pass->stage),
                                   .micros = sched->micros[pass->stage],
                                   .width = sched->plan->stages[pass->stage].width,
                                   .micro = pass->micro,
                                   .version = pass->version,
                                   .backward = pass->kind != SL_FORWARD,
                                   .global_step = sched->global_step};
}

/* Mean staleness of the m forwards of a step. A stage of height h runs its backwards h passes after
 * its forwards, so forwards that come before the last step read an older version. The sum of the
 * staleness over a step is ceil(h/m) + ceil((h-1)/m) + ... + ceil((h-m+1)/m) = h. A step that comes
 * `late` passes after its gradient makes ceil(late/2) more forwards stale. Each of w replicas runs
 * m/w of the forwards. */
static double delay_of(const struct sl_sched *sched, int stage) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    int64_t late = sched->global_step ? (sl_sched_step_delay(sched, stage) + 1) / 2 : 0;
    return (double)((height_of(sched, stage) + late) * s->width) / (double)sched->micros[stage];
}

int sl_sched_entry(const struct sl_plan *plan) {
    int entry = 0;
    while (plan->stages[entry].height + 1 < plan->depth)
        entry++;
    return entry;
}

struct sl_policy_at sl_sched_policy_at_of(const struct sl_sched *sched, int stage) {
    struct sl_policy_at at = {.height = height_of(sched, stage),
                              .depth = depth_of(sched, stage),
                              .width = sched->plan->stages[stage].width,
                              .micros = sched->micros[stage]};
    switch (sched->rule) {
    case SL_RULE_SYNC: at.delay = 0; break;
    case SL_RULE_2BW: at.delay = 1; break;
    case SL_RULE_VSYNC: at.delay = delay_of(sched, sl_sched_entry(sched->plan)); break;
    default: at.delay = delay_of(sched, stage); break;
    }
    return at;
}
