/* Assigns slots: the buffer and the weight copy of each action. Also has the first check of the
 * passes.
 *
 * Slot = (number of the micro-batch on its seat) mod (slots of the pool). A pool has as many slots
 * as the widest range of micro-batches that are live at once, so that two live ones never meet; for
 * passes in order that is exactly the number that are live. Weight slot = version mod versions. */
#include "lower/parts.h"

struct span { /* for one pool: the micro-batches [low, high] of the seat may be live */
    int64_t low, high, max;
    uint8_t *done;
};

struct seat_spans {
    struct span *pools;
    /* [version] position in the worker's program of its last reader and of its step */
    int64_t *last_read, *stepped;
    bool foresees[2]; /* does it predict weights for forwards [0], for backwards [1]? */
    int32_t predictions;
    int64_t steps, grads; /* steps so far; most iterations whose gradient was not used up at once */
};

struct slots {
    struct sl_low *low;
    struct seat_spans *seats; /* [seat] */
    int64_t position;
};

/* --- checks of the passes --- */

static sl_err fail_pass(const struct sl_sched *flat, int worker, const struct sl_action *a,
                        const char *why) {
    char text[SL_ACTION_TEXT];
    return sl_fail(SL_ERR_REFUSED, "worker %d: %s: %s", worker, sl_sched_action_text(flat, a, text),
                   why);
}

static sl_err check_pass(const struct sl_sched *flat, int worker, const struct sl_action *a,
                         uint8_t **done) {
    const struct sl_plan *plan = flat->plan;
    if (a->stage >= plan->stage_count || a->kind > SL_BACKWARD_WEIGHT)
        return fail_pass(flat, worker, a, "a schedule of passes has F, B, I and W of known stages");
    if (a->micro < 0 || a->micro >= sl_sched_total(flat, a->stage))
        return fail_pass(flat, worker, a, "no such micro-batch");
    int seat = sl_sched_deps_seat(flat, a->stage, a->micro);
    if (plan->seats[seat].worker != worker) {
        char text[SL_ACTION_TEXT];
        return sl_fail(SL_ERR_REFUSED, "worker %d: %s belongs on worker %d", worker,
                       sl_sched_action_text(flat, a, text), plan->seats[seat].worker);
    }
    uint8_t *d = &done[a->stage][a->micro], bit = (uint8_t)(1u << a->kind);
    uint8_t backward = (1u << SL_BACKWARD) | (1u << SL_BACKWARD_INPUT);
    if ((*d & bit) || (a->kind == SL_BACKWARD && (*d & backward)) ||
        (a->kind == SL_BACKWARD_INPUT && (*d & backward)))
        return fail_pass(flat, worker, a, "runs twice");
    if (a->kind != SL_FORWARD && !(*d & (1u << SL_FORWARD)))
        return fail_pass(flat, worker, a, "runs before its forward");
    if (a->kind == SL_BACKWARD_WEIGHT && !(*d & (1u << SL_BACKWARD_INPUT)))
        return fail_pass(flat, worker, a, "runs before its I");
    *d |= bit;
    return SL_OK;
}

bool sl_lower_is_paced(const struct sl_sched *flat) {
    const struct sl_plan *plan = flat->plan;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int w = 0; w < plan->worker_count; w++)
            for (int64_t i = 0; i < flat->lists[s][w].count; i++) {
                const struct sl_action *a = &flat->lists[s][w].at[i];
                if (a->stage < plan->stage_count && a->kind != SL_FORWARD &&
                    plan->stages[a->stage].passes == SL_STAGE_FORWARD)
                    return true;
            }
    return false;
}

/* Does the stage have only F? So in evaluation, and for stages without a backward pass in a lowered
 * file. */
static bool is_forward(const struct sl_sched *flat, int stage, bool paced) {
    return flat->rule == SL_RULE_FORWARD ||
           (!paced && flat->plan->stages[stage].passes == SL_STAGE_FORWARD);
}

