/* Reads orders and versions of a serial run from a schedule. */
#include "run/serial_order.h"

#include "sched/deps.h"

#include <string.h>

struct reader {
    const struct sl_sched *sched;
    struct sl_serial_order *orders;
    int64_t steps;      /* steps that are read */
    int64_t **count[2]; /* [0: F, 1: sums][stage][step] how many have been read */
    int32_t *made;      /* [seat] steps before the current action */
    int32_t *last;      /* [seat] highest step of which a forward has been read */
};

static void see_pass(struct reader *r, int seat, const struct sl_action *a) {
    int32_t micros = r->sched->micros[a->stage], step = a->micro / micros;
    struct sl_serial_order *order = &r->orders[a->stage];
    bool sums = a->kind == SL_BACKWARD || a->kind == SL_BACKWARD_WEIGHT;
    if (step >= r->steps)
        return;
    if (a->kind == SL_FORWARD || sums)
        order->at[sums][step * micros + r->count[sums][a->stage][step]++] = a->micro % micros;
    if (a->kind != SL_BACKWARD_WEIGHT && order->version[0])
        order->version[a->kind != SL_FORWARD][a->micro] = r->made[seat];
    if (a->kind == SL_FORWARD) {
        order->crossed |= step < r->last[seat];
        r->last[seat] = step > r->last[seat] ? step : r->last[seat];
    }
}

static void see_list(struct reader *r, int worker, int segment, int32_t rep) {
    const struct sl_actions *list = &r->sched->lists[segment][worker];
    for (int64_t i = 0; i < list->count; i++) {
        int seat = sl_sched_seat(r->sched->plan, list->at[i].stage, worker);
        struct sl_action a = sl_sched_at(r->sched, seat, &list->at[i], rep);
        if (a.kind <= SL_BACKWARD_WEIGHT)
            see_pass(r, seat, &a);
        r->made[seat] += a.kind == SL_STEP;
    }
}

static void read_sched(struct reader *r, struct sl_arena *scratch) {
    const struct sl_plan *plan = r->sched->plan;
    for (int d = 0; d < 2; d++) {
        r->count[d] = SL_NEW(scratch, int64_t *, plan->stage_count);
        for (int s = 0; s < plan->stage_count; s++)
            r->count[d][s] = SL_NEW(scratch, int64_t, r->steps);
    }
    r->made = SL_NEW(scratch, int32_t, plan->seat_count);
    r->last = SL_NEW(scratch, int32_t, plan->seat_count);
    for (int w = 0; w < plan->worker_count; w++) {
        see_list(r, w, SL_PROLOGUE, 0);
        for (int32_t rep = 0; rep < r->sched->reps; rep++)
            see_list(r, w, SL_PERIOD, rep);
        see_list(r, w, SL_EPILOGUE, r->sched->reps);
    }
}

/* Turns the number of steps before each pass into the version that it reads. */
static void apply_rule(const struct reader *r, int stage) {
    const struct sl_sched *sched = r->sched;
    struct sl_serial_order *order = &r->orders[stage];
    const struct sl_serial_order *entry = &r->orders[sl_sched_entry(sched->plan)];
    int32_t micros = sched->micros[stage];
    for (int64_t k = 0; k < r->steps * micros; k++) {
        int32_t step = (int32_t)(k / micros), lag;
        if (sched->rule == SL_RULE_VSYNC) /* all stages have one micro-batch size here */
            order->version[0][k] = entry->version[0][k];
        if (sched->rule == SL_RULE_2BW)
            order->version[0][k] = step > 1 ? step - 1 : 0;
        if (sched->rule != SL_RULE_NEWEST)
            order->version[1][k] = order->version[0][k];
        lag = step - order->version[0][k];
        order->lag = lag > order->lag ? lag : order->lag;
    }
}

struct sl_serial_order *sl_run_serial_orders(struct sl_arena *arena, const struct sl_plan *plan,
                                             int64_t batch, const struct sl_sched *sched) {
    struct sl_serial_order *orders = SL_NEW(arena, struct sl_serial_order, plan->stage_count);
    struct sl_arena scratch = {0};
    bool synchronous = !sched || sched->rule == SL_RULE_SYNC;
    struct reader r = {.sched = sched, .orders = orders, .steps = synchronous ? 1 : sched->iters};
    for (int s = 0; s < plan->stage_count; s++) {
        int64_t micros = (batch + plan->stages[s].micro_size - 1) / plan->stages[s].micro_size;
        for (int d = 0; d < 2; d++) {
            orders[s].at[d] = SL_NEW(arena, int64_t, r.steps * micros);
            for (int64_t i = 0; i < r.steps * micros; i++)
                orders[s].at[d][i] = i % micros;
            orders[s].version[d] = synchronous ? NULL : SL_NEW(arena, int32_t, r.steps * micros);
        }
    }
    if (sched)
        read_sched(&r, &scratch);
    for (int s = 0; s < plan->stage_count && !synchronous; s++)
        apply_rule(&r, s);
    sl_arena_free(&scratch);
    return orders;
}
