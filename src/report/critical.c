/* The critical path of a timeline, found by walking back from the end.
 *
 * The cause of the start of an action or transfer is the latest of these:
 *       an action:    the previous action of its worker; its messages; the transfer that frees its
 *                     buffer; for REDUCE the last member; for STEP with global_step the last part
 *       a transfer:   the action before its SEND; the action before its RECV; the wire */
#include "report/critical.h"

#include "base/vec.h"
#include "sched/deps.h"

struct walk {
    const struct sl_timeline *timeline;
    struct sl_matches *matches;
    SL_VEC(struct sl_moment) path;
    struct sl_moment *by_end; /* SENDs sorted by end, made when first needed */
    int64_t send_count;
    struct sl_moment best; /* latest cause so far; lane -1: none yet */
    int64_t best_ns, limit_ns;
};

static const struct sl_span *span_at(const struct walk *w, struct sl_moment m) {
    return &w->timeline->lanes[m.lane].at[m.span];
}

static bool is_message(const struct sl_span *span) {
    return span->action.kind == SL_SEND || span->action.kind == SL_RECV;
}

/* Offers a cause; of equally late ones the first offered counts. */
static void offer(struct walk *w, struct sl_moment m, int64_t time_ns) {
    if (time_ns > w->limit_ns || (w->best.lane >= 0 && time_ns <= w->best_ns))
        return;
    w->best = m;
    w->best_ns = time_ns;
}

/* Offers the action before this one on its lane. */
static void offer_before(struct walk *w, struct sl_moment m) {
    const struct sl_lane *lane = &w->timeline->lanes[m.lane];
    int64_t i = m.span - 1;
    while (i >= 0 && is_message(&lane->at[i]))
        i--;
    if (i >= 0)
        offer(w, (struct sl_moment){m.lane, i}, lane->at[i].end_ns);
}

static void offer_inputs(struct walk *w, const struct sl_action *a) {
    const struct sl_sched *sched = w->timeline->sched;
    const struct sl_stage *stage = &sched->plan->stages[a->stage];
    struct sl_need need = sl_sched_deps_need(stage, a->kind);
    bool grad = need.out_grads;
    int count = grad ? stage->out_count : need.in_acts ? stage->in_count : 0;
    for (int i = 0; i < count; i++) {
        int edge = grad ? stage->out[i] : stage->in[i];
        int other = grad ? sched->plan->edges[edge].to : sched->plan->edges[edge].from;
        struct sl_micro_range range = sl_sched_deps_overlap(sched, a->stage, a->micro, other);
        for (int32_t x = range.low; x < range.high; x++) {
            struct sl_action recv = {.kind = SL_RECV,
                                     .flags = grad ? SL_GRAD : 0,
                                     .stage = a->stage,
                                     .micro = a->micro,
                                     .other = x,
                                     .edge = (uint16_t)edge};
            struct sl_moment send, got;
            if (sl_sched_matches_find(w->matches, &recv, &send, &got))
                offer(w, send, span_at(w, got)->end_ns);
        }
    }
}

/* Offers an earlier SEND of this lane that had to finish first: its buffer was needed, or it
 * blocks. */
static void offer_sends(struct walk *w, struct sl_moment m) {
    enum { LOOK = 4096 };
    const struct sl_lane *lane = &w->timeline->lanes[m.lane];
    for (int64_t i = m.span - 1; i >= 0 && i > m.span - LOOK && w->best_ns < w->limit_ns; i--)
        if (lane->at[i].action.kind == SL_SEND && lane->at[i].end_ns == w->limit_ns)
            offer(w, (struct sl_moment){m.lane, i}, w->limit_ns);
}

/* For SENDs just before the action that waited for their receives: offers the actions before those
 * receives. */
static void offer_posts(struct walk *w, struct sl_moment m, int depth) {
    const struct sl_lane *lane = &w->timeline->lanes[m.lane];
    for (int64_t i = m.span - 1; i >= 0 && is_message(&lane->at[i]); i--) {
        struct sl_moment send, recv;
        if (w->best_ns == w->limit_ns)
            return;
        if (lane->at[i].action.kind != SL_SEND ||
            !sl_sched_matches_find(w->matches, &lane->at[i].action, &send, &recv))
            continue;
        if (lane->at[i].end_ns == w->limit_ns)
            offer(w, (struct sl_moment){m.lane, i}, w->limit_ns);
        offer_before(w, recv);
        if (depth && w->best_ns < w->limit_ns)
            offer_posts(w, recv, depth - 1);
    }
}