static sl_err check_all_done(const struct sl_sched *flat, uint8_t **done) {
    const bool paced = sl_lower_is_paced(flat);
    const uint8_t split =
        (1u << SL_FORWARD) | (1u << SL_BACKWARD_INPUT) | (1u << SL_BACKWARD_WEIGHT);
    for (int s = 0; s < flat->plan->stage_count; s++) {
        const uint8_t whole = is_forward(flat, s, paced) ? 1u << SL_FORWARD
                                                         : (1u << SL_FORWARD) | (1u << SL_BACKWARD);
        for (int64_t i = 0, total = sl_sched_total(flat, s); i < total; i++)
            if (done[s][i] != whole && done[s][i] != split)
                return sl_fail(SL_ERR_REFUSED, "stage %s: micro-batch %lld never runs %s",
                               flat->plan->stages[s].name, (long long)i,
                               !(done[s][i] & 1)                        ? "F"
                               : done[s][i] & (1u << SL_BACKWARD_INPUT) ? "W"
                                                                        : "its backward");
    }
    return SL_OK;
}

sl_err sl_lower_check(const struct sl_sched *flat) {
    const struct sl_plan *plan = flat->plan;
    struct sl_arena arena = {0};
    uint8_t **done = SL_NEW(&arena, uint8_t *, plan->stage_count);
    sl_err err = SL_OK;
    int64_t passes = 0, want = 0;
    for (int s = 0; s < plan->stage_count; s++)
        want += (is_forward(flat, s, false) ? 1 : 2) * sl_sched_total(flat, s);
    for (int i = 0; i < SL_SEGMENT_COUNT; i++)
        for (int w = 0; w < plan->worker_count; w++)
            passes += flat->lists[i][w].count;
    if (passes < want) { /* before memory is allocated for the announced numbers */
        sl_arena_free(&arena);
        return sl_fail(SL_ERR_REFUSED, "%lld passes are listed, %lld or more are needed",
                       (long long)passes, (long long)want);
    }
    for (int s = 0; s < plan->stage_count; s++)
        done[s] = SL_NEW(&arena, uint8_t, sl_sched_total(flat, s));
    for (int w = 0; w < plan->worker_count && err == SL_OK; w++)
        for (int i = 0; i < SL_SEGMENT_COUNT && err == SL_OK; i++)
            for (int64_t j = 0; j < flat->lists[i][w].count && err == SL_OK; j++) {
                struct sl_action a = flat->lists[i][w].at[j];
                if (a.stage < plan->stage_count)
                    a = sl_sched_at(flat, 0, &a, i == SL_EPILOGUE ? flat->reps : 0);
                err = check_pass(flat, w, &a, done);
            }
    if (err == SL_OK)
        err = check_all_done(flat, done);
    sl_arena_free(&arena);
    return err;
}

/* --- first walk: how many slots --- */

static void acquire(struct span *span, int64_t ordinal) {
    if (ordinal > span->high)
        span->high = ordinal;
    if (span->high - span->low + 1 > span->max)
        span->max = span->high - span->low + 1;
}

static void release(struct span *span, int64_t ordinal) {
    span->done[ordinal] = 1;
    while (span->low <= span->high && span->done[span->low])
        span->low++;
}

/* The output for a stage on the same worker goes directly into that stage's buffer. */
static void hand_over(struct slots *s, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = s->low->plan;
    const struct sl_stage *stage = &plan->stages[a->stage];
    bool grad = a->kind != SL_FORWARD;
    for (int i = 0; i < (grad ? stage->in_count : stage->out_count); i++) {
        const struct sl_edge *edge = &plan->edges[grad ? stage->in[i] : stage->out[i]];
        int other = grad ? edge->from : edge->to,
            pool = sl_sched_pool_of_edge(plan, edge, grad, false);
        if (grad && !edge->grads)
            continue;
        struct sl_micro_range range =
            sl_sched_deps_overlap(&s->low->flat, a->stage, a->micro, other);
        for (int32_t x = range.low; x < range.high; x++) {
            int seat = sl_sched_deps_seat(&s->low->flat, other, x);
            if (plan->seats[seat].worker == worker)
                acquire(&s->seats[seat].pools[pool],
                        sl_sched_deps_ordinal(&s->low->flat, other, x));
        }
    }
}

