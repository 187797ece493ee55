/* The order of sums: which one a schedule has, and how to restore the order of one worker. */
#include "sched/order.h"

#include "base/vec.h"
#include "sched/deps.h"

#include <stdlib.h>
#include <string.h>

static bool adds(const struct sl_action *a) {
    return a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT;
}

/* ---- which order ---- */

struct walk {
    struct sl_sched view; /* the schedule with the fewest repetitions that show every order */
    int32_t *newest;      /* [seat] the latest iteration with a gradient */
    int32_t **last[2]; /* [0: F, 1: gradients][seat][iteration] last micro-batch + 1; 0: none yet */
    struct sl_sched_order order;
};

/* Passes may come from an unverified file: skip numbers that are out of range. */
static void see(struct walk *w, int worker, const struct sl_action *a) {
    const struct sl_plan *plan = w->view.plan;
    if (a->stage >= plan->stage_count || (a->kind != SL_FORWARD && !adds(a)) || a->micro < 0 ||
        a->micro >= sl_sched_total(&w->view, a->stage))
        return;
    int seat = sl_sched_seat(plan, a->stage, worker), gradient = a->kind != SL_FORWARD;
    if (seat < 0)
        return;
    int32_t *last = &w->last[gradient][seat][a->micro / w->view.micros[a->stage]];
    bool late = a->micro + 1 < *last;
    int32_t iteration = a->micro / w->view.micros[a->stage];
    if (gradient && iteration < w->newest[seat])
        w->order.iterations = false;
    if (gradient && iteration > w->newest[seat])
        w->newest[seat] = iteration;
    if (late && gradient && w->order.gradients) {
        w->order.stage = a->stage;
        w->order.micro = a->micro;
        w->order.after = *last - 1;
    }
    if (late)
        *(gradient ? &w->order.gradients : &w->order.forwards) = false;
    *last = a->micro + 1 > *last ? a->micro + 1 : *last;
}

static void see_list(struct walk *w, int worker, int segment, int32_t rep) {
    const struct sl_actions *list = &w->view.lists[segment][worker];
    for (int64_t i = 0; i < list->count; i++) {
        struct sl_action a = list->at[i];
        if (a.kind > SL_BACKWARD_WEIGHT || a.stage >= w->view.plan->stage_count)
            continue;
        a.micro += rep * w->view.micros[a.stage];
        see(w, worker, &a);
    }
}

struct sl_sched_order sl_sched_order_of(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    struct sl_arena arena = {0};
    struct walk w = {.view = sl_sched_shorten(sched, SL_PLAYED_REPS),
                     .order = {.gradients = true, .forwards = true, .iterations = true}};
    w.newest = SL_NEW(&arena, int32_t, plan->seat_count);
    for (int g = 0; g < 2; g++) {
        w.last[g] = SL_NEW(&arena, int32_t *, plan->seat_count);
        for (int i = 0; i < plan->seat_count; i++)
            w.last[g][i] = SL_NEW(&arena, int32_t, w.view.iters);
    }
    for (int i = 0; i < plan->worker_count; i++) {
        see_list(&w, i, SL_PROLOGUE, 0);
        for (int32_t r = 0; r < w.view.reps; r++)
            see_list(&w, i, SL_PERIOD, r);
        see_list(&w, i, SL_EPILOGUE, w.view.reps);
    }
    sl_arena_free(&arena);
    return w.order;
}

sl_err sl_sched_order_require(const struct sl_sched *sched) {
    struct sl_sched_order order = sl_sched_order_of(sched);
    if (order.gradients)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "stage %s: the gradient of micro-batch %d is added after that of %d; one worker "
                   "adds in ascending order",
                   sched->plan->stages[order.stage].name, order.micro, order.after);
}

/* ---- restoring it ---- */

struct early { /* gradients of a seat that come too early */
    /* next: ordinal whose gradient is due; held: number of gradients that wait */
    int64_t next, held;
    struct sl_action *at; /* [ordinal] the W that waits; kind 0: none */
    bool *inputs;         /* [ordinal] I has been seen */
};

