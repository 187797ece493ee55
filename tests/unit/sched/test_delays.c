/* The delays of schedules against the formulas of the papers: published ones without a global step,
 * larger ones with it, except in 2bw. */
#include "sched/lag.h"
#include "schedules/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

enum { STAGES = 8, ITERS = 40 };

static void delays_of(const char *schedule, int stages, int64_t micros, bool global_step,
                      double *out) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    struct sl_schedule_opts opts = {
        .schedule = schedule, .micros = micros, .iters = ITERS, .global_step = global_step};
    assert_int_equal(sl_plan_chain(&arena, stages, stages, SL_LAYOUT_LOOP, &plan), SL_OK);
    if (sl_schedules_build(&arena, plan, &opts, &sched) != SL_OK)
        fail_msg("%s: %s", schedule, sl_err_message());
    sl_sched_delays(sched, out);
    sl_arena_free(&arena);
}

/* On average over the micro-batches of a step a stage of height h is h/m steps behind; 2bw is one
 * step behind on every stage, vsync as far as the entry. */
static double published(const char *schedule, int stages, int stage, int64_t micros) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    int edges = row->rule == SL_RULE_VSYNC ? stages - 1 : stages - 1 - stage;
    return row->rule == SL_RULE_SYNC  ? 0
           : row->rule == SL_RULE_2BW ? 1
                                      : (double)edges / (double)micros;
}

static void test_published(void **state) {
    (void)state;
    static const char *const names[] = {"1f1b", "gpipe", "2bw", "stash", "vsync", "async", "paci"};
    for (int n = 0; n < SL_COUNT(names); n++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int64_t m = 1; m <= 9; m++) {
                double own[STAGES], global[STAGES];
                const struct sl_schedule *row = sl_schedules_row_find(names[n]);
                if (row->rule == SL_RULE_2BW && m < stages - 1) /* it has fewer in flight */
                    continue;
                delays_of(names[n], stages, m, false, own);
                delays_of(names[n], stages, m, true, global);
                for (int s = 0; s < stages; s++) {
                    double want = published(names[n], stages, s, m);
                    if (fabs(own[s] - want) > 1e-9)
                        fail_msg("%s, %d stages, m = %lld: stage %d is %g steps behind, not %g",
                                 names[n], stages, (long long)m, s, own[s], want);
                    bool same = fabs(global[s] - want) < 1e-9,
                         free = sl_schedules_row_is_global(row);
                    if (free != same || global[s] < want - 1e-9)
                        fail_msg("%s, %d stages, m = %lld: stage %d is %g steps behind with a "
                                 "global step, published %g",
                                 names[n], stages, (long long)m, s, global[s], want);
                }
            }
}

/* The numbers that a run of SpecTrain on four stages prints. */
static void test_spectrain(void **state) {
    (void)state;
    static const double with[] = {4, 4, 3, 3}, without[] = {3, 2, 1, 0};
    double delays[STAGES];
    delays_of("async", 4, 1, true, delays);
    for (int s = 0; s < 4; s++)
        assert_true(delays[s] == with[s]);
    delays_of("async", 4, 1, false, delays);
    for (int s = 0; s < 4; s++)
        assert_true(delays[s] == without[s]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published),
                                       cmocka_unit_test(test_spectrain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