static void free_inputs(struct slots *s, int seat, const struct sl_action *a, int64_t ordinal) {
    const struct sl_plan *plan = s->low->plan;
    const struct sl_stage *stage = &plan->stages[a->stage];
    bool grad = a->kind != SL_FORWARD;
    for (int i = 0; i < (grad ? stage->out_count : stage->in_count); i++) {
        const struct sl_edge *edge = &plan->edges[grad ? stage->out[i] : stage->in[i]];
        release(&s->seats[seat].pools[sl_sched_pool_of_edge(plan, edge, grad, false)], ordinal);
    }
}

static const struct sl_stage *stage_of(const struct slots *s, const struct sl_action *a) {
    return &s->low->plan->stages[a->stage];
}

static void walk(struct slots *s, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = s->low->plan;
    int seat = sl_sched_seat(plan, a->stage, worker);
    struct seat_spans *spans = &s->seats[seat];
    int64_t ordinal = sl_sched_deps_ordinal(&s->low->flat, a->stage, a->micro);
    s->position++;
    if ((sl_is_timed(a) && !a->ahead) || a->kind == SL_PREDICT)
        spans->last_read[a->version] = s->position;
    if (sl_is_timed(a) && a->ahead)
        spans->foresees[a->kind != SL_FORWARD] = true;
    spans->predictions += a->kind == SL_PREDICT;
    int64_t waiting = a->micro / s->low->flat.micros[a->stage] - spans->steps + 1;
    if (a->kind == SL_REDUCE)
        waiting = a->version - spans->steps;
    if ((a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT || a->kind == SL_REDUCE) &&
        waiting > spans->grads)
        spans->grads = waiting;
    switch ((enum sl_kind)a->kind) {
    case SL_FORWARD:
        acquire(&spans->pools[SL_POOL_STASH], ordinal);
        hand_over(s, worker, a);
        free_inputs(s, seat, a, ordinal);
        if (s->low->flat.rule == SL_RULE_FORWARD || stage_of(s, a)->passes == SL_STAGE_FORWARD)
            release(&spans->pools[SL_POOL_STASH], ordinal);
        break;
    case SL_BACKWARD:
    case SL_BACKWARD_INPUT:
        if (a->kind == SL_BACKWARD_INPUT)
            acquire(&spans->pools[SL_POOL_KEPT], ordinal);
        hand_over(s, worker, a);
        release(&spans->pools[SL_POOL_STASH], ordinal);
        free_inputs(s, seat, a, ordinal);
        break;
    case SL_BACKWARD_WEIGHT: release(&spans->pools[SL_POOL_KEPT], ordinal); break;
    case SL_RECV:
        acquire(&spans->pools[sl_sched_pool_of_edge(plan, &plan->edges[a->edge], a->flags & SL_GRAD,
                                                    false)],
                ordinal);
        break;
    case SL_SEND:
        spans->pools[sl_sched_pool_of_edge(plan, &plan->edges[a->edge], a->flags & SL_GRAD, true)]
            .max =
            sl_sched_total(&s->low->flat, a->stage) > 1 ? 2 : 1; /* one that is being sent, one to
                                                                  * fill */
        break;
    case SL_STEP:
        spans->stepped[a->version] = s->position;
        spans->steps = a->version;
        break;
    default: break;
    }
}

/* Number of versions that must be held at once: when version v is made, all lower versions that are
 * read later. */
static int64_t versions_of(const struct seat_spans *spans, int32_t iters) {
    int64_t max = 1, low = 0;
    for (int32_t v = 1; v <= iters; v++) {
        if (!spans->stepped[v])
            continue;
        while (low < v && spans->last_read[low] < spans->stepped[v])
            low++;
        if (v - low + 1 > max)
            max = v - low + 1;
    }
    return max;
}

