/* The reference simulation of lowering: the end of each pass with the expected durations and
 * instant communication, segment by segment with barriers.
 *
 * Lowering posts receives by this clock. The simulation proves that the program cannot deadlock: at
 * the time of a SEND the matching RECV has been posted.
 */
#include "lower/parts.h"

struct meeting { /* the REDUCEs of a group, over all versions */
    int64_t arrived, time;
};

/* With global_step: the contributed parts of a group for one version. */
struct parts {
    int64_t time; /* time of the latest part */
};

struct clock {
    struct sl_low *low;
    int64_t **end[2]; /* [0: F, 1: B or I][stage][micro] end; INT64_MAX: not yet */
    int64_t *now;     /* [worker] its time */
    int64_t *at;      /* [worker] its next item */
    int64_t *timed;   /* [worker] number of timed items done */
    int *waiters;     /* [worker] first of the workers that wait for it; -1: none */
    int *next_waiter; /* [worker] next one in that list */
    bool *queued;     /* [worker] in `ready` */
    SL_VEC(int) ready;
    struct meeting *meetings; /* [group] */
    struct parts **parts;     /* [group, last: the decision][version] */
    int32_t **given;          /* [seat][group] last version for which it has contributed */
    int32_t **joined;         /* [seat][i] version up to which it has joined its i-th group */
    int8_t *met;              /* [worker] it has joined the meeting where it waits */
    struct sl_blocked *waits;
    int segment;
};

static void wake(struct clock *c, int worker) {
    for (int w = c->waiters[worker]; w >= 0; w = c->next_waiter[w])
        if (!c->queued[w]) {
            c->queued[w] = true;
            SL_PUSH(&c->ready, w);
        }
    c->waiters[worker] = -1;
}

static bool wait_on(struct clock *c, int worker, int other, const struct sl_action *a,
                    const char *why) {
    c->waits[worker] = (struct sl_blocked){other, *a, why};
    c->next_waiter[worker] = c->waiters[other];
    c->waiters[other] = worker;
    return false;
}

/* Raises *ready to the end of the passes of the other stage that this pass needs. False: they have
 * not run yet. */
static bool reach(struct clock *c, int worker, const struct sl_action *a, int other, bool grad,
                  int64_t *ready) {
    struct sl_micro_range range = sl_sched_deps_overlap(&c->low->flat, a->stage, a->micro, other);
    for (int32_t x = range.low; x < range.high; x++) {
        int64_t end = c->end[grad][other][x];
        if (end == INT64_MAX) {
            int seat = sl_sched_deps_seat(&c->low->flat, other, x);
            return wait_on(c, worker, c->low->plan->seats[seat].worker, a,
                           grad ? "for the gradient of" : "for the activation of");
        }
        if (end > *ready)
            *ready = end;
    }
    return true;
}

static bool do_pass(struct clock *c, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = c->low->plan;
    const struct sl_stage *stage = &plan->stages[a->stage];
    struct sl_need need = sl_sched_deps_need(stage, a->kind);
    int64_t ready = c->now[worker];
    for (int i = 0; need.in_acts && i < stage->in_count; i++)
        if (!reach(c, worker, a, plan->edges[stage->in[i]].from, false, &ready))
            return false;
    for (int i = 0; need.out_grads && i < stage->out_count; i++) {
        const struct sl_edge *edge = &plan->edges[stage->out[i]];
        if ((edge->grads || c->low->paced) && !reach(c, worker, a, edge->to, true, &ready))
            return false;
    }
    bool has = sl_sched_deps_has(stage, (enum sl_kind)a->kind);
    int64_t dur = has ? c->low->flat.dur_ns[a->stage][a->kind] : 0;
    ready += dur > 0 ? dur : 1;
    c->now[worker] = ready;
    if (a->kind == SL_FORWARD)
        c->end[0][a->stage][a->micro] = ready;
    else if (a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_INPUT)
        c->end[1][a->stage][a->micro] = ready;
    c->low->items[c->segment][worker].ends[c->timed[worker]++] = ready;
    return true;
}

/* Is this the worker's last REDUCE of the group? False if a later item of the worker joins the same
 * meeting. */
static bool is_last_of(const struct clock *c, int worker, const struct sl_action *a) {
    const struct sl_items *items = &c->low->items[c->segment][worker];
    for (int64_t i = c->at[worker] + 1; i < items->vec.count; i++) {
        const struct sl_action *b = &items->vec.at[i];
        if (b->kind == SL_REDUCE && b->slot == a->slot && b->version == a->version)
            return false;
        if (b->kind == SL_STEP && b->version == a->version && b->stage == a->stage)
            break;
    }
    return true;
}

