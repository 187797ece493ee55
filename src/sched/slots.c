/* Counts how many micro-batches hold a slot at once, by one walk over the passes of a seat. */
#include "sched/slots.h"

#include "sched/deps.h"

#include <stdlib.h>
#include <string.h>

/* Passes may come from an unverified file: skip numbers that are out of range. */
int32_t sl_sched_slots(const struct sl_sched *sched, int seat) {
    const struct sl_sched flat = sl_sched_flat(sched);
    const struct sl_seat *at = &flat.plan->seats[seat];
    int64_t total = sl_sched_total(&flat, at->stage), low = 0, high = -1, max = 0;
    bool alone = flat.rule == SL_RULE_FORWARD || /* the stage has no backward pass */
                 flat.plan->stages[at->stage].passes == SL_STAGE_FORWARD;
    bool *done = sl_realloc(NULL, (size_t)total + 1);
    memset(done, 0, (size_t)total + 1);
    for (int segment = 0; segment < SL_SEGMENT_COUNT; segment++) {
        const struct sl_actions *list = &flat.lists[segment][at->worker];
        int64_t count = segment == SL_PERIOD && !flat.reps ? 0 : list->count;
        int32_t rep = segment == SL_EPILOGUE ? flat.reps : 0;
        for (int64_t i = 0; i < count; i++) {
            const struct sl_action *a = &list->at[i];
            int64_t micro = a->micro + (int64_t)rep * flat.micros[at->stage];
            if (a->stage != at->stage || a->kind > SL_BACKWARD_WEIGHT || micro < 0 ||
                micro >= total)
                continue;
            int32_t ordinal = sl_sched_deps_ordinal(&flat, at->stage, (int32_t)micro);
            if (a->kind == SL_FORWARD) {
                high = ordinal > high ? ordinal : high;
                max = high - low + 1 > max ? high - low + 1 : max;
            }
            done[ordinal] |= a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT || alone;
            while (low <= high && done[low])
                low++;
        }
    }
    free(done);
    return (int32_t)max;
}

bool sl_sched_keeps_slot(const struct sl_sched *sched, int seat) {
    const struct sl_slot_pool *pools = sched->pools[seat];
    return pools[SL_POOL_KEPT].count && pools[SL_POOL_KEPT].bytes == pools[SL_POOL_STASH].bytes;
}

int32_t sl_sched_pool_slots(const struct sl_sched *sched, int seat, int pool) {
    bool either = pool == SL_POOL_STASH || pool == SL_POOL_KEPT;
    if (!either || !sl_sched_keeps_slot(sched, seat))
        return sched->pools[seat][pool].count;
    return pool == SL_POOL_STASH ? sl_sched_slots(sched, seat) : 0;
}