static void open_seat(struct slots *s, int seat) {
    const struct sl_plan *plan = s->low->plan;
    const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
    int64_t total = sl_sched_total(&s->low->flat, plan->seats[seat].stage);
    struct seat_spans *spans = &s->seats[seat];
    struct sl_arena *arena = &s->low->scratch;
    int pools = sl_sched_pool_count(stage);
    spans->pools = SL_NEW(arena, struct span, pools);
    for (int i = 0; i < pools; i++) {
        spans->pools[i].high = -1;
        spans->pools[i].done = SL_NEW(arena, uint8_t, total);
    }
    spans->last_read = SL_NEW(arena, int64_t, s->low->flat.iters + 2);
    spans->stepped = SL_NEW(arena, int64_t, s->low->flat.iters + 2);
}

static void set_bytes(const struct sl_plan *plan, const struct sl_stage *stage,
                      struct sl_slot_pool *pools) {
    pools[SL_POOL_STASH].bytes = stage->recompute ? stage->bytes.saved : stage->bytes.stash;
    pools[SL_POOL_FULL].bytes = stage->bytes.stash;
    pools[SL_POOL_KEPT].bytes = stage->bytes.kept;
    pools[SL_POOL_WEIGHT].bytes = pools[SL_POOL_PREDICT].bytes = stage->bytes.params;
    pools[SL_POOL_GRAD].bytes = stage->bytes.grads;
    for (int i = 0; i < stage->in_count + stage->out_count; i++) {
        int edge = i < stage->in_count ? stage->in[i] : stage->out[i - stage->in_count];
        int64_t bytes = plan->edges[edge].sample_bytes * stage->micro_size;
        pools[SL_POOL_EDGES + 2 * i].bytes = pools[SL_POOL_EDGES + 2 * i + 1].bytes = bytes;
        if (i >= stage->in_count && !plan->edges[edge].grads)
            pools[SL_POOL_EDGES + 2 * i].bytes = 0; /* see sl_sched_ring_bytes */
    }
}

/* Slots of predictions. Rule twobw: one per version. Rule newest: one for forwards, one for
 * backwards. */
static void set_predict(const struct slots *s, int seat, struct sl_slot_pool *pool) {
    const struct seat_spans *spans = &s->seats[seat];
    bool by_version = s->low->flat.rule == SL_RULE_2BW;
    pool->count = by_version ? (spans->predictions < 2 ? spans->predictions : 2)
                             : spans->foresees[0] + spans->foresees[1];
    pool->turn = by_version && pool->count > 1;
}

static sl_err make_pools(struct slots *s, int seat, struct sl_slot_pool **out) {
    const struct sl_plan *plan = s->low->plan;
    const struct sl_seat *at = &plan->seats[seat];
    const struct sl_stage *stage = &plan->stages[at->stage];
    struct sl_slot_pool *pools =
        SL_NEW(s->low->arena, struct sl_slot_pool, sl_sched_pool_count(stage));
    int32_t share = sl_sched_deps_share(s->low->flat.micros[at->stage], stage->width, at->replica);
    int64_t versions = versions_of(&s->seats[seat], s->low->flat.iters);
    if (s->low->flat.rule == SL_RULE_2BW && versions < 2 && !s->seats[seat].predictions)
        versions = 2; /* a resume needs the last two versions, even on stages that read one at a
                       * time */
    if (versions > UINT16_MAX)
        return sl_fail(SL_ERR_REFUSED, "stage %s needs %lld weight versions at once", stage->name,
                       (long long)versions);
    set_bytes(plan, stage, pools);
    for (int i = 0; i < sl_sched_pool_count(stage); i++) {
        pools[i].count = (int32_t)s->seats[seat].pools[i].max;
        pools[i].turn = pools[i].count ? share % pools[i].count : 0;
    }
    pools[SL_POOL_FULL].count = stage->recompute;
    pools[SL_POOL_WEIGHT].count = (int32_t)versions;
    pools[SL_POOL_WEIGHT].turn = (int32_t)(1 % versions);
    pools[SL_POOL_GRAD].count = s->low->flat.global_step ? (int32_t)s->seats[seat].grads : 1;
    pools[SL_POOL_GRAD].turn = pools[SL_POOL_GRAD].count > 1;
    pools[SL_POOL_FULL].turn = 0;
    set_predict(s, seat, &pools[SL_POOL_PREDICT]);
    *out = pools;
    return SL_OK;
}