static int32_t *joined_of(const struct clock *c, int seat, int group) {
    int stage = c->low->plan->seats[seat].stage;
    for (int i = 0, g; (g = sl_sched_group_of(c->low->plan, stage, i)) >= 0; i++)
        if (g == group)
            return &c->joined[seat][i];
    return NULL;
}

/* Returns a worker that has not contributed its part: it is before its REDUCE. */
static int who_misses(const struct clock *c, int group, int32_t version) {
    const struct sl_plan *plan = c->low->plan;
    for (int i = 0; i < plan->seat_count; i++) {
        int stage = plan->seats[i].stage;
        bool member =
            group == sl_sched_decision_group(plan) || sl_sched_in_group(plan, group, stage);
        if (member && c->given[i][group] < version)
            return plan->seats[i].worker;
    }
    return -1;
}

static bool reach_parts(struct clock *c, int worker, const struct sl_action *a, int group) {
    int missing = who_misses(c, group, a->version);
    if (missing >= 0)
        return wait_on(c, worker, missing, a, "for the decision with");
    if (c->parts[group][a->version].time > c->now[worker])
        c->now[worker] = c->parts[group][a->version].time;
    return true;
}

/* Contributes a part. A stage contributes to the decision only after the sums of the groups whose
 * root it is. */
static bool give_part(struct clock *c, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = c->low->plan;
    int verdict = sl_sched_decision_group(plan), seat = sl_sched_seat(plan, a->stage, worker);
    for (int i = 0, g; a->slot == verdict && (g = sl_sched_group_of(plan, a->stage, i)) >= 0; i++)
        if (!sl_sched_deps_meets(&c->low->flat, g) && sl_sched_group_root(plan, g) == a->stage &&
            !reach_parts(c, worker, a, g))
            return false;
    struct parts *parts = &c->parts[a->slot][a->version];
    c->given[seat][a->slot] = a->version;
    parts->time = c->now[worker] > parts->time ? c->now[worker] : parts->time;
    return true;
}

/* Steps wait in the simulation too, so that receives are posted by a feasible clock. */
static bool do_step(struct clock *c, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = c->low->plan;
    if (!reach_parts(c, worker, a, sl_sched_decision_group(plan)))
        return false;
    for (int i = 0, g; (g = sl_sched_group_of(plan, a->stage, i)) >= 0; i++)
        if (!sl_sched_deps_meets(&c->low->flat, g) && !reach_parts(c, worker, a, g))
            return false;
    c->now[worker] += c->low->flat.dur_ns[a->stage][a->kind];
    return true;
}

static void open_parts(struct clock *c) {
    const struct sl_plan *plan = c->low->plan;
    int groups = sl_sched_decision_group(plan) + 1;
    c->parts = SL_NEW(&c->low->scratch, struct parts *, groups);
    c->given = SL_NEW(&c->low->scratch, int32_t *, plan->seat_count);
    for (int g = 0; g < groups; g++)
        c->parts[g] = SL_NEW(&c->low->scratch, struct parts, c->low->flat.iters + 2);
    for (int i = 0; i < plan->seat_count; i++)
        c->given[i] = SL_NEW(&c->low->scratch, int32_t, groups);
}

static bool do_reduce(struct clock *c, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = c->low->plan;
    struct meeting *m = &c->meetings[a->slot];
    int64_t want = (int64_t)sl_sched_group_size(plan, a->slot) * a->version;
    if (!c->met[worker]) {
        c->met[worker] = 1;
        *joined_of(c, sl_sched_seat(plan, a->stage, worker), a->slot) = a->version;
        m->arrived++;
        m->time = c->now[worker] > m->time ? c->now[worker] : m->time;
        wake(c, worker);
    }
    if (is_last_of(c, worker, a) && m->arrived < want) {
        for (int i = 0; i < plan->seat_count; i++) {
            const int32_t *joined = joined_of(c, i, a->slot);
            if (joined && *joined < a->version)
                return wait_on(c, worker, plan->seats[i].worker, a, "for the reduction with");
        }
        SL_ASSERT(m->arrived >= want); /* otherwise a member would be missing */
    }
    if (is_last_of(c, worker, a) && m->time > c->now[worker])
        c->now[worker] = m->time;
    c->met[worker] = 0;
    return true;
}

