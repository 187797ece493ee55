/* The critical path of a measured timeline: actions begin a little after their cause, and the path
 * still has almost no gap. Measured timelines are simulated ones with every start a little late. */
#include "base/rng.h"
#include "report/critical.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LATE_NS = 29 };

static void delay_starts(struct sl_timeline *t, uint64_t seed) {
    uint64_t at = 0;
    t->measured = true;
    for (int l = 0; l < t->lane_count; l++)
        for (int64_t i = 0; i < t->lanes[l].count; i++) {
            struct sl_span *span = &t->lanes[l].at[i];
            bool message = span->action.kind == SL_SEND || span->action.kind == SL_RECV;
            int64_t late = 1 + sl_rng_below(seed, 0, at++, LATE_NS);
            if (!message && span->end_ns - span->start_ns > late)
                span->start_ns += late;
        }
}

static void check(const char *name, int stages, bool global_step, uint64_t seed) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    struct sl_critical path;
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(&arena, (int64_t)sizeof *dur * stages);
    struct sl_schedule_opts opts = {
        .schedule = name, .micros = 4, .iters = 20, .global_step = global_step};
    assert_int_equal(sl_plan_chain(&arena, stages, stages, SL_LAYOUT_LOOP, &plan), SL_OK);
    /* one slow stage: the others wait, but the path need not */
    assert_int_equal(sl_sim_costs(plan, "F=7001,I=7013,W=7019,B=14009,STEP=997,REDUCE=307", dur),
                     SL_OK);
    for (int k = 0; k < SL_KIND_COUNT; k++)
        dur[(int)seed % stages][k] *= 2;
    opts.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
    struct sl_sim_opts how = {.timeline = true};
    assert_int_equal(sl_sim_run(&arena, sched, &how, &sim), SL_OK);
    struct sl_timeline measured = *sim->timeline;
    delay_starts(&measured, seed);
    sl_report_timeline_critical(&arena, &measured, &path);
    if (path.gap_ns > path.count * LATE_NS)
        fail_msg("%s, %d stages, global step %d: the path waits %lld of %lld ns in %lld actions",
                 name, stages, global_step, (long long)path.gap_ns, (long long)measured.end_ns,
                 (long long)path.count);
    /* Reductions and steps are short, and there is one of each per iteration and stage on a path. */
    int64_t most = opts.iters * stages * 2 * (2 * 307 + 997 + LATE_NS);
    if (path.weight_ns > most)
        fail_msg("%s, %d stages, global step %d: the path reduces and steps %lld of %lld ns", name,
                 stages, global_step, (long long)path.weight_ns, (long long)measured.end_ns);
    sl_arena_free(&arena);
}

static void measured_paths_have_no_gap(void **state) {
    static const char *const names[] = {"1f1b", "2bw", "async", "stash", "vsync", "zb-h1"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++)
        for (int stages = 1; stages <= 4; stages++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                const struct sl_schedule *row = sl_schedules_row_find(names[i]);
                assert_non_null(row);
                check(names[i], stages, false, seed);
                if (row->rule != SL_RULE_SYNC)
                    check(names[i], stages, true, seed);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(measured_paths_have_no_gap)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
