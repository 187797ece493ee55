/* Recurrence: checks that the state after the last played period is the state before it, turned by
 * one iteration. */
#include "sched/verify.h"

#include <string.h>

struct sl_border {
    struct sl_ver_seat *seats;
    int32_t **joined;
    uint8_t **done;
    int32_t **versions;
    struct sl_posting **posted; /* [channel] */
    int64_t *posted_count;
    int64_t channel_count;
};

#define COPY(v, at, count) sl_vec_freeze(&(v)->arena, (at), (count), sizeof *(at))

struct sl_border *sl_sched_verify_snapshot(struct sl_ver *v) {
    struct sl_border *b = SL_NEW(&v->arena, struct sl_border, 1);
    const struct sl_plan *plan = v->plan;
    b->seats = COPY(v, v->seats, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_slot_pool *pools = v->view.pools[i];
        const struct sl_ver_seat *from = &v->seats[i];
        struct sl_ver_seat *to = &b->seats[i];
        int edges = sl_sched_pool_count(&plan->stages[plan->seats[i].stage]) - SL_POOL_EDGES;
        to->stash = COPY(v, from->stash, pools[SL_POOL_STASH].count);
        to->kept = COPY(v, from->kept, pools[SL_POOL_KEPT].count);
        to->weights =
            COPY(v, from->weights, pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count);
        to->grads = COPY(v, from->grads, pools[SL_POOL_GRAD].count);
        to->buffers = SL_NEW(&v->arena, struct sl_buffer *, edges);
        for (int e = 0; e < edges; e++)
            to->buffers[e] = COPY(v, from->buffers[e], pools[SL_POOL_EDGES + e].count);
    }
    b->joined = SL_NEW(&v->arena, int32_t *, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++) {
        int groups = 0;
        while (sl_sched_group_of(plan, plan->seats[i].stage, groups) >= 0)
            groups++;
        b->joined[i] = COPY(v, v->joined[i], groups + 1);
    }
    b->done = SL_NEW(&v->arena, uint8_t *, plan->stage_count);
    b->versions = SL_NEW(&v->arena, int32_t *, plan->stage_count);
    bool remember = v->view.rule == SL_RULE_STASH || v->view.rule == SL_RULE_VSYNC;
    for (int s = 0; s < plan->stage_count; s++) {
        b->done[s] = COPY(v, v->done[s], sl_sched_total(&v->view, s));
        b->versions[s] = COPY(v, v->versions[s], remember ? sl_sched_total(&v->view, s) : 0);
    }
    b->channel_count = v->channels.count;
    b->posted = SL_NEW(&v->arena, struct sl_posting *, b->channel_count);
    b->posted_count = SL_NEW(&v->arena, int64_t, b->channel_count);
    for (int64_t i = 0; i < b->channel_count; i++) {
        const struct sl_ver_channel *c = &v->channels.at[i];
        b->posted_count[i] = c->posted.count - c->head;
        b->posted[i] = COPY(v, c->posted.at + c->head, b->posted_count[i]);
    }
    return b;
}

static sl_err no(const struct sl_ver *v, int stage, const char *what) {
    return sl_fail(SL_ERR_REFUSED,
                   "the period does not repeat: one iteration later, stage %s has other %s "
                   "at its end than at its begin",
                   v->plan->stages[stage].name, what);
}

static int32_t turned(int32_t slot, const struct sl_slot_pool *pool) {
    return (int32_t)(((int64_t)slot + pool->turn) % pool->count);
}

static bool same_slots(const int32_t *before, const int32_t *after, const struct sl_slot_pool *pool,
                       int32_t shift) {
    for (int32_t i = 0; i < pool->count; i++) {
        int32_t want = before[i] < 0 ? -1 : before[i] + shift;
        if (after[turned(i, pool)] != want)
            return false;
    }
    return true;
}

static bool same_weights(const struct sl_ver_weights *before, const struct sl_ver_weights *after,
                         const struct sl_slot_pool *pool) {
    for (int32_t i = 0; i < pool->count; i++) {
        struct sl_ver_weights now = after[turned(i, pool)];
        /* a slot that was empty may have been filled since */
        if (before[i].version >= 0 &&
            (now.version != before[i].version + 1 || now.ahead != before[i].ahead))
            return false;
    }
    return true;
}

static bool same_buffers(const struct sl_buffer *before, const struct sl_buffer *after,
                         const struct sl_slot_pool *pool, int32_t shift) {
    for (int32_t i = 0; i < pool->count; i++) {
        const struct sl_buffer *now = &after[turned(i, pool)];
        if (now->micro != (before[i].micro < 0 ? -1 : before[i].micro + shift) ||
            now->got != before[i].got || now->posted != before[i].posted)
            return false;
    }
    return true;
}

static bool same_grads(const struct sl_gradient *before, const struct sl_gradient *after,
                       const struct sl_slot_pool *pool) {
    for (int32_t i = 0; i < pool->count; i++) {
        const struct sl_gradient *now = &after[turned(i, pool)];
        if (before[i].iter < 0 ? now->iter >= 0
                               : now->iter != before[i].iter + 1 || now->count != before[i].count ||
                                     now->reduced != before[i].reduced)
            return false;
    }
    return true;
}