static void run_worker(struct clock *c, int worker) {
    const struct sl_items *items = &c->low->items[c->segment][worker];
    int64_t from = c->at[worker];
    for (; c->at[worker] < items->vec.count; c->at[worker]++) {
        const struct sl_action *a = &items->vec.at[c->at[worker]];
        bool done = true;
        if (sl_is_timed(a))
            done = do_pass(c, worker, a);
        else if (a->kind == SL_REDUCE)
            done = sl_sched_deps_meets(&c->low->flat, a->slot) ? do_reduce(c, worker, a)
                                                               : give_part(c, worker, a);
        else if (c->low->flat.global_step && a->kind == SL_STEP)
            done = do_step(c, worker, a);
        else
            c->now[worker] += c->low->flat.dur_ns[a->stage][a->kind];
        if (!done) {
            if (c->at[worker] >
                from) /* otherwise two workers that wait for each other would loop forever */
                wake(c, worker);
            return;
        }
    }
    c->waits[worker].on = -1;
    wake(c, worker);
}

static sl_err run_segment(struct clock *c) {
    const struct sl_plan *plan = c->low->plan;
    int64_t barrier = 0;
    bool stuck = false;
    for (int w = 0; w < plan->worker_count; w++)
        barrier = c->now[w] > barrier ? c->now[w] : barrier;
    c->ready.count = 0;
    for (int w = 0; w < plan->worker_count; w++) {
        struct sl_items *items = &c->low->items[c->segment][w];
        items->ends = SL_NEW(&c->low->scratch, int64_t, items->timed);
        c->now[w] = barrier;
        c->at[w] = c->timed[w] = 0;
        c->waiters[w] = -1;
        c->queued[w] = true;
        SL_PUSH(&c->ready, w);
    }
    for (int64_t i = 0; i < c->ready.count; i++) {
        int w = c->ready.at[i];
        c->queued[w] = false;
        run_worker(c, w);
        if (i > 1 << 16 && i * 2 > c->ready.count) { /* drops the workers that have been visited */
            memmove(c->ready.at, c->ready.at + i + 1,
                    sizeof *c->ready.at * (size_t)(c->ready.count - i - 1));
            c->ready.count -= i + 1;
            i = -1;
        }
    }
    for (int w = 0; w < plan->worker_count; w++)
        stuck |= c->at[w] < c->low->items[c->segment][w].vec.count;
    return stuck ? sl_sched_report_blocked(&c->low->flat, c->waits) : SL_OK;
}

sl_err sl_lower_time(struct sl_low *low) {
    const struct sl_plan *plan = low->plan;
    struct clock c = {.low = low};
    sl_err err = SL_OK;
    for (int d = 0; d < 2; d++) {
        c.end[d] = SL_NEW(&low->scratch, int64_t *, plan->stage_count);
        for (int s = 0; s < plan->stage_count; s++) {
            int64_t total = sl_sched_total(&low->flat, s);
            c.end[d][s] = SL_NEW(&low->scratch, int64_t, total);
            for (int64_t i = 0; i < total; i++)
                c.end[d][s][i] = INT64_MAX;
        }
    }
    c.now = SL_NEW(&low->scratch, int64_t, plan->worker_count);
    c.at = SL_NEW(&low->scratch, int64_t, plan->worker_count);
    c.timed = SL_NEW(&low->scratch, int64_t, plan->worker_count);
    c.waiters = SL_NEW(&low->scratch, int, plan->worker_count);
    c.next_waiter = SL_NEW(&low->scratch, int, plan->worker_count);
    c.queued = SL_NEW(&low->scratch, bool, plan->worker_count);
    c.met = SL_NEW(&low->scratch, int8_t, plan->worker_count);
    c.waits = SL_NEW(&low->scratch, struct sl_blocked, plan->worker_count);
    c.meetings = SL_NEW(&low->scratch, struct meeting, sl_sched_group_count(plan));
    c.joined = SL_NEW(&low->scratch, int32_t *, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++) {
        int groups = 0;
        while (sl_sched_group_of(plan, plan->seats[i].stage, groups) >= 0)
            groups++;
        c.joined[i] = SL_NEW(&low->scratch, int32_t, groups);
    }
    if (low->flat.global_step)
        open_parts(&c);
    for (c.segment = 0; c.segment < SL_SEGMENT_COUNT && err == SL_OK; c.segment++)
        err = run_segment(&c);
    SL_VEC_FREE(&c.ready);
    return err;
}
