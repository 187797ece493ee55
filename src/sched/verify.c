/* The verifier: runs the lowered program on an abstract machine and refuses it at the first error.
 *
 *     prologue | period 0 | period 1 | epilogue        what is played
 *              S0         S1         S2
 *
 * Each segment is played until every worker is at its end; no action may need one of a later
 * segment. When there are more than two repetitions, S2 must be S1 turned by one iteration
 * (micro-batches and versions shifted, slots turned). Actions commute with turning, so S3, S4,
 * ... follow, and the epilogue starts from the same state in a run of any length
 * (docs/design/0004-actions-versions-period.md). */
#include "sched/verify.h"

#include "sched/shards.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

sl_err sl_sched_verify_fail(const struct sl_ver *v, const struct sl_turn *t, const char *fmt, ...) {
    static const char *const segments[] = {"prologue", "period", "epilogue"};
    char text[SL_ACTION_TEXT];
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_REFUSED, fmt, args);
    va_end(args);
    return sl_err_context(SL_ERR_REFUSED, "worker %d, %s action %lld: %s", t->worker,
                          segments[v->segment], (long long)v->at[t->worker],
                          sl_sched_action_text(&v->view, &t->a, text));
}

void sl_sched_verify_wake(struct sl_ver *v, int worker) {
    if (v->queued[worker])
        return;
    v->queued[worker] = true;
    SL_PUSH(&v->ready, worker);
}

void sl_sched_verify_wait(struct sl_ver *v, struct sl_turn *t, int on, const char *why) {
    v->waits[t->worker] = (struct sl_blocked){on, t->a, why};
    t->go = false;
}

static sl_err check_action(struct sl_ver *v, struct sl_turn *t) {
    const struct sl_action *a = &t->a;
    if (a->kind >= SL_KIND_COUNT || a->stage >= v->plan->stage_count)
        return sl_sched_verify_fail(v, t, "no such action");
    t->seat = sl_sched_seat(v->plan, a->stage, t->worker);
    if (t->seat < 0)
        return sl_sched_verify_fail(v, t, "stage %s is not on this worker",
                                    v->plan->stages[a->stage].name);
    if ((a->kind == SL_SEND || a->kind == SL_RECV) && a->edge >= v->plan->edge_count)
        return sl_sched_verify_fail(v, t, "no such edge");
    t->a = sl_sched_at(&v->view, t->seat, a, v->rep);
    if (a->kind > SL_RECV)
        return SL_OK;
    if (a->micro < 0 || a->micro >= sl_sched_total(&v->view, a->stage))
        return sl_sched_verify_fail(v, t, "no such micro-batch");
    if (sl_sched_deps_seat(&v->view, a->stage, a->micro) != t->seat)
        return sl_sched_verify_fail(
            v, t, "micro-batch %d of this stage is on worker %d", a->micro,
            v->plan->seats[sl_sched_deps_seat(&v->view, a->stage, a->micro)].worker);
    return SL_OK;
}

sl_err sl_sched_verify_action(struct sl_ver *v, int worker, const struct sl_action *action,
                              bool *went) {
    struct sl_turn t = {.worker = worker, .go = true, .a = *action};
    SL_TRY(check_action(v, &t));
    if (t.a.kind == SL_SEND)
        SL_TRY(sl_sched_verify_send(v, &t));
    else if (t.a.kind == SL_RECV)
        SL_TRY(sl_sched_verify_recv(v, &t));
    else if (t.a.kind <= SL_RECOMPUTE)
        SL_TRY(sl_sched_verify_pass(v, &t));
    else
        SL_TRY(sl_sched_verify_weights(v, &t));
    *went = t.go;
    return SL_OK;
}

static sl_err run_worker(struct sl_ver *v, int worker) {
    const struct sl_actions *list = &v->view.lists[v->segment][worker];
    for (; v->at[worker] < list->count; v->at[worker]++) {
        bool went;
        SL_TRY(sl_sched_verify_action(v, worker, &list->at[v->at[worker]], &went));
        if (!went)
            return SL_OK;
    }
    v->waits[worker].on = -1;
    return SL_OK;
}

/* Reports progress, but rarely: reading the clock costs as much as an action. */
static void tell(struct sl_ver *v, int64_t more) {
    enum { EVERY = 1 << 16 };
    v->played += more;
    if (!v->watch || v->played - v->told < EVERY)
        return;
    v->told = v->played;
    v->watch->tell(v->watch->ctx, v->played, v->all);
}

