/* Counts pending steps and delays by walks over the lists of the workers. Formulas for the same
 * delays are in `claim` of schedules/async.c and in `delay_of` of sched/policy.c. */
#include "sched/lag.h"

#include "sched/deps.h"

static int32_t lag_of(const struct sl_sched *flat, int worker) {
    int32_t known = 0, lag = 0; /* known: the newest version that a seat of the worker has made */
    for (int segment = 0; segment < SL_SEGMENT_COUNT; segment++) {
        const struct sl_actions *list = &flat->lists[segment][worker];
        int64_t count = segment == SL_PERIOD && !flat->reps ? 0 : list->count;
        int32_t rep = segment == SL_EPILOGUE ? flat->reps : 0;
        for (int64_t i = 0; i < count; i++) {
            const struct sl_action *a = &list->at[i];
            int32_t iteration = a->micro / flat->micros[a->stage] + rep;
            if (a->kind == SL_STEP && a->version + rep > known)
                known = a->version + rep;
            if (a->kind == SL_FORWARD && iteration - known > lag)
                lag = iteration - known;
        }
    }
    return lag;
}

int32_t sl_sched_decision_lag(const struct sl_sched *sched) {
    const struct sl_sched flat = sl_sched_flat(sched);
    int32_t lag = 0;
    for (int w = 0; w < flat.plan->worker_count; w++) {
        int32_t own = lag_of(&flat, w);
        lag = own > lag ? own : lag;
    }
    return lag;
}

void sl_sched_delays(const struct sl_sched *sched, double *delays) {
    const struct sl_sched flat = sl_sched_flat(sched);
    const struct sl_plan *plan = sched->plan;
    for (int s = 0; s < plan->stage_count; s++)
        delays[s] = 0;
    for (int segment = 0; segment < SL_SEGMENT_COUNT; segment++)
        for (int w = 0; w < plan->worker_count; w++)
            for (int64_t i = 0; i < flat.lists[segment][w].count; i++) {
                const struct sl_action *a = &flat.lists[segment][w].at[i];
                if (a->kind != SL_FORWARD)
                    continue;
                int32_t iteration = a->micro / flat.micros[a->stage];
                bool counts = flat.reps ? segment == SL_PERIOD : iteration == flat.iters - 1;
                int32_t of =
                    flat.reps ? flat.micros[a->stage] : sl_sched_micros(&flat, a->stage, iteration);
                if (counts)
                    delays[a->stage] += (double)(iteration - a->version) / of;
            }
}
