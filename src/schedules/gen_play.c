/* The list scheduler: simulates passes on workers and records their order.
 *
 *     event    a pass ends: its worker and the workers of its readers look for a pass
 *     look     start the most urgent offered pass whose inputs have ended
 *
 * The order was executed in the simulation, so it cannot deadlock. */
#include "schedules/gen.h"

struct event {
    int64_t time;
    int worker;
};

struct play {
    struct sl_play *ask;
    const struct sl_plan *plan;
    struct sl_sched view; /* one iteration, on which the dependency rule is evaluated */
    int64_t **end[2];     /* [0: F, 1: B or I][stage][micro] end time; INT64_MAX: not yet */
    int64_t *free_at;     /* [worker] */
    SL_VEC(struct event) heap;
    SL_VEC(int) looks; /* workers to visit now */
    bool *looking;
};

static bool before(struct event a, struct event b) {
    return a.time < b.time || (a.time == b.time && a.worker < b.worker);
}

static void push(struct play *p, int64_t time, int worker) {
    struct event item = {time, worker};
    SL_PUSH(&p->heap, item);
    int64_t i = p->heap.count - 1;
    for (; i && before(item, p->heap.at[(i - 1) / 2]); i = (i - 1) / 2)
        p->heap.at[i] = p->heap.at[(i - 1) / 2];
    p->heap.at[i] = item;
}

static struct event pop(struct play *p) {
    struct event top = p->heap.at[0], item = p->heap.at[--p->heap.count];
    int64_t i = 0;
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= p->heap.count)
            break;
        if (child + 1 < p->heap.count && before(p->heap.at[child + 1], p->heap.at[child]))
            child++;
        if (!before(p->heap.at[child], item))
            break;
        p->heap.at[i] = p->heap.at[child];
        i = child;
    }
    if (p->heap.count)
        p->heap.at[i] = item;
    return top;
}

/* Returns the latest end of the passes that feed `micro` of `stage` over an edge. */
static int64_t edge_ready(const struct play *p, int stage, int32_t micro, int other, bool grad) {
    struct sl_micro_range range = sl_sched_deps_overlap(&p->view, stage, micro, other);
    int64_t ready = 0;
    for (int32_t x = range.low; x < range.high; x++)
        if (p->end[grad][other][x] > ready)
            ready = p->end[grad][other][x];
    return ready;
}

static int64_t ready_at(const struct play *p, const struct sl_action *pass) {
    const struct sl_stage *stage = &p->plan->stages[pass->stage];
    struct sl_need need = sl_sched_deps_need(stage, pass->kind);
    int64_t ready = 0, at;
    if (need.own && pass->kind != SL_FORWARD)
        ready = p->end[pass->kind == SL_BACKWARD_WEIGHT][pass->stage][pass->micro];
    for (int i = 0; need.in_acts && i < stage->in_count; i++) {
        at = edge_ready(p, pass->stage, pass->micro, p->plan->edges[stage->in[i]].from, false);
        ready = at > ready ? at : ready;
    }
    for (int i = 0; need.out_grads && i < stage->out_count; i++) {
        at = edge_ready(p, pass->stage, pass->micro, p->plan->edges[stage->out[i]].to, true);
        ready = at > ready ? at : ready;
    }
    return ready;
}

/* Wakes the workers that read the output of this pass. */
static void wake_readers(struct play *p, const struct sl_action *pass, int64_t time) {
    const struct sl_stage *stage = &p->plan->stages[pass->stage];
    bool forward = pass->kind == SL_FORWARD;
    int count = forward ? stage->out_count : stage->in_count;
    if (pass->kind == SL_BACKWARD_WEIGHT)
        return;
    for (int i = 0; i < count; i++) {
        int other = forward ? p->plan->edges[stage->out[i]].to : p->plan->edges[stage->in[i]].from;
        struct sl_micro_range range =
            sl_sched_deps_overlap(&p->view, pass->stage, pass->micro, other);
        for (int32_t x = range.low; x < range.high; x++)
            push(p, time, p->plan->seats[sl_sched_deps_seat(&p->view, other, x)].worker);
    }
}

