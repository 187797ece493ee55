/* Planner 2bw obeys the paper's rule; a search that ran out of budget does not claim to be done. */
#include "support/problem_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static struct sl_search_result plan(struct sl_arena *arena, const struct sl_problem *p,
                                    const char *name, const char *schedule, int effort) {
    const struct sl_planner *planner;
    struct sl_search_result result = {0};
    struct sl_search_query query = {
        .problem = p, .schedule = schedule, .threads = 1, .effort = effort};
    assert_int_equal(sl_planners_find(name, &planner), SL_OK);
    assert_int_equal(planner->run(arena, &query, &result), SL_OK);
    return result;
}

/* Equal widths, one recomputation rule, at least as many micro-batches per pipeline as stages. */
static void check_rule(const struct sl_problem *p, const struct sl_candidate *c) {
    int64_t micros = (p->batch + p->sizes[c->size] - 1) / p->sizes[c->size];
    for (int s = 0; s < c->stage_count; s++) {
        assert_int_equal(c->width[s], c->width[0]);
        assert_int_equal(c->recompute[s], c->recompute[0]);
    }
    assert_true(micros / c->width[0] >= c->stage_count);
}

static void obeys_the_rule(void **state) {
    (void)state;
    static const char *const schedules[] = {"2bw", "1f1b", "gpipe"};
    int64_t count = test_count(2000), fitting = 0, deep = 0, tight = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {51, (uint64_t)i, 0};
        struct problem_size max = {12, 6, .mixed = i % 4 == 0, .sized = i % 3 == 0};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        struct sl_search_result r = plan(&arena, p, "2bw", schedules[i % 3], 0);
        if (r.found) {
            check_rule(p, &r.best.c);
            fitting++;
            deep += r.best.c.stage_count > 1;
            tight += p->batch / p->sizes[0] < p->machine->device_count;
        }
        for (int k = 0; k < r.runner_count; k++)
            check_rule(p, &r.runner[k].c);
        sl_arena_free(&arena);
    }
    printf("count: %lld plans of 2bw obey m >= d, %lld of several stages, %lld with fewer "
           "micro-batches than devices\n",
           (long long)fitting, (long long)deep, (long long)tight);
    assert_true(fitting > count / 2 && deep > count / 20 && tight > count / 20);
}

/* With any effort: a result that is not the optimum says that the budget ended, and the other way
 * round: what says it is proven is the optimum. */
static void says_when_it_gave_up(void **state) {
    (void)state;
    static const int efforts[] = {1, 4, 16, 64};
    int64_t count = test_count(2000), missed = 0, ended = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {53, (uint64_t)i, 0};
        const struct sl_problem *p =
            problem_draw(&arena, &dice, (struct problem_size){.units = 6, .devices = 4});
        const char *schedule = i % 2 ? "1f1b" : "2bw";
        struct sl_search_result brute = plan(&arena, p, "brute", schedule, 0);
        struct sl_search_result ours = plan(&arena, p, "sluice", schedule, efforts[i % 4]);
        bool best = brute.found == ours.found &&
                    (!brute.found || ours.best.score.step_ns == brute.best.score.step_ns);
        assert_false(brute.found && !ours.found && !ours.out_of_budget);
        if (!best)
            assert_true(ours.out_of_budget && !ours.proven);
        assert_false(ours.proven && ours.out_of_budget);
        missed += !best;
        ended += ours.out_of_budget;
        sl_arena_free(&arena);
    }
    printf("count: %lld searches with little effort, %lld stopped, %lld of them not optimal\n",
           (long long)count, (long long)ended, (long long)missed);
    assert_true(ended < count && (missed > 0 || count < 2000));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(obeys_the_rule),
                                       cmocka_unit_test(says_when_it_gave_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
