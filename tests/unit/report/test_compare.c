/* Two timelines on one page: names of files tell them apart, and both show as many steps. */
#include "report/compare.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void draw(struct sl_arena *arena, const char *name, int64_t iters, struct sl_picture *out) {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    struct sl_schedule_opts opts = {.schedule = name, .micros = 4, .iters = iters};
    static const struct sl_sim_links links = {.latency_ns = 3};
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * 3);
    assert_int_equal(sl_plan_chain(arena, 3, 3, SL_LAYOUT_LOOP, &plan), SL_OK);
    assert_int_equal(sl_sim_costs(plan, "F=101,I=103,W=107,B=211,STEP=17", dur), SL_OK);
    opts.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    assert_int_equal(sl_schedules_build(arena, plan, &opts, &sched), SL_OK);
    struct sl_sim_opts how = {.timeline = true, .net = sl_sim_uniform(&links)};
    assert_int_equal(sl_sim_run(arena, sched, &how, &sim), SL_OK);
    sl_report_picture_build(arena, sim->timeline, name, "for a test", out);
}

static void files_with_one_title(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p[2];
    (void)state;
    draw(&arena, "1f1b", 1, &p[0]);
    draw(&arena, "1f1b", 1, &p[1]);
    sl_report_name_files(&arena, p, (const char *const[]){"a/x.csv", "a/y.csv"}, 2);
    assert_string_equal(p[0].title, "x.csv");
    assert_string_equal(p[1].title, "y.csv");
    assert_string_equal(p[0].detail, "1f1b: for a test");
    draw(&arena, "1f1b", 1, &p[0]);
    draw(&arena, "1f1b", 1, &p[1]);
    sl_report_name_files(&arena, p, (const char *const[]){"a/x.csv", "b/x.csv"}, 2);
    assert_string_equal(p[0].title, "a/x.csv");
    assert_string_equal(p[1].title, "b/x.csv");
    sl_arena_free(&arena);
}

static void check_window(const struct sl_picture *p) {
    int64_t path = p->pass_ns + p->weight_ns + p->transfer_ns + p->gap_ns;
    assert_int_equal(path, p->end_ns);
    assert_true(p->gap_ns >= 0);
    for (int l = 0; l < p->lane_count; l++) {
        int64_t until = 0;
        for (int64_t i = p->lane_at[l]; i < p->lane_at[l + 1]; i++) {
            assert_true(p->bars[i].start_ns >= until && p->bars[i].end_ns <= p->end_ns);
            until = p->bars[i].end_ns;
        }
    }
    for (int64_t i = 0; i < p->arrow_count; i++)
        assert_true(p->arrows[i].start_ns >= 0 && p->arrows[i].end_ns <= p->end_ns &&
                    p->arrows[i].left_ns <= p->arrows[i].end_ns);
}

/* A flushing schedule repeats: the middle step of three is the only step of one. */
static void as_many_steps(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p[2], one;
    (void)state;
    draw(&arena, "1f1b", 1, &one);
    draw(&arena, "1f1b", 3, &p[0]);
    draw(&arena, "1f1b", 1, &p[1]);
    assert_int_equal(sl_report_picture_steps(&p[0]), 3);
    sl_report_align_steps(&arena, p);
    assert_int_equal(sl_report_picture_steps(&p[0]), 1);
    assert_string_equal(p[0].detail, "for a test, step 2 of 3");
    assert_string_equal(p[1].detail, "for a test");
    assert_int_equal(p[0].end_ns, one.end_ns);
    assert_int_equal(p[0].pass_ns, one.pass_ns);
    assert_int_equal(p[0].weight_ns, one.weight_ns);
    assert_int_equal(p[0].transfer_ns, one.transfer_ns);
    for (int l = 0; l < one.lane_count; l++)
        assert_int_equal(sl_report_picture_busy(&p[0], l), sl_report_picture_busy(&one, l));
    check_window(&p[0]);
    sl_arena_free(&arena);
}

/* Four steps of one schedule against twenty without a flush: both show four. */
static void steady_steps(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p[2];
    (void)state;
    draw(&arena, "1f1b", 4, &p[0]);
    draw(&arena, "2bw", 20, &p[1]);
    int64_t whole = p[1].end_ns;
    sl_report_align_steps(&arena, p);
    assert_int_equal(sl_report_picture_steps(&p[0]), 4);
    assert_int_equal(sl_report_picture_steps(&p[1]), 4);
    assert_string_equal(p[1].detail, "for a test, steps 9 to 12 of 20");
    assert_true(p[1].end_ns * 4 < whole);
    assert_true(p[1].end_ns < p[0].end_ns); /* no flush */
    check_window(&p[0]);
    check_window(&p[1]);
    sl_arena_free(&arena);
}

static void without_steps(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p[2];
    (void)state;
    draw(&arena, "forward", 1, &p[0]);
    draw(&arena, "1f1b", 2, &p[1]);
    int64_t end = p[1].end_ns;
    sl_report_align_steps(&arena, p);
    assert_int_equal(p[1].end_ns, end);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_with_one_title),
        cmocka_unit_test(as_many_steps),
        cmocka_unit_test(steady_steps),
        cmocka_unit_test(without_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
