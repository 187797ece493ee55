/* Schedules of expanded plans. Stage s of the folded plan becomes stages s*t .. s*t + t-1, one per
 * shard; worker w becomes workers w*t .. w*t + t-1. */
#include "sched/shards.h"

#include "base/vec.h"
#include "sched/deps.h"

#include <stdio.h>
#include <string.h>

struct lane {
    const struct sl_plan *from, *to;
    int shards, shard;
    int *edges, *ties; /* [edge or tie of the folded plan] its number for this shard */
};

/* Maps edges and ties. Those of a shard have the same order as in the folded plan. */
static void map_edges(struct lane *l) {
    for (int e = 0, next = 0; e < l->to->edge_count; e++)
        if (l->to->edges[e].from % l->shards == l->shard)
            l->edges[next++] = e;
    for (int t = 0, next = 0; t < l->to->tie_count; t++)
        if (l->to->ties[t].stages[0] % l->shards == l->shard)
            l->ties[next++] = t;
}

static int map_group(const struct lane *l, int group) {
    int stages = l->from->stage_count;
    if (group == sl_sched_decision_group(l->from))
        return sl_sched_decision_group(l->to);
    if (group < stages)
        return group * l->shards + l->shard;
    return l->to->stage_count + l->ties[group - stages];
}

static struct sl_action map_action(const struct lane *l, struct sl_action a) {
    a.stage = (uint16_t)(a.stage * l->shards + l->shard);
    if (a.kind == SL_SEND || a.kind == SL_RECV) {
        a.peer = (uint16_t)(a.peer * l->shards + l->shard);
        a.edge = (uint16_t)l->edges[a.edge];
    } else if (a.kind == SL_REDUCE) {
        a.slot = map_group(l, a.slot);
    }
    return a;
}

static void expand_lists(struct sl_arena *arena, const struct sl_sched *sched, const struct lane *l,
                         struct sl_sched *out) {
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++)
        for (int w = 0; w < l->from->worker_count; w++) {
            const struct sl_actions *from = &sched->lists[seg][w];
            struct sl_actions *to = &out->lists[seg][w * l->shards + l->shard];
            to->at = SL_NEW(arena, struct sl_action, from->count + 1);
            to->count = from->count;
            for (int64_t i = 0; i < from->count; i++)
                to->at[i] = map_action(l, from->at[i]);
        }
}

static void expand_pools(struct sl_arena *arena, const struct sl_sched *sched, const struct lane *l,
                         struct sl_slot_pool **pools) {
    for (int s = 0; s < l->from->stage_count; s++) {
        const struct sl_stage *from = &l->from->stages[s];
        const struct sl_stage *to = &l->to->stages[s * l->shards + l->shard];
        int count = SL_POOL_EDGES + 2 * (from->in_count + from->out_count);
        for (int r = 0; r < from->width; r++)
            pools[to->seat + r] =
                sl_vec_freeze(arena, sched->pools[from->seat + r], count, sizeof **pools);
    }
}

static sl_err check_expansion(const struct sl_plan *from, const struct sl_plan *to, int shards) {
    if (to->stage_count != from->stage_count * shards ||
        to->edge_count != from->edge_count * shards || to->tie_count != from->tie_count * shards ||
        to->worker_count != from->worker_count * shards)
        return sl_fail(SL_ERR_REFUSED, "the shards of the plan differ in edges or ties");
    if (to->stage_count > SL_STAGE_MAX || to->worker_count > SL_WORKER_MAX)
        return sl_fail(SL_ERR_REFUSED, "more than %d stages or workers", SL_STAGE_MAX);
    for (int e = 0; e < to->edge_count; e++)
        if (to->edges[e].from % shards != to->edges[e].to % shards)
            return sl_fail(SL_ERR_REFUSED, "an edge leads from one shard to another");
    return SL_OK;
}

