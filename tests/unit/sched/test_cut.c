/* Cuts of random asynchronous schedules: what is before a cut needs nothing behind it, every stage has
 * made exactly that step, sums over workers are whole, and a longer run has the same cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipe/resume.h"
#include "sched/cut.h"
#include "sched/deps.h"
#include "support/sched_cases.h"

#include <stdio.h>
#include <string.h>

enum { CASES = 20000, SIZE = 5 };

/* What has run before a cut. */
struct before {
    struct sl_arena arena;
    const struct sl_sched *sched;
    bool **done[2];   /* [F, B or I][stage][micro] */
    int32_t *steps;   /* [seat] */
    bool **decisions; /* [seat][version] given, with a global step */
    int32_t **joined; /* [group][version] seats whose part of a sum is added before the cut */
    int32_t **passes; /* [seat][version] passes that add to its gradient */
};

static struct sl_action action_of(const struct sl_sched *sched, int worker, int64_t number) {
    struct sl_spot spot = sl_sched_spot(sched, worker, number);
    const struct sl_action *a = &sched->lists[spot.segment][worker].at[spot.index];
    return sl_sched_at(sched, sl_sched_seat(sched->plan, a->stage, worker), a, spot.rep);
}

static void collect(struct before *b, const struct sl_sched *sched, const int64_t *at) {
    const struct sl_plan *plan = sched->plan;
    *b = (struct before){.sched = sched};
    b->steps = SL_NEW(&b->arena, int32_t, plan->seat_count);
    b->decisions = SL_NEW(&b->arena, bool *, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++)
        b->decisions[i] = SL_NEW(&b->arena, bool, sched->iters + 2);
    b->passes = SL_NEW(&b->arena, int32_t *, plan->seat_count);
    for (int i = 0; i < plan->seat_count; i++)
        b->passes[i] = SL_NEW(&b->arena, int32_t, sched->iters + 2);
    b->joined = SL_NEW(&b->arena, int32_t *, sl_sched_group_count(plan) + 1);
    for (int g = 0; g <= sl_sched_group_count(plan); g++)
        b->joined[g] = SL_NEW(&b->arena, int32_t, sched->iters + 2);
    for (int k = 0; k < 2; k++) {
        b->done[k] = SL_NEW(&b->arena, bool *, plan->stage_count);
        for (int s = 0; s < plan->stage_count; s++)
            b->done[k][s] = SL_NEW(&b->arena, bool, sl_sched_total(sched, s));
    }
    for (int w = 0; w < plan->worker_count; w++)
        for (int64_t i = 0; i < at[w]; i++) {
            struct sl_action a = action_of(sched, w, i);
            int seat = sl_sched_seat(plan, a.stage, w);
            if (a.kind == SL_REDUCE)
                b->joined[a.slot][a.version]++;
            if (a.kind == SL_BACKWARD || a.kind == SL_BACKWARD_WEIGHT)
                b->passes[seat][a.micro / sched->micros[a.stage] + 1]++;
            if (a.kind == SL_FORWARD)
                b->done[0][a.stage][a.micro] = true;
            else if (a.kind == SL_BACKWARD || a.kind == SL_BACKWARD_INPUT)
                b->done[1][a.stage][a.micro] = true;
            else if (a.kind == SL_STEP)
                b->steps[seat] = a.version;
            else if (a.kind == SL_REDUCE && a.slot == sl_sched_decision_group(plan))
                b->decisions[seat][a.version] = true;
        }
}

/* Has the other end of every edge made the inputs of a pass? */
static bool has_inputs(const struct before *b, const struct sl_action *a) {
    const struct sl_plan *plan = b->sched->plan;
    bool grad = a->kind != SL_FORWARD;
    for (int e = 0; e < plan->edge_count; e++) {
        const struct sl_edge *edge = &plan->edges[e];
        if ((grad ? edge->from : edge->to) != a->stage)
            continue;
        int other = grad ? edge->to : edge->from;
        struct sl_micro_range range = sl_sched_deps_overlap(b->sched, a->stage, a->micro, other);
        for (int32_t x = range.low; x < range.high; x++)
            if (!b->done[grad][other][x])
                return false;
    }
    return true;
}

static bool is_closed(const struct before *b, const int64_t *at) {
    const struct sl_plan *plan = b->sched->plan;
    for (int w = 0; w < plan->worker_count; w++)
        for (int64_t i = 0; i < at[w]; i++) {
            struct sl_action a = action_of(b->sched, w, i);
            bool pass =
                a.kind == SL_FORWARD || a.kind == SL_BACKWARD || a.kind == SL_BACKWARD_INPUT;
            if (pass && !has_inputs(b, &a))
                return false;
            for (int s = 0; s < plan->seat_count; s++)
                if (a.kind == SL_STEP && b->sched->global_step && !b->decisions[s][a.version])
                    return false;
        }
    return true;
}

/* A sum has all parts before the cut or none; a complete gradient of a replica is in its sum, which
 * begins during the pass. */