static void start(struct play *p, int worker, int seat, const struct sl_action *pass, int64_t now) {
    struct sl_gen *gen = p->ask->gen;
    int64_t dur = gen->dur_ns[pass->stage][pass->kind];
    if (p->plan->stages[pass->stage].recompute &&
        (pass->kind == SL_BACKWARD || pass->kind == SL_BACKWARD_INPUT))
        dur += gen->dur_ns[pass->stage][SL_RECOMPUTE];
    int64_t end = now + (dur > 0 ? dur : 1);
    SL_PUSH(&gen->workers[worker].vec, *pass);
    if (pass->kind == SL_FORWARD)
        p->end[0][pass->stage][pass->micro] = end;
    else if (pass->kind != SL_BACKWARD_WEIGHT)
        p->end[1][pass->stage][pass->micro] = end;
    p->ask->took(p->ask->ctx, seat, pass);
    p->free_at[worker] = end;
    p->ask->end_ns = end > p->ask->end_ns ? end : p->ask->end_ns;
    push(p, end, worker);
    wake_readers(p, pass, end);
}

static void look(struct play *p, int worker, int64_t now) {
    struct sl_offer best = {.urgency = INT32_MAX}, offers[4];
    int best_seat = -1;
    if (p->free_at[worker] > now)
        return;
    for (int i = 0; i < p->plan->worker_seat_count[worker]; i++) {
        int seat = p->plan->worker_seats[worker][i];
        int count = p->ask->candidates(p->ask->ctx, seat, offers);
        for (int j = 0; j < count; j++)
            if (offers[j].urgency < best.urgency && ready_at(p, &offers[j].pass) <= now) {
                best = offers[j];
                best_seat = seat;
            }
    }
    if (best_seat >= 0)
        start(p, worker, best_seat, &best.pass, now);
}

static void open_play(struct play *p, int32_t *micros) {
    struct sl_gen *gen = p->ask->gen;
    for (int s = 0; s < p->plan->stage_count; s++) {
        micros[s] = gen->micros[s];
        for (int d = 0; d < 2; d++) {
            p->end[d][s] = SL_NEW(gen->arena, int64_t, micros[s]);
            for (int32_t i = 0; i < micros[s]; i++)
                p->end[d][s][i] = INT64_MAX;
        }
    }
    for (int w = 0; w < p->plan->worker_count; w++)
        push(p, 0, w);
}

sl_err sl_schedules_gen_play(struct sl_play *ask) {
    struct sl_gen *gen = ask->gen;
    const struct sl_plan *plan = gen->plan;
    struct sl_arena_mark mark = sl_arena_mark(gen->arena);
    struct play p = {.ask = ask, .plan = plan, .view = *gen->sched};
    int32_t *micros = SL_NEW(gen->arena, int32_t, plan->stage_count);
    int64_t total = 0, played = 0;
    p.view.micros = micros;
    p.view.iters = 1;
    if (gen->micros != gen->sched->micros) /* the short last iteration */
        p.view.batch = p.view.last_batch;
    else
        p.view.last_batch = p.view.batch;
    p.free_at = SL_NEW(gen->arena, int64_t, plan->worker_count);
    p.looking = SL_NEW(gen->arena, bool, plan->worker_count);
    p.end[0] = SL_NEW(gen->arena, int64_t *, plan->stage_count);
    p.end[1] = SL_NEW(gen->arena, int64_t *, plan->stage_count);
    open_play(&p, micros);
    while (p.heap.count) {
        int64_t now = p.heap.at[0].time;
        p.looks.count = 0;
        while (p.heap.count && p.heap.at[0].time == now) {
            int worker = pop(&p).worker;
            if (!p.looking[worker])
                SL_PUSH(&p.looks, worker);
            p.looking[worker] = true;
        }
        for (int64_t i = 0; i < p.looks.count; i++) {
            p.looking[p.looks.at[i]] = false;
            look(&p, p.looks.at[i], now);
        }
    }
    for (int s = 0; s < plan->stage_count; s++)
        total += (gen->sched->rule == SL_RULE_FORWARD ? 1 : 2) * (int64_t)micros[s];
    for (int s = 0; s < plan->stage_count; s++)
        for (int32_t i = 0; i < micros[s]; i++)
            played += (p.end[0][s][i] < INT64_MAX) + (p.end[1][s][i] < INT64_MAX);
    SL_VEC_FREE(&p.heap);
    SL_VEC_FREE(&p.looks);
    sl_arena_release(gen->arena, mark);
    if (played != total)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: the order of passes deadlocks: all workers wait after %lld of %lld "
                       "passes",
                       gen->row->name, (long long)played, (long long)total);
    return SL_OK;
}