sl_err sl_sched_expand(struct sl_arena *arena, const struct sl_sched *sched,
                       const struct sl_plan *plan, const struct sl_sched **out) {
    int shards = plan->stages[0].parts;
    SL_TRY(check_expansion(sched->plan, plan, shards));
    struct sl_sched *made = SL_NEW(arena, struct sl_sched, 1);
    struct sl_slot_pool **pools = SL_NEW(arena, struct sl_slot_pool *, plan->seat_count);
    int32_t *micros = SL_NEW(arena, int32_t, plan->stage_count);
    int64_t(*dur_ns)[SL_KIND_COUNT] =
        sl_arena_alloc(arena, (int64_t)sizeof *dur_ns * plan->stage_count);
    *made = *sched;
    made->plan = plan;
    made->name = sl_arena_dup(arena, sched->name, strlen(sched->name));
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++)
        made->lists[seg] = SL_NEW(arena, struct sl_actions, plan->worker_count);
    for (int s = 0; s < plan->stage_count; s++) {
        micros[s] = sched->micros[s / shards];
        memcpy(dur_ns[s], sched->dur_ns[s / shards], sizeof dur_ns[s]);
    }
    for (int k = 0; k < shards; k++) {
        struct lane lane = {sched->plan,
                            plan,
                            shards,
                            k,
                            SL_NEW(arena, int, sched->plan->edge_count + 1),
                            SL_NEW(arena, int, sched->plan->tie_count + 1)};
        map_edges(&lane);
        expand_lists(arena, sched, &lane, made);
        if (sched->pools)
            expand_pools(arena, sched, &lane, pools);
    }
    made->micros = micros;
    made->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur_ns;
    made->pools = sched->pools ? pools : NULL;
    *out = made;
    return SL_OK;
}

/* ---- the proof ---- */

static bool is_pass(const struct sl_action *a) { return a->kind <= SL_RECOMPUTE; }

/* Returns the next action of the stage's shard in a list, and moves *at behind it. */
static const struct sl_action *next_of(const struct sl_actions *list, int stage, int64_t *at) {
    while (*at < list->count) {
        const struct sl_action *a = &list->at[(*at)++];
        if (a->stage == stage && is_pass(a))
            return a;
    }
    return NULL;
}

static sl_err fail_order(const struct sl_sched *sched, int stage, int first,
                         const struct sl_action *here, const struct sl_action *there) {
    char a[64] = "nothing", b[64] = "nothing";
    if (here)
        snprintf(a, sizeof a, "%s of micro-batch %d", sl_sched_kind_name(here->kind), here->micro);
    if (there)
        snprintf(b, sizeof b, "%s of micro-batch %d", sl_sched_kind_name(there->kind),
                 there->micro);
    return sl_fail(SL_ERR_REFUSED,
                   "stages %s and %s are shards of one stage and do not meet: one runs %s where "
                   "the other runs %s",
                   sched->plan->stages[stage].name, sched->plan->stages[first].name, a, b);
}

/* Checks two shards of a replica: their workers run the passes of all stages in the same order. */
static sl_err check_workers(const struct sl_sched *sched, int stage, int first, int replica) {
    const struct sl_plan *plan = sched->plan;
    int here = plan->stages[stage].workers[replica], there = plan->stages[first].workers[replica];
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++) {
        const struct sl_actions *a = &sched->lists[seg][here], *b = &sched->lists[seg][there];
        const struct sl_action *x, *y;
        int64_t i = 0, j = 0;
        do {
            x = next_of(a, stage, &i);
            y = next_of(b, first, &j);
            if (!x != !y || (x && (x->kind != y->kind || x->micro != y->micro)))
                return fail_order(sched, stage, first, x, y);
        } while (x);
    }
    return SL_OK;
}

/* Checks the order of passes of different stages on a worker. For every stage, the worker of shard
 * k follows the worker of shard 0 at the same distance, and both interleave their stages in the
 * same order. */
static sl_err check_interleaving(const struct sl_sched *sched, int here, int there, int shift) {
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++) {
        const struct sl_actions *a = &sched->lists[seg][here], *b = &sched->lists[seg][there];
        int64_t i = 0, j = 0;
        for (;;) {
            while (i < a->count && !is_pass(&a->at[i]))
                i++;
            while (j < b->count && !is_pass(&b->at[j]))
                j++;
            const struct sl_action *x = i < a->count ? &a->at[i++] : NULL;
            const struct sl_action *y = j < b->count ? &b->at[j++] : NULL;
            if (!x && !y)
                break;
            if (!x || !y || x->stage != y->stage + shift)
                return sl_fail(SL_ERR_REFUSED,
                               "workers %d and %d hold shards of the same stages and run them in "
                               "different orders",
                               there, here);
        }
    }
    return SL_OK;
}

sl_err sl_sched_verify_shards(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct sl_stage *stage = &plan->stages[s];
        if (stage->part == 0)
            continue;
        for (int r = 0; r < stage->width; r++) {
            SL_TRY(check_workers(sched, s, s - stage->part, r));
            SL_TRY(check_interleaving(sched, stage->workers[r],
                                      plan->stages[s - stage->part].workers[r], stage->part));
        }
    }
    return SL_OK;
}