static sl_err run_segment(struct sl_ver *v, int segment, int32_t rep) {
    bool stuck = false;
    v->segment = segment;
    v->rep = rep;
    v->ready.count = 0;
    for (int w = 0; w < v->plan->worker_count; w++) {
        v->at[w] = 0;
        v->queued[w] = false;
        sl_sched_verify_wake(v, w);
    }
    for (int64_t i = 0; i < v->ready.count; i++) {
        int w = v->ready.at[i];
        v->queued[w] = false;
        int64_t before = v->at[w];
        SL_TRY(run_worker(v, w));
        tell(v, v->at[w] - before);
        if (i > 1 << 16 && i * 2 > v->ready.count) { /* drops the workers that have been visited */
            memmove(v->ready.at, v->ready.at + i + 1,
                    sizeof *v->ready.at * (size_t)(v->ready.count - i - 1));
            v->ready.count -= i + 1;
            i = -1;
        }
    }
    for (int w = 0; w < v->plan->worker_count; w++)
        stuck |= v->at[w] < v->view.lists[segment][w].count;
    return stuck ? sl_sched_report_blocked(&v->view, v->waits) : SL_OK;
}

/* --- state --- */

static int32_t *new_slots(struct sl_ver *v, int64_t count) {
    int32_t *slots = SL_NEW(&v->arena, int32_t, count);
    for (int64_t i = 0; i < count; i++)
        slots[i] = -1;
    return slots;
}

static void open_seat(struct sl_ver *v, int seat) {
    const struct sl_stage *stage = &v->plan->stages[v->plan->seats[seat].stage];
    const struct sl_slot_pool *pools = v->view.pools[seat];
    struct sl_ver_seat *s = &v->seats[seat];
    int32_t weights = pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count;
    s->stash = new_slots(v, pools[SL_POOL_STASH].count);
    s->kept = new_slots(v, pools[SL_POOL_KEPT].count);
    s->full = s->bell[0].iter = s->bell[1].iter = -1;
    s->weights = SL_NEW(&v->arena, struct sl_ver_weights, weights);
    for (int32_t i = 1; i < weights; i++) /* slot 0 holds version 0 */
        s->weights[i].version = -1;
    s->grads = SL_NEW(&v->arena, struct sl_gradient, pools[SL_POOL_GRAD].count);
    for (int32_t i = 0; i < pools[SL_POOL_GRAD].count; i++)
        s->grads[i].iter = -1;
    int edges = sl_sched_pool_count(stage) - SL_POOL_EDGES, groups = 0;
    s->buffers = SL_NEW(&v->arena, struct sl_buffer *, edges);
    for (int i = 0; i < edges; i++) {
        int32_t count = pools[SL_POOL_EDGES + i].count;
        s->buffers[i] = SL_NEW(&v->arena, struct sl_buffer, count);
        for (int32_t j = 0; j < count; j++)
            s->buffers[i][j].micro = -1;
    }
    while (sl_sched_group_of(v->plan, v->plan->seats[seat].stage, groups) >= 0)
        groups++;
    v->joined[seat] = SL_NEW(&v->arena, int32_t, groups + 1);
}

static sl_err check_pools(const struct sl_ver *v, int seat) {
    const struct sl_seat *at = &v->plan->seats[seat];
    const struct sl_stage *stage = &v->plan->stages[at->stage];
    int64_t max = sl_sched_total(&v->view, at->stage) + v->view.iters + 2;
    for (int i = 0; i < sl_sched_pool_count(stage); i++) {
        const struct sl_slot_pool *pool = &v->view.pools[seat][i];
        if (pool->count < 0 || pool->count > max || pool->turn < 0 || pool->bytes < 0)
            return sl_fail(SL_ERR_REFUSED, "stage %s, pool %d: %d slots are not sensible",
                           stage->name, i, pool->count);
    }
    const struct sl_slot_pool *pools = v->view.pools[seat];
    if (pools[SL_POOL_WEIGHT].count < 1 || pools[SL_POOL_GRAD].count < 1 ||
        pools[SL_POOL_WEIGHT].count + pools[SL_POOL_PREDICT].count > UINT16_MAX ||
        pools[SL_POOL_GRAD].count > UINT8_MAX || pools[SL_POOL_FULL].count != stage->recompute)
        return sl_fail(SL_ERR_REFUSED,
                       "stage %s: slots for weights, gradients or recomputation are out "
                       "of range",
                       stage->name);
    return SL_OK;
}

