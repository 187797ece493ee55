/* The rules of shards (plan/shards.h). */
#include "plan/shards.h"

#include "base/vec.h"

#include <stdlib.h>

const char *const sl_plan_collective_kinds[] = {"sum", "gather", "scatter", NULL};
const char *const sl_plan_collective_passes[] = {"f", "b", "w", NULL};

int64_t sl_plan_collective_traffic(enum sl_collective_kind kind, int shards, int64_t bytes) {
    int64_t times = kind == SL_COLLECTIVE_SUM ? 2 : 1; /* a sum is a scatter and a gather */
    return times * (shards - 1) * (bytes / shards) +
           times * (shards - 1) * (bytes % shards) / shards;
}

static int degree(const struct sl_stage *stage) { return stage->shards ? stage->shards : 1; }

static sl_err check_collectives(const struct sl_stage *stage) {
    if (stage->collective_count < 0 || stage->collective_count > SL_COLLECTIVE_MAX)
        return sl_fail(SL_ERR_INPUT, "stage %s: more than %d collectives", stage->name,
                       SL_COLLECTIVE_MAX);
    if (stage->collective_count && degree(stage) == 1 && stage->parts < 2)
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

static bool same_collectives(const struct sl_stage *a, const struct sl_stage *b) {
    bool same = a->collective_count == b->collective_count;
    for (int i = 0; same && i < a->collective_count; i++) {
        const struct sl_collective *x = &a->collectives[i], *y = &b->collectives[i];
        same = x->pass == y->pass && x->kind == y->kind && x->sample_bytes == y->sample_bytes &&
               x->count == y->count;
    }
    return same;
}

/* Checks that the parts of a stage follow one another and are equal, and that the shards of a
 * replica are on different workers. */
static sl_err check_parts(const struct sl_plan *plan, int s) {
    const struct sl_stage *stage = &plan->stages[s];
    int parts = stage->parts ? stage->parts : 1, first = s - stage->part;
    if (stage->part < 0 || stage->part >= parts || parts > SL_SHARD_MAX || first < 0 ||
        first + parts > plan->stage_count)
        return sl_fail(SL_ERR_INPUT,
                       "stage %s: part %d of %d: the parts of a stage follow one "
                       "another",
                       stage->name, stage->part, parts);
    for (int k = 0; k < parts; k++)
        if (plan->stages[first + k].part != k ||
            (plan->stages[first + k].parts ? plan->stages[first + k].parts : 1) != parts)
            return sl_fail(SL_ERR_INPUT,
                           "stage %s is part %d of %d, but stage %s is not part %d of them",
                           stage->name, stage->part, parts, plan->stages[first + k].name, k);
    const struct sl_stage *other = &plan->stages[first];
    if (parts == 1 || stage == other)
        return SL_OK;
    if (degree(stage) != 1)
        return sl_fail(SL_ERR_INPUT, "stage %s is a part and has shards of its own", stage->name);
    if (stage->width != other->width || stage->micro_size != other->micro_size ||
        stage->group != other->group || stage->recompute != other->recompute ||
        stage->passes != other->passes)
        return sl_fail(SL_ERR_INPUT,
                       "stages %s and %s are parts of one stage and differ in width, "
                       "micro, group, recompute or passes",
                       other->name, stage->name);
    if (!same_collectives(stage, other))
        return sl_fail(SL_ERR_INPUT,
                       "stages %s and %s are parts of one stage and do not meet in "
                       "the same collectives",
                       other->name, stage->name);
    for (int k = first; k < s; k++)
        for (int r = 0; r < stage->width; r++)
            if (plan->stages[k].workers[r] == stage->workers[r])
                return sl_fail(SL_ERR_INPUT,
                               "stages %s and %s are parts of one stage on one "
                               "worker, %d",
                               plan->stages[k].name, stage->name, stage->workers[r]);
    return SL_OK;
}

/* Checks that all stages of a worker have the same degree. `first` is the stage that decides it;
 * -1: none. */
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
        SL_TRY(check_parts(plan, s));
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

static sl_err check_fold(const struct sl_plan *plan, int parts) {
    for (int s = 0; s < plan->stage_count; s++)
        for (int r = 0; r < plan->stages[s].width; r++)
            if (plan->stages[s].parts != parts ||
                plan->stages[s].workers[r] % parts != plan->stages[s].part)
                return sl_fail(SL_ERR_REFUSED,
                               "stage %s: all stages need %d parts, part k on a worker of number k "
                               "modulo %d",
                               plan->stages[s].name, parts, parts);
    if (plan->worker_count % parts)
        return sl_fail(SL_ERR_REFUSED, "%d workers are no multiple of %d parts", plan->worker_count,
                       parts);
    return SL_OK;
}

sl_err sl_plan_fold(struct sl_arena *arena, const struct sl_plan *plan,
                    const struct sl_plan **out) {
    int parts = plan->stages[0].parts;
    struct sl_plan draft = *plan;
    SL_TRY(check_fold(plan, parts));
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    struct sl_edge *edges = SL_NEW(arena, struct sl_edge, plan->edge_count + 1);
    struct sl_tie *ties = SL_NEW(arena, struct sl_tie, plan->tie_count + 1);
    int64_t *memory = SL_NEW(arena, int64_t, plan->worker_count);
    draft.stage_count = draft.edge_count = draft.tie_count = 0;
    draft.node_count = 0;
    for (int s = 0; s < plan->stage_count; s += parts) {
        struct sl_stage *stage = &stages[draft.stage_count++];
        *stage = plan->stages[s];
        int *workers = sl_vec_freeze(arena, stage->workers, stage->width, sizeof *workers);
        for (int r = 0; r < stage->width; r++)
            workers[r] /= parts;
        stage->workers = workers;
        stage->node_count = stage->collective_count = 0;
        stage->parts = 1;
        stage->collectives = NULL;
    }
    for (int e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from % parts == 0) {
            edges[draft.edge_count] = plan->edges[e];
            edges[draft.edge_count].from /= parts;
            edges[draft.edge_count++].to /= parts;
        }
    for (int t = 0; t < plan->tie_count; t++)
        if (plan->ties[t].stages[0] % parts == 0) {
            struct sl_tie *tie = &ties[draft.tie_count++];
            *tie = plan->ties[t];
            int *at = sl_vec_freeze(arena, tie->stages, tie->count, sizeof *at);
            for (int i = 0; i < tie->count; i++)
                at[i] /= parts;
            tie->stages = at;
        }
    for (int w = 0; w < plan->worker_count / parts; w++)
        memory[w] = plan->memory_bytes[w * parts];
    draft.stages = stages;
    draft.edges = edges;
    draft.ties = ties;
    draft.memory_bytes = memory;
    draft.worker_count = plan->worker_count / parts;
    return sl_plan_build(arena, &draft, out);
}
