/* The plan does not depend on the number of threads. */
#include "support/problem_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static struct sl_search_result plan(struct sl_arena *arena, const struct sl_problem *p, int threads,
                                    const char *schedule) {
    const struct sl_planner *planner;
    struct sl_search_result result = {0};
    struct sl_search_query query = {
        .problem = p, .schedule = schedule, .threads = threads, .effort = 300};
    assert_int_equal(sl_planners_find("sluice", &planner), SL_OK);
    assert_int_equal(planner->run(arena, &query, &result), SL_OK);
    return result;
}

static void check_same(const struct sl_problem *p, const struct sl_candidate_entry *a,
                       const struct sl_candidate_entry *b) {
    size_t stages = (size_t)a->c.stage_count;
    assert_int_equal(a->score.step_ns, b->score.step_ns);
    assert_int_equal(a->c.stage_count, b->c.stage_count);
    assert_int_equal(a->c.sequential, b->c.sequential);
    assert_int_equal(a->c.across, b->c.across);
    assert_int_equal(a->c.size, b->c.size);
    assert_string_equal(a->c.schedule, b->c.schedule);
    assert_string_equal(a->planner, b->planner);
    assert_memory_equal(a->c.stage_of, b->c.stage_of, sizeof(int) * (size_t)p->unit_count);
    assert_memory_equal(a->c.width, b->c.width, sizeof(int) * stages);
    assert_memory_equal(a->c.recompute, b->c.recompute, stages);
}

static void same_plan(void **state) {
    (void)state;
    int64_t count = test_count(500), found = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {19, (uint64_t)i, 0};
        struct problem_size max = {10, 5, .mixed = i % 2};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = i % 3 ? "1f1b" : NULL;
        struct sl_search_result one = plan(&arena, p, 1, schedule);
        for (int threads = 2; threads <= 5; threads += 3) {
            struct sl_search_result many = plan(&arena, p, threads, schedule);
            assert_int_equal(one.found, many.found);
            assert_int_equal(one.proven, many.proven);
            assert_int_equal(one.lower_bound, many.lower_bound);
            assert_int_equal(one.simulated, many.simulated);
            assert_int_equal(one.runner_count, many.runner_count);
            if (one.found)
                check_same(p, &one.best, &many.best);
            for (int r = 0; r < one.runner_count; r++)
                check_same(p, &one.runner[r], &many.runner[r]);
        }
        found += one.found;
        sl_arena_free(&arena);
    }
    printf("count: %lld problems, the same plan with 1, 2 and 5 threads; %lld have one\n",
           (long long)count, (long long)found);
    assert_true(found > count / 2);
}

struct watch {
    int calls;
    int64_t best_ns;
};

static void look(void *ctx, const char *phase, const struct sl_search_result *so_far) {
    struct watch *watch = ctx;
    assert_true(strlen(phase) > 0);
    if (so_far->found && watch->best_ns)
        assert_true(so_far->best.score.step_ns <= watch->best_ns);
    watch->best_ns = so_far->found ? so_far->best.score.step_ns : 0;
    watch->calls++;
}

/* The best step in progress reports never grows; a search past its deadline reports timed_out. */
static void progress_and_time(void **state) {
    (void)state;
    const struct sl_planner *planner;
    assert_int_equal(sl_planners_find("sluice", &planner), SL_OK);
    for (int late = 0; late < 2; late++) {
        struct sl_arena arena = {0};
        struct dice dice = {23, 4, 0};
        struct watch watch = {0};
        struct sl_search_result result = {0};
        struct sl_search_query query = {
            .problem = problem_draw(&arena, &dice, (struct problem_size){12, 6, .mixed = false}),
            .until_ns = late,
            .progress = look,
            .progress_ctx = &watch};
        assert_int_equal(planner->run(&arena, &query, &result), SL_OK);
        assert_true(result.found && watch.calls > 0);
        assert_int_equal(result.timed_out, late);
        if (late)
            assert_true(result.proven == (result.best.score.step_ns <= result.lower_bound));
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_plan),
                                       cmocka_unit_test(progress_and_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