static sl_err recurs_seat(const struct sl_ver *v, const struct sl_border *b, int seat) {
    int stage = v->plan->seats[seat].stage;
    int32_t shift = v->view.micros[stage];
    const struct sl_slot_pool *pools = v->view.pools[seat];
    const struct sl_ver_seat *s0 = &b->seats[seat], *s1 = &v->seats[seat];
    if (s1->newest != s0->newest + 1)
        return no(v, stage, "steps");
    if (!same_slots(s0->stash, s1->stash, &pools[SL_POOL_STASH], shift))
        return no(v, stage, "stash slots");
    if (!same_slots(s0->kept, s1->kept, &pools[SL_POOL_KEPT], shift))
        return no(v, stage, "kept slots");
    if ((s0->full < 0) != (s1->full < 0) || (s0->full >= 0 && s1->full != s0->full + shift))
        return no(v, stage, "recomputed activations");
    int32_t weights = pools[SL_POOL_WEIGHT].count;
    if (!same_weights(s0->weights, s1->weights, &pools[SL_POOL_WEIGHT]) ||
        !same_weights(s0->weights + weights, s1->weights + weights, &pools[SL_POOL_PREDICT]))
        return no(v, stage, "weight versions");
    for (int i = 0; v->view.global_step; i++) {
        if (v->joined[seat][i] != b->joined[seat][i] + 1)
            return no(v, stage, "parts of sums");
        /* group -1: the previous entry was the decision */
        if (sl_sched_group_of(v->plan, stage, i) < 0)
            break;
    }
    for (int d = 0; d < 2; d++)
        if (s0->bell[d].iter >= 0 && (s1->bell[d].iter != s0->bell[d].iter + 1 ||
                                      s1->bell[d].version != s0->bell[d].version + 1))
            return no(v, stage, "bellwethers");
    if (!same_grads(s0->grads, s1->grads, &pools[SL_POOL_GRAD]))
        return no(v, stage, "gradients");
    for (int p = SL_POOL_EDGES; p < sl_sched_pool_count(&v->plan->stages[stage]); p++)
        if (!same_buffers(s0->buffers[p - SL_POOL_EDGES], s1->buffers[p - SL_POOL_EDGES], &pools[p],
                          shift))
            return no(v, stage, "message buffers");
    return SL_OK;
}

/* Compares the passes that have run and the versions of micro-batches in flight. */
static sl_err recurs_stage(const struct sl_ver *v, const struct sl_border *b, int stage) {
    int64_t total = sl_sched_total(&v->view, stage), shift = v->view.micros[stage];
    uint8_t all = sl_sched_verify_all(v, stage);
    bool remember = v->view.rule == SL_RULE_STASH || v->view.rule == SL_RULE_VSYNC;
    int fixes = v->view.rule == SL_RULE_VSYNC ? v->entry : stage;
    for (int64_t i = 0; i < total; i++) {
        uint8_t before = i < shift ? all : b->done[stage][i - shift];
        if (v->done[stage][i] != before || (i >= total - shift && b->done[stage][i]))
            return no(v, stage, "finished passes");
        if (!remember || i < shift || before == all || !b->versions[fixes][i - shift])
            continue;
        if (v->versions[fixes][i] != b->versions[fixes][i - shift] + 1)
            return no(v, stage, "versions in flight");
    }
    return SL_OK;
}

static sl_err recurs_channel(const struct sl_ver *v, const struct sl_border *b, int64_t i) {
    const struct sl_ver_channel *c = &v->channels.at[i];
    int64_t count = i < b->channel_count ? b->posted_count[i] : 0;
    bool same = c->posted.count - c->head == count;
    for (int64_t j = 0; same && j < count; j++) {
        const struct sl_posting *p0 = &b->posted[i][j], *p1 = &c->posted.at[c->head + j];
        const struct sl_edge *edge = &v->plan->edges[p0->edge];
        bool grad = p0->flags & SL_GRAD;
        int reader = grad ? edge->from : edge->to, writer = grad ? edge->to : edge->from;
        same = p1->edge == p0->edge && p1->flags == p0->flags &&
               p1->micro == p0->micro + v->view.micros[reader] &&
               p1->other == p0->other + v->view.micros[writer];
    }
    if (!same)
        return sl_fail(
            SL_ERR_REFUSED,
            "the period does not repeat: worker %d has posted other receives from worker "
            "%d at its end than at its begin",
            c->to, c->from);
    return SL_OK;
}

sl_err sl_sched_verify_recurs(struct sl_ver *v, const struct sl_border *before) {
    for (int i = 0; i < v->plan->seat_count; i++)
        SL_TRY(recurs_seat(v, before, i));
    for (int s = 0; s < v->plan->stage_count; s++)
        SL_TRY(recurs_stage(v, before, s));
    for (int64_t i = 0; i < v->channels.count; i++)
        SL_TRY(recurs_channel(v, before, i));
    return SL_OK;
}