uint8_t sl_sched_verify_all(const struct sl_ver *v, int stage) {
    const struct sl_stage *s = &v->plan->stages[stage];
    if (v->view.rule == SL_RULE_FORWARD || s->passes == SL_STAGE_FORWARD)
        return SL_DONE_F;
    return SL_DONE_F | SL_DONE_I | SL_DONE_W | (s->recompute ? SL_DONE_RECOMPUTE : 0);
}

/* Checks the announced numbers before memory is allocated for them: every micro-batch needs at
 * least two passes, or F alone. */
static sl_err check_sizes(const struct sl_ver *v) {
    int64_t want = 0, have = 0;
    for (int s = 0; s < v->plan->stage_count; s++)
        want += (sl_sched_verify_all(v, s) == SL_DONE_F ? 1 : 2) * sl_sched_total(&v->view, s);
    for (int w = 0; w < v->plan->worker_count; w++)
        have += v->view.lists[SL_PROLOGUE][w].count + v->view.lists[SL_EPILOGUE][w].count +
                v->view.reps * v->view.lists[SL_PERIOD][w].count;
    if (have < want)
        return sl_fail(SL_ERR_REFUSED, "%lld actions cannot be enough: %lld passes are needed",
                       (long long)have, (long long)want);
    if (v->view.rule == SL_RULE_FORWARD && v->view.iters != 1)
        return sl_fail(SL_ERR_REFUSED, "rule forward makes no steps: one iteration, not %d",
                       v->view.iters);
    for (int s = 1; s < v->plan->stage_count && v->view.rule == SL_RULE_VSYNC; s++)
        if (v->plan->stages[s].micro_size != v->plan->stages[0].micro_size)
            return sl_fail(SL_ERR_REFUSED, "rule vsync needs one micro-batch size for all stages");
    for (int i = 0; i < v->plan->seat_count; i++)
        SL_TRY(check_pools(v, i));
    for (int w = 0; w < v->plan->worker_count; w++) {
        int64_t bytes = sl_sched_worker_bytes(&v->view, w), limit = v->plan->memory_bytes[w];
        char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], c[SL_HUMAN_BYTES];
        if (limit && bytes > limit)
            return sl_fail(SL_ERR_REFUSED, "worker %d needs %s and has %s: %s too much", w,
                           sl_human_bytes(bytes, a), sl_human_bytes(limit, b),
                           sl_human_bytes(bytes - limit, c));
    }
    return SL_OK;
}

void sl_sched_verify_open(struct sl_ver *v) {
    const struct sl_plan *plan = v->plan;
    bool remember = v->view.rule == SL_RULE_STASH || v->view.rule == SL_RULE_VSYNC;
    v->seats = SL_NEW(&v->arena, struct sl_ver_seat, plan->seat_count);
    v->joined = SL_NEW(&v->arena, int32_t *, plan->seat_count);
    v->stepped = SL_NEW(&v->arena, int32_t, plan->seat_count);
    v->done = SL_NEW(&v->arena, uint8_t *, plan->stage_count);
    v->versions = SL_NEW(&v->arena, int32_t *, plan->stage_count);
    v->meetings = SL_NEW(&v->arena, struct sl_meeting, sl_sched_group_count(plan));
    for (int i = plan->stage_count - 1; i >= 0; i--) {
        int64_t total = sl_sched_total(&v->view, i);
        v->done[i] = SL_NEW(&v->arena, uint8_t, total);
        v->versions[i] = SL_NEW(&v->arena, int32_t, remember ? total : 0);
        if (plan->stages[i].height == plan->depth - 1)
            v->entry = i;
    }
    for (int i = 0; i < plan->seat_count; i++)
        open_seat(v, i);
    if (v->view.global_step)
        sl_sched_verify_global_step_open(v);
    v->first_channel = SL_NEW(&v->arena, int, plan->worker_count);
    for (int i = 0; i < plan->worker_count; i++)
        v->first_channel[i] = -1;
    v->at = SL_NEW(&v->arena, int64_t, plan->worker_count);
    v->queued = SL_NEW(&v->arena, bool, plan->worker_count);
    v->entered = SL_NEW(&v->arena, bool, plan->worker_count);
    v->waits = SL_NEW(&v->arena, struct sl_blocked, plan->worker_count);
}

void sl_sched_verify_close(struct sl_ver *v) {
    for (int64_t i = 0; i < v->channels.count; i++)
        SL_VEC_FREE(&v->channels.at[i].posted);
    SL_VEC_FREE(&v->channels);
    SL_VEC_FREE(&v->next_channel);
    SL_VEC_FREE(&v->ready);
    sl_arena_free(&v->arena);
}

