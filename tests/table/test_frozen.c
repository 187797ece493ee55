/* Every row of the table of schedules on random plans whose stages train, pass gradients on, or only run
 * forwards: it still verifies, has no pass, message or buffer that nobody needs, and survives text.
 * Mutated schedules are refused. */
#include "base/vec.h"
#include "sched/deps.h"
#include "sched/slots.h"
#include "sim/sim.h"
#include "support/sched_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* The plan with other passes and distinct bytes. */
static const struct sl_plan *with_passes(struct sl_arena *arena, const struct sl_plan *plan,
                                         const enum sl_stage_passes *passes) {
    struct sl_plan draft = *plan;
    const struct sl_plan *out;
    struct sl_stage *stages =
        sl_vec_freeze(arena, plan->stages, plan->stage_count, sizeof *plan->stages);
    for (int s = 0; s < plan->stage_count; s++) {
        stages[s].passes = passes[s];
        stages[s].recompute &= passes[s] != SL_STAGE_FORWARD;
        stages[s].bytes.state = passes[s] == SL_STAGE_TRAINS ? stages[s].bytes.state : 0;
        stages[s].bytes.fixed = 7;
    }
    draft.stages = stages;
    draft.memory_bytes = NULL;
    draft.tie_count = 0;
    if (sl_plan_build(arena, &draft, &out) != SL_OK)
        fail_msg("%s", sl_err_message());
    return out;
}

static void check_action(const struct sl_plan *plan, const struct sl_action *a) {
    const struct sl_stage *stage = &plan->stages[a->stage];
    if (a->kind <= SL_RECOMPUTE)
        assert_true(sl_sched_deps_has(stage, (enum sl_kind)a->kind));
    if (a->kind == SL_SEND || a->kind == SL_RECV)
        assert_true(!(a->flags & SL_GRAD) || plan->edges[a->edge].grads);
    if (a->kind == SL_REDUCE && a->slot < plan->stage_count)
        assert_int_equal(stage->passes, SL_STAGE_TRAINS);
}

static void check_buffers(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_stage *stage = &plan->stages[plan->seats[i].stage];
        if (stage->passes == SL_STAGE_TRAINS)
            continue;
        assert_int_equal(sched->pools[i][SL_POOL_KEPT].count, 0);
        if (stage->passes == SL_STAGE_FORWARD)
            assert_true(sched->pools[i][SL_POOL_STASH].count <= 1 && sl_sched_slots(sched, i) <= 1);
        for (int e = 0; e < plan->edge_count; e++)
            if (!plan->edges[e].grads && plan->edges[e].from == plan->seats[i].stage)
                assert_int_equal(
                    sched->pools[i][sl_sched_pool_of_edge(plan, &plan->edges[e], true, false)]
                        .count,
                    0);
    }
}

