/* Rules of shards (plan/shards.h). */
#include "plan/shards.h"

#include <stdlib.h>

const char *const sl_plan_collective_kinds[] = {"sum", "gather", "scatter", NULL};
const char *const sl_plan_collective_passes[] = {"f", "b", "w", NULL};

int64_t sl_plan_collective_traffic(enum sl_collective_kind kind, int shards, int64_t bytes) {
    int64_t times = kind == SL_COLLECTIVE_SUM ? 2 : 1; /* a scatter, then a gather */
    return times * (shards - 1) * (bytes / shards) +
           times * (shards - 1) * (bytes % shards) / shards;
}

static int degree(const struct sl_stage *stage) { return stage->shards ? stage->shards : 1; }

static sl_err check_collectives(const struct sl_stage *stage) {
    if (stage->collective_count < 0 || stage->collective_count > SL_COLLECTIVE_MAX)
        return sl_fail(SL_ERR_INPUT, "stage %s: more than %d collectives", stage->name,
                       SL_COLLECTIVE_MAX);
    if (stage->collective_count && degree(stage) == 1)
        return sl_fail(SL_ERR_INPUT, "stage %s has collectives but one shard", stage->name);
    for (int i = 0; i < stage->collective_count; i++) {
        const struct sl_collective *c = &stage->collectives[i];
        if (c->sample_bytes < 0 || c->sample_bytes > INT64_MAX >> 32 || c->count < 1 ||
            c->count > SL_COLLECTIVE_MAX)
            return sl_fail(SL_ERR_INPUT, "stage %s: collective %d: bytes or count out of range",
                           stage->name, i);
        if (i && c->pass < stage->collectives[i - 1].pass)
            return sl_fail(SL_ERR_INPUT,
                           "stage %s: collective %d: those of f come first, then b, then w",
                           stage->name, i);
    }
    return SL_OK;
}

/* The stage that decides the degree of each worker, -1: none. */
static sl_err check_teams(const struct sl_plan *plan) {
    int *first = sl_realloc(NULL, sizeof *first * (size_t)plan->worker_count);
    int64_t devices = plan->worker_count;
    sl_err err = SL_OK;
    for (int w = 0; w < plan->worker_count; w++)
        first[w] = -1;
    for (int s = 0; s < plan->stage_count && err == SL_OK; s++)
        for (int r = 0; r < plan->stages[s].width && err == SL_OK; r++) {
            int w = plan->stages[s].workers[r];
            const struct sl_stage *stage = &plan->stages[s];
            if (first[w] < 0)
                devices += degree(stage) - 1;
            else if (degree(stage) != degree(&plan->stages[first[w]]))
                err = sl_fail(SL_ERR_INPUT,
                              "worker %d: stage %s has %d shards, stage %s has %d; the stages of "
                              "a worker need equal numbers",
                              w, plan->stages[first[w]].name, degree(&plan->stages[first[w]]),
                              stage->name, degree(stage));
            first[w] = s;
        }
    free(first);
    if (err == SL_OK && devices > SL_WORKER_MAX)
        err = sl_fail(SL_ERR_INPUT, "more than %d devices", SL_WORKER_MAX);
    return err;
}

sl_err sl_plan_check_shards(const struct sl_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++) {
        const struct sl_stage *stage = &plan->stages[s];
        if (stage->shards < 0 || stage->shards > SL_SHARD_MAX)
            return sl_fail(SL_ERR_INPUT, "stage %s: %d shards is not in 1..%d", stage->name,
                           stage->shards, SL_SHARD_MAX);
        SL_TRY(check_collectives(stage));
    }
    return check_teams(plan);
}

void sl_plan_derive_devices(struct sl_arena *arena, struct sl_plan *plan) {
    int *shards = SL_NEW(arena, int, plan->worker_count);
    int *device = SL_NEW(arena, int, plan->worker_count + 1);
    plan->shards = 1;
    for (int w = 0; w < plan->worker_count; w++) {
        shards[w] = plan->worker_seat_count[w]
                        ? plan->stages[plan->seats[plan->worker_seats[w][0]].stage].shards
                        : 1;
        device[w + 1] = device[w] + shards[w];
        if (shards[w] > plan->shards)
            plan->shards = shards[w];
    }
    plan->worker_shards = shards;
    plan->worker_device = device;
}