/* --- second walk: numbers the slots --- */

static void assign(struct sl_low *low, int worker, struct sl_action *a) {
    const struct sl_plan *plan = low->plan;
    const struct sl_slot_pool *pools = low->out->pools[sl_sched_seat(plan, a->stage, worker)];
    int32_t ordinal = sl_sched_deps_ordinal(&low->flat, a->stage, a->micro);
    if (a->kind == SL_SEND || a->kind == SL_RECV) {
        int pool = sl_sched_pool_of_edge(plan, &plan->edges[a->edge], a->flags & SL_GRAD,
                                         a->kind == SL_SEND);
        a->slot = ordinal % pools[pool].count;
        return;
    }
    a->weight_slot = (uint16_t)(a->version % pools[SL_POOL_WEIGHT].count);
    if (a->kind == SL_PREDICT)
        a->slot = a->weight_slot;
    if (a->ahead) {
        bool second = a->kind == SL_PREDICT ? a->slot2 : a->kind != SL_FORWARD;
        int32_t at = low->flat.rule == SL_RULE_2BW       ? a->version
                     : pools[SL_POOL_PREDICT].count == 2 ? second
                                                         : 0;
        a->weight_slot =
            (uint16_t)(pools[SL_POOL_WEIGHT].count + (at % (pools[SL_POOL_PREDICT].count)));
    }
    if (a->kind == SL_PREDICT)
        a->slot2 = 0;
    if (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT)
        a->grad_slot = (uint8_t)(a->micro / low->flat.micros[a->stage] % pools[SL_POOL_GRAD].count);
    if (a->kind == SL_REDUCE || a->kind == SL_STEP)
        a->grad_slot = (uint8_t)((a->version - 1) % pools[SL_POOL_GRAD].count);
    if (a->kind == SL_STEP)
        a->slot = (a->version - 1) % pools[SL_POOL_WEIGHT].count;
    if (a->kind == SL_REDUCE)
        a->weight_slot = 0;
    if (a->kind == SL_BACKWARD_INPUT || a->kind == SL_BACKWARD_WEIGHT)
        a->slot2 = ordinal % pools[SL_POOL_KEPT].count;
    if (sl_is_timed(a) && a->kind != SL_BACKWARD_WEIGHT)
        a->slot = ordinal % pools[SL_POOL_STASH].count;
}

sl_err sl_lower_slots(struct sl_low *low) {
    const struct sl_plan *plan = low->plan;
    struct slots s = {.low = low};
    s.seats = SL_NEW(&low->scratch, struct seat_spans, plan->seat_count);
    struct sl_slot_pool **pools = SL_NEW(low->arena, struct sl_slot_pool *, plan->seat_count);
    low->out->pools = pools;
    for (int w = 0; w < plan->worker_count; w++) {
        struct sl_arena_mark mark = sl_arena_mark(&low->scratch);
        s.position = 0;
        for (int i = 0; i < plan->worker_seat_count[w]; i++)
            open_seat(&s, plan->worker_seats[w][i]);
        for (int g = 0; g < SL_SEGMENT_COUNT; g++)
            for (int64_t i = 0; i < low->out->lists[g][w].count; i++)
                walk(&s, w, &low->out->lists[g][w].at[i]);
        for (int i = 0; i < plan->worker_seat_count[w]; i++)
            SL_TRY(make_pools(&s, plan->worker_seats[w][i], &pools[plan->worker_seats[w][i]]));
        for (int g = 0; g < SL_SEGMENT_COUNT; g++)
            for (int64_t i = 0; i < low->out->lists[g][w].count; i++)
                assign(low, w, &low->out->lists[g][w].at[i]);
        sl_arena_release(&low->scratch, mark);
    }
    return SL_OK;
}