enum { POST_DEPTH = 64 };

static void offer_group(struct walk *w, const struct sl_action *a) {
    const struct sl_timeline *t = w->timeline;
    for (int pass = 0; pass < 2 && w->best_ns < w->limit_ns; pass++)
        for (int l = 0; l < t->lane_count; l++)
            for (int64_t i = t->lanes[l].count - 1; i >= 0; i--) {
                const struct sl_action *b = &t->lanes[l].at[i].action;
                if (b->kind != SL_REDUCE || b->slot != a->slot || b->version != a->version)
                    continue;
                if (!pass)
                    offer_before(w, (struct sl_moment){l, i});
                else
                    offer_posts(w, (struct sl_moment){l, i}, POST_DEPTH);
            }
}

/* With global_step: offers the parts that a STEP, or a part of the decision, waits for: a STEP for
 * the parts of all its groups, a part of the decision for those of its ties. A timeline has no
 * transfer times of parts. So in a simulation the last part counts as the cause, and the time from
 * it to the step as its transfer. In a measurement an action begins a little after its cause, so
 * the latest event is the cause. */
static void offer_parts(struct walk *w, const struct sl_action *a) {
    const struct sl_timeline *t = w->timeline;
    const struct sl_plan *plan = t->sched->plan;
    int verdict = sl_sched_decision_group(plan);
    if (!t->measured) {
        w->best = (struct sl_moment){-1, 0};
        w->best_ns = -1;
    }
    for (int l = 0; l < t->lane_count; l++)
        for (int64_t i = 0; i < t->lanes[l].count; i++) {
            const struct sl_action *b = &t->lanes[l].at[i].action;
            bool own = b->slot == verdict
                           ? a->kind == SL_STEP
                           : b->kind == SL_REDUCE && !sl_sched_deps_meets(t->sched, b->slot) &&
                                 sl_sched_in_group(plan, b->slot, a->stage);
            if (b->kind == SL_REDUCE && b->version == a->version && own)
                offer(w, (struct sl_moment){l, i}, t->lanes[l].at[i].end_ns);
        }
}

static int by_end(const void *a, const void *b, const struct walk *w) {
    const struct sl_moment *x = a, *y = b;
    int64_t ex = span_at(w, *x)->end_ns, ey = span_at(w, *y)->end_ns;
    if (ex != ey)
        return ex < ey ? -1 : 1;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    return x->span < y->span ? -1 : x->span > y->span;
}

/* Part of a heap sort, which needs no memory. */
static void sift(const struct walk *w, struct sl_moment *at, int64_t i, int64_t count) {
    struct sl_moment item = at[i];
    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && by_end(&at[child], &at[child + 1], w) < 0)
            child++;
        if (by_end(&at[child], &item, w) <= 0)
            break;
        at[i] = at[child];
    }
    at[i] = item;
}

static void sort_sends(struct walk *w) {
    SL_VEC(struct sl_moment) sends = {0};
    for (int l = 0; l < w->timeline->lane_count; l++)
        for (int64_t i = 0; i < w->timeline->lanes[l].count; i++) {
            const struct sl_span *span = &w->timeline->lanes[l].at[i];
            if (span->action.kind == SL_SEND && span->end_ns > span->start_ns)
                SL_PUSH(&sends, ((struct sl_moment){l, i}));
        }
    for (int64_t i = sends.count / 2 - 1; i >= 0; i--)
        sift(w, sends.at, i, sends.count);
    for (int64_t i = sends.count - 1; i > 0; i--) {
        struct sl_moment last = sends.at[i];
        sends.at[i] = sends.at[0];
        sends.at[0] = last;
        sift(w, sends.at, 0, i);
    }
    w->by_end = sends.at;
    w->send_count = sends.count;
}

/* Offers a transfer that ended when this one began, between the same workers if there is one. */
static void offer_wire(struct walk *w, struct sl_moment m) {
    if (!w->by_end)
        sort_sends(w);
    int64_t low = 0, high = w->send_count;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (span_at(w, w->by_end[mid])->end_ns < w->limit_ns)
            low = mid + 1;
        else
            high = mid;
    }
    struct sl_moment any = {-1, 0};
    int peer = span_at(w, m)->action.peer;
    for (; low < w->send_count && span_at(w, w->by_end[low])->end_ns == w->limit_ns; low++) {
        struct sl_moment other = w->by_end[low];
        int to = span_at(w, other)->action.peer;
        bool near = other.lane == m.lane || to == peer || (other.lane == peer && to == m.lane);
        if (any.lane < 0 || near)
            any = other;
        if (near)
            break;
    }
    if (any.lane >= 0)
        offer(w, any, w->limit_ns);
}