static void check_text(struct sl_arena *arena, const struct sl_sched *sched) {
    struct sl_text text = {0}, again = {0};
    struct sl_sched *read;
    sl_sched_write(sched, &text);
    if (sl_sched_read(arena, "frozen", text.at, text.length, &read) != SL_OK ||
        sl_sched_verify(read) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_sched_write(read, &again);
    assert_string_equal(text.at, again.at);
    sl_text_free(&text);
    sl_text_free(&again);
}

static void check_sched(struct sl_arena *arena, const struct sl_sched *sched) {
    const struct sl_sim *sim;
    struct sl_sim_opts opts = {0};
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        for (int w = 0; w < sched->plan->worker_count; w++)
            for (int64_t i = 0; i < sched->lists[g][w].count; i++)
                check_action(sched->plan, &sched->lists[g][w].at[i]);
    check_buffers(sched);
    check_text(arena, sched);
    if (sl_sim_run(arena, sched, &opts, &sim) != SL_OK)
        fail_msg("%s", sl_err_message());
}

/* A case that verifies if all stages train also verifies if some do not. */
static bool check_case(const struct sl_schedule *row, struct dice *dice) {
    struct sl_arena arena = {0};
    const struct sl_sched *sched;
    struct sched_case c = sched_case_draw(&arena, dice, row, 6);
    enum sl_stage_passes *passes = SL_NEW(&arena, enum sl_stage_passes, c.plan->stage_count);
    int kind = (int)dice_below(dice, 3), until = (int)dice_below(dice, c.plan->stage_count);
    c.plan = with_passes(&arena, c.plan, passes);
    bool fits = sl_schedules_build(&arena, c.plan, &c.opts, &sched) == SL_OK;
    for (int i = 0; i < c.plan->stage_count; i++) { /* the lower ones, the upper ones, any */
        int height = c.plan->stages[i].height;
        passes[i] = kind == 0   ? (height > until ? SL_STAGE_FORWARD : SL_STAGE_TRAINS)
                    : kind == 1 ? (height < until ? SL_STAGE_FROZEN : SL_STAGE_TRAINS)
                                : (enum sl_stage_passes)dice_below(dice, 3);
    }
    if (fits) {
        c.plan = with_passes(&arena, c.plan, passes);
        if (sl_schedules_build(&arena, c.plan, &c.opts, &sched) != SL_OK)
            fail_msg("%s, draw %llu: %s", row->name, (unsigned long long)dice->at,
                     sl_err_message());
        check_sched(&arena, sched);
    }
    sl_arena_free(&arena);
    return fits;
}

static void every_row(void **state) {
    int rows, built = 0;
    const struct sl_schedule *const *list = sl_schedules_row_registry(&rows);
    (void)state;
    for (int i = 0; i < rows; i++) {
        struct dice dice = {.seed = 31, .stream = (uint64_t)i};
        for (int64_t k = test_count(10000) / rows; k >= 0; k--)
            built += check_case(list[i], &dice);
    }
    printf("count: %d schedules with frozen stages verified\n", built);
    assert_true(built > 100);
}

/* ---- sabotage ---- */

static struct sl_sched *half_frozen(struct sl_arena *arena, const char *schedule) {
    static const enum sl_stage_passes passes[] = {SL_STAGE_FORWARD, SL_STAGE_FORWARD,
                                                  SL_STAGE_TRAINS, SL_STAGE_FROZEN};
    const struct sl_plan *chain;
    const struct sl_sched *sched;
    struct sl_schedule_opts opts = {.schedule = schedule, .micros = 6, .iters = 4};
    assert_int_equal(sl_plan_chain(arena, 4, 4, SL_LAYOUT_LOOP, &chain), SL_OK);
    chain = with_passes(arena, chain, passes);
    if (sl_schedules_build(arena, chain, &opts, &sched) != SL_OK)
        fail_msg("%s", sl_err_message());
    return sched_copy(arena, sched);
}

static void refuse(const struct sl_sched *sched, const char *why) {
    if (sl_sched_verify(sched) == SL_OK || !strstr(sl_err_message(), why))
        fail_msg("expected '%s', found '%s'", why, sl_err_message());
}

/* Turns the first action of a kind on a worker into another. */
static void turn(struct sl_sched *sched, int worker, enum sl_kind from, enum sl_kind to) {
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        for (int64_t i = 0; i < sched->lists[g][worker].count; i++)
            if (sched->lists[g][worker].at[i].kind == from) {
                sched->lists[g][worker].at[i].kind = (uint8_t)to;
                return;
            }
    fail();
}

static void mutants(void **state) {
    struct sl_arena arena = {0};
    (void)state;
    static const char *const schedules[] = {"1f1b", "zb-h1", "2bw"};
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct sl_sched *sched = half_frozen(&arena, schedules[i]);
        assert_int_equal(sl_sched_verify(sched), SL_OK);
        turn(sched, 3, SL_BACKWARD, SL_BACKWARD_INPUT);
        refuse(sched, "it has no such pass");
        sched = half_frozen(&arena, schedules[i]);
        turn(sched, 0, SL_FORWARD, SL_BACKWARD);
        refuse(sched, "it has no such pass");
        sched = half_frozen(&arena, schedules[i]);
        turn(sched, 3, SL_BACKWARD, SL_FORWARD);
        refuse(sched, "runs twice");
        sched = half_frozen(&arena, schedules[i]); /* a program of a plan that trains all stages */
        const enum sl_stage_passes all[4] = {0};
        sched->plan = with_passes(&arena, sched->plan, all);
        assert_int_not_equal(sl_sched_verify(sched), SL_OK);
    }
    struct sl_sched *sched = half_frozen(&arena, "1f1b");
    for (int64_t i = 0; i < sched->lists[SL_PERIOD][2].count; i++) /* a gradient to stage 1 */
        if (sched->lists[SL_PERIOD][2].at[i].kind == SL_RECV &&
            !(sched->lists[SL_PERIOD][2].at[i].flags & SL_GRAD)) {
            sched->lists[SL_PERIOD][2].at[i].kind = SL_SEND;
            sched->lists[SL_PERIOD][2].at[i].flags = SL_GRAD;
            break;
        }
    refuse(sched, "carries no gradients");
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row), cmocka_unit_test(mutants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