struct restore {
    struct sl_sched flat;
    struct early *seats;
    SL_VEC(struct sl_action) out;
};

static void put_held(struct restore *r, struct early *e, int64_t total) {
    for (; e->next < total && e->at[e->next].kind; e->next++) {
        SL_PUSH(&r->out, e->at[e->next]);
        e->held--;
    }
}

/* Returns false for a number that is out of range or occurs twice, and for a W before its I: these
 * stay faults that the verifier reports. */
static bool put(struct restore *r, int worker, const struct sl_action *raw, int32_t rep) {
    struct sl_action a = *raw;
    if (a.stage >= r->flat.plan->stage_count || a.kind > SL_BACKWARD_WEIGHT)
        return false;
    a.micro += rep * r->flat.micros[a.stage];
    int seat = sl_sched_seat(r->flat.plan, a.stage, worker);
    int64_t total = sl_sched_total(&r->flat, a.stage);
    if (seat < 0 || a.micro < 0 || a.micro >= total)
        return false;
    struct early *e = &r->seats[seat];
    int64_t ordinal = sl_sched_deps_ordinal(&r->flat, a.stage, a.micro);
    struct sl_action now = *raw;
    e->inputs[ordinal] |= a.kind == SL_BACKWARD_INPUT;
    if (a.kind == SL_BACKWARD_WEIGHT && !e->inputs[ordinal])
        return false;
    if (adds(&a) && (ordinal < e->next || e->at[ordinal].kind))
        return false;
    if (!adds(&a) || ordinal == e->next) {
        SL_PUSH(&r->out, now);
        e->next += adds(&a);
        put_held(r, e, total);
        return true;
    }
    if (now.kind == SL_BACKWARD) {
        now.kind = SL_BACKWARD_INPUT;
        SL_PUSH(&r->out, now);
        now.kind = SL_BACKWARD_WEIGHT;
    }
    e->at[ordinal] = now;
    e->held++;
    return true;
}

static bool restore_worker(struct restore *r, struct sl_arena *arena, int worker,
                           struct sl_sched *out) {
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        const struct sl_actions *list = &r->flat.lists[s][worker];
        int32_t rep = s == SL_EPILOGUE ? r->flat.reps : 0;
        r->out.count = 0;
        for (int64_t i = 0; i < list->count; i++)
            if (!put(r, worker, &list->at[i], rep))
                return false;
        for (int i = 0; i < r->flat.plan->worker_seat_count[worker]; i++)
            if (r->seats[r->flat.plan->worker_seats[worker][i]].held)
                return false;
        out->lists[s][worker] = (struct sl_actions){
            sl_vec_freeze(arena, r->out.at, r->out.count, sizeof *r->out.at), r->out.count};
    }
    return true;
}

struct sl_sched *sl_sched_order_restore(struct sl_arena *arena, const struct sl_sched *passes) {
    const struct sl_plan *plan = passes->plan;
    struct restore r = {.flat = sl_sched_flat(passes)};
    struct sl_arena scratch = {0};
    struct sl_sched *out = NULL;
    bool done = true;
    struct sl_sched_order order = sl_sched_order_of(passes);
    if (passes->rule == SL_RULE_FORWARD || (order.gradients && order.iterations))
        return NULL;
    out = SL_NEW(arena, struct sl_sched, 1);
    *out = *passes;
    r.seats = SL_NEW(&scratch, struct early, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++) {
        int64_t total = sl_sched_total(&r.flat, plan->seats[i].stage);
        r.seats[i].at = SL_NEW(&scratch, struct sl_action, total);
        r.seats[i].inputs = SL_NEW(&scratch, bool, total);
    }
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        out->lists[s] = SL_NEW(arena, struct sl_actions, plan->worker_count);
    for (int w = 0; w < plan->worker_count && done; w++)
        done = restore_worker(&r, arena, w, out);
    SL_VEC_FREE(&r.out);
    sl_arena_free(&scratch);
    return done ? out : NULL;
}