static bool waits_for_parts(const struct walk *w, const struct sl_action *a) {
    const struct sl_sched *sched = w->timeline->sched;
    bool verdict = a->kind == SL_REDUCE && a->slot == sl_sched_decision_group(sched->plan);
    return sched->global_step && (verdict || a->kind == SL_STEP);
}

/* Finds the cause of the start of `m`. */
static bool step_back(struct walk *w, struct sl_moment m) {
    const struct sl_span *span = span_at(w, m);
    struct sl_moment send, recv;
    bool message = span->action.kind == SL_SEND;
    w->best = (struct sl_moment){-1, 0};
    w->best_ns = -1;
    w->limit_ns = span->start_ns;
    offer_before(w, m);
    message = message && sl_sched_matches_find(w->matches, &span->action, &send, &recv);
    if (message)
        offer_before(w, recv);
    if (!message)
        offer_inputs(w, &span->action);
    if (span->action.kind == SL_REDUCE &&
        sl_sched_deps_meets(w->timeline->sched, span->action.slot) && w->best_ns < w->limit_ns)
        offer_group(w, &span->action);
    if (message && w->best_ns < w->limit_ns)
        offer_wire(w, m);
    if (w->best_ns < w->limit_ns)
        offer_sends(w, m);
    offer_posts(w, m, POST_DEPTH);
    if (message)
        offer_posts(w, recv, POST_DEPTH);
    if (w->best_ns < w->limit_ns && waits_for_parts(w, &span->action))
        offer_parts(w, &span->action);
    return w->best.lane >= 0;
}

static bool find_last(const struct sl_timeline *t, struct sl_moment *out) {
    int64_t last = -1;
    for (int l = 0; l < t->lane_count; l++)
        for (int64_t i = 0; i < t->lanes[l].count; i++)
            if (t->lanes[l].at[i].action.kind != SL_RECV && t->lanes[l].at[i].end_ns > last) {
                last = t->lanes[l].at[i].end_ns;
                *out = (struct sl_moment){l, i};
            }
    return last >= 0;
}

/* Adds the time of a moment, which ends at the start of the next, so that a latency belongs to its
 * transfer. */
static void add_time(struct sl_critical *out, const struct sl_span *span, int64_t ns) {
    if (span->action.kind == SL_SEND)
        out->transfer_ns += ns;
    else if (span->action.kind <= SL_RECOMPUTE)
        out->pass_ns += ns;
    else
        out->weight_ns += ns;
    out->gap_ns -= ns;
}

void sl_report_timeline_critical(struct sl_arena *arena, const struct sl_timeline *timeline,
                                 struct sl_critical *out) {
    struct walk w = {.timeline = timeline};
    struct sl_moment at;
    int64_t until = timeline->end_ns, max = 0;
    *out = (struct sl_critical){.gap_ns = timeline->end_ns};
    for (int l = 0; l < timeline->lane_count; l++)
        max += timeline->lanes[l].count;
    if (!find_last(timeline, &at))
        return;
    w.matches = sl_sched_matches_open(timeline);
    do {
        const struct sl_span *span = span_at(&w, at);
        int64_t end = span->end_ns;
        struct sl_moment send, recv;
        if (span->action.kind == SL_SEND &&
            sl_sched_matches_find(w.matches, &span->action, &send, &recv))
            end = span_at(&w, recv)->end_ns;
        if (span->action.kind == SL_REDUCE &&
            !sl_sched_deps_meets(timeline->sched, span->action.slot))
            end = until; /* the remaining time is the transfer of a part */
        add_time(out, span, (end < until ? end : until) - span->start_ns);
        until = span->start_ns;
        SL_PUSH(&w.path, at);
        if (!step_back(&w, at))
            break;
        at = w.best;
    } while (w.path.count <= max);
    for (int64_t i = 0; i < w.path.count / 2; i++) {
        struct sl_moment swap = w.path.at[i];
        w.path.at[i] = w.path.at[w.path.count - 1 - i];
        w.path.at[w.path.count - 1 - i] = swap;
    }
    out->count = w.path.count;
    out->at = SL_VEC_FREEZE(&w.path, arena);
    SL_VEC_FREE(&w.path);
    free(w.by_end);
    sl_sched_matches_close(w.matches);
}