/* --- the end --- */

static sl_err check_end(const struct sl_ver *v) {
    bool forward = v->view.rule == SL_RULE_FORWARD;
    for (int s = 0; s < v->plan->stage_count; s++) {
        uint8_t all = sl_sched_verify_all(v, s);
        for (int64_t i = 0, total = sl_sched_total(&v->view, s); i < total; i++)
            if (v->done[s][i] != all)
                return sl_fail(SL_ERR_REFUSED, "stage %s: micro-batch %lld never runs %s",
                               v->plan->stages[s].name, (long long)i,
                               !(v->done[s][i] & SL_DONE_F)   ? "F"
                               : !(v->done[s][i] & SL_DONE_I) ? "its backward"
                                                              : "W");
    }
    for (int i = 0; i < v->plan->seat_count; i++)
        if (v->seats[i].newest != (forward ? 0 : v->view.iters))
            return sl_fail(SL_ERR_REFUSED, "stage %s, worker %d: %d steps for %d iterations",
                           v->plan->stages[v->plan->seats[i].stage].name, v->plan->seats[i].worker,
                           v->seats[i].newest, v->view.iters);
    for (int64_t i = 0; i < v->channels.count; i++)
        if (v->channels.at[i].head != v->channels.at[i].posted.count)
            return sl_fail(SL_ERR_REFUSED,
                           "worker %d posts a receive from worker %d that is never sent",
                           v->channels.at[i].to, v->channels.at[i].from);
    for (int i = 0; i < v->plan->seat_count; i++) {
        const struct sl_stage *stage = &v->plan->stages[v->plan->seats[i].stage];
        for (int p = SL_POOL_EDGES; p < sl_sched_pool_count(stage); p++)
            for (int32_t j = 0; j < v->view.pools[i][p].count; j++)
                if (v->seats[i].buffers[p - SL_POOL_EDGES][j].micro >= 0)
                    return sl_fail(SL_ERR_REFUSED,
                                   "stage %s, worker %d: a message of micro-batch %d is left over "
                                   "at the end",
                                   stage->name, v->plan->seats[i].worker,
                                   v->seats[i].buffers[p - SL_POOL_EDGES][j].micro);
    }
    return SL_OK;
}

static int64_t count_actions(const struct sl_sched *view) {
    int64_t count = 0;
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++)
        for (int w = 0; w < view->plan->worker_count; w++)
            count += view->lists[seg][w].count * (seg == SL_PERIOD ? view->reps : 1);
    return count;
}

static sl_err verify(struct sl_ver *v, int32_t reps) {
    struct sl_border *before = NULL;
    v->all = count_actions(&v->view);
    SL_TRY(check_sizes(v));
    sl_sched_verify_open(v);
    SL_TRY(run_segment(v, SL_PROLOGUE, 0));
    for (int32_t r = 0; r < v->view.reps; r++) {
        if (reps > v->view.reps && r == v->view.reps - 1)
            before = sl_sched_verify_snapshot(v);
        SL_TRY(run_segment(v, SL_PERIOD, r));
    }
    if (before)
        SL_TRY(sl_sched_verify_recurs(v, before));
    SL_TRY(run_segment(v, SL_EPILOGUE, v->view.reps));
    return check_end(v);
}

sl_err sl_sched_verify(const struct sl_sched *sched) {
    return sl_sched_verify_watched(sched, NULL);
}

sl_err sl_sched_verify_watched(const struct sl_sched *sched, const struct sl_sched_watch *watch) {
    struct sl_ver v = {
        .plan = sched->plan, .view = sl_sched_shorten(sched, SL_PLAYED_REPS), .watch = watch};
    if (!sched->lowered)
        return sl_fail(SL_ERR_REFUSED, "a schedule is verified after it is lowered");
    SL_TRY(sl_optim_policy_serves(&sched->policy, sl_sched_rule_name(sched->rule), NULL));
    SL_TRY(sl_sched_verify_shards(sched));
    SL_TRY(sl_sched_verify_owners(sched));
    if (sched->global_step && sched->rule == SL_RULE_SYNC)
        return sl_fail(SL_ERR_REFUSED, "rule sync has one step for all stages already");
    sl_err err = sched->iters < 1 || sched->reps < 0 || v.view.iters < 1
                     ? sl_fail(SL_ERR_REFUSED, "%d iterations with %d repetitions", sched->iters,
                               sched->reps)
                     : verify(&v, sched->reps);
    sl_sched_verify_close(&v);
    return err;
}