static bool is_summed(const struct before *b) {
    const struct sl_sched *sched = b->sched;
    const struct sl_plan *plan = sched->plan;
    for (int32_t v = 1; v <= sched->iters; v++) {
        for (int g = 0; g < sl_sched_group_count(plan); g++)
            if (sl_sched_deps_meets(sched, g) && b->joined[g][v] &&
                b->joined[g][v] != sl_sched_group_size(plan, g))
                return false;
        for (int i = 0; i < plan->seat_count; i++) {
            const struct sl_seat *seat = &plan->seats[i];
            int32_t share = sl_sched_deps_share(sl_sched_micros(sched, seat->stage, v - 1),
                                                plan->stages[seat->stage].width, seat->replica);
            if (plan->stages[seat->stage].width > 1 && share && b->passes[i][v] == share &&
                !b->joined[seat->stage][v])
                return false;
        }
    }
    return true;
}

static bool is_cut(const struct sl_sched *sched, int32_t version, const int64_t *at) {
    struct before b;
    collect(&b, sched, at);
    bool good = is_closed(&b, at) && is_summed(&b);
    for (int i = 0; i < sched->plan->seat_count; i++)
        good &= b.steps[i] == version;
    sl_arena_free(&b.arena);
    return good;
}

/* Is the cut before the end of the last repetition? */
static bool is_inside(const struct sl_sched *sched, const int64_t *at) {
    bool inside = true;
    for (int w = 0; w < sched->plan->worker_count; w++)
        inside &= at[w] <= sched->lists[SL_PROLOGUE][w].count +
                               sched->lists[SL_PERIOD][w].count * sched->reps;
    return inside;
}

static void check_longer(struct sl_arena *arena, const struct sched_case *c,
                         const struct sl_sched *sched, int32_t version, const int64_t *at) {
    struct sl_schedule_opts opts = c->opts;
    const struct sl_sched *longer;
    int64_t *other = SL_NEW(arena, int64_t, c->plan->worker_count);
    opts.iters += 7;
    if (!is_inside(sched, at) || sched->reps < 3 ||
        sl_schedules_build(arena, c->plan, &opts, &longer) != SL_OK)
        return;
    assert_int_equal(sl_sched_cut(longer, version, other), SL_OK);
    assert_true(sl_pipe_cut_hash(longer, other) == sl_pipe_cut_hash(sched, at));
}

struct counts {
    int64_t cuts, refused, wrong;
};

static void check_case(struct sl_arena *arena, struct dice *dice, const struct sl_schedule *row,
                       struct counts *counts) {
    struct sched_case c = sched_case_draw(arena, dice, row, SIZE);
    const struct sl_sched *sched;
    int count = c.plan->worker_count;
    int64_t *at = SL_NEW(arena, int64_t, count), *last = SL_NEW(arena, int64_t, count);
    c.opts.last_batch = 0;
    c.opts.iters = 1 + dice_below(dice, 60);
    if (sl_schedules_build(arena, c.plan, &c.opts, &sched) != SL_OK)
        return;
    for (int32_t v = 1; v <= sched->iters; v += 1 + (int32_t)dice_below(dice, 9)) {
        if (sl_sched_cut(sched, v, at) != SL_OK) {
            counts->refused++;
            assert_non_null(strstr(sl_err_message(), "before other stages have made step"));
            continue;
        }
        if (!is_cut(sched, v, at))
            fail_msg("%s, seed %llu: step %d of %d is no cut", row->name,
                     (unsigned long long)dice->seed, v, sched->iters);
        for (int w = 0; w < count; w++)
            assert_true(at[w] >= last[w]);
        memcpy(last, at, sizeof *at * (size_t)count);
        counts->cuts++;
        check_longer(arena, &c, sched, v, at);
        int w = (int)dice_below(dice, count); /* sabotage: one worker stops before its step */
        while (at[w] > 0 && action_of(sched, w, at[w] - 1).kind != SL_STEP)
            at[w]--;
        at[w]--;
        counts->wrong += !is_cut(sched, v, at);
        memcpy(at, last, sizeof *at * (size_t)count);
    }
}

static void test_cuts(void **state) {
    struct counts counts = {0};
    /* A tenth, not a fiftieth: a gradient that is complete before its sum is rare. */
    int64_t tenth = test_count(5 * (int64_t)CASES);
    int rows, count = tenth < CASES ? (int)tenth : CASES;
    const struct sl_schedule *const *row = sl_schedules_row_registry(&rows);
    (void)state;
    for (int i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {.seed = 23, .stream = (uint64_t)i};
        const struct sl_schedule *r = row[i % rows];
        if (r->rule != SL_RULE_SYNC && r->rule != SL_RULE_FORWARD)
            check_case(&arena, &dice, r, &counts);
        sl_arena_free(&arena);
    }
    assert_true(counts.wrong == counts.cuts);
    printf(
        "count: %lld cuts of asynchronous schedules, %lld sabotaged ones noticed, %lld refused\n",
        (long long)counts.cuts, (long long)counts.wrong, (long long)counts.refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
