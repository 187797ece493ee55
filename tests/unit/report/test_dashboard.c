/* The dashboard of a run: its content; it stays within its lines and columns; its memory of losses
 * is bounded. */
#include "report/dashboard.h"
#include "sched/sched.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct sl_dashboard sample(void) {
    struct sl_dashboard d = {.title = "gpt-nano, 1f1b on 2 workers",
                             .step = 3,
                             .steps = 12,
                             .loss = 2.5,
                             .eval_loss = NAN,
                             .norm = 0.75,
                             .lr = 0.001,
                             .rate = 1234,
                             .item = "tokens",
                             .bubble = 0.125,
                             .bytes = 3 << 20,
                             .left_ns = 2000000000};
    return d;
}

/* Length of the longest line in characters, and the number of lines. A Braille character has three
 * bytes, a colour has no width. */
static void measure(const char *text, int *columns, int *rows) {
    int now = 0;
    *columns = *rows = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '\033') {
            at += strcspn(at, "m");
            continue;
        }
        if (*at == '\n') {
            *columns = now > *columns ? now : *columns;
            now = 0;
            ++*rows;
        } else if (((unsigned char)*at & 0xc0) != 0x80) {
            now++;
        }
    }
    assert_int_equal(now, 0); /* the last line ends with a newline */
}

static void test_ascii(void **state) {
    struct sl_dashboard d = sample();
    struct sl_dashboard_room room = {.columns = 51, .rows = 20};
    struct sl_text out = {0};
    (void)state;
    sl_report_dashboard_add(&d, 9);
    sl_report_dashboard_add(&d, 5.5);
    sl_report_dashboard_add(&d, NAN);
    sl_report_dashboard_add(&d, 2);
    sl_report_dashboard_put(&d, NULL, &room, &out);
    assert_memory_equal(out.at, "gpt-nano, 1f1b on 2 workers  step 3/12   25 %  left", 51);
    assert_non_null(strstr(out.at, "\nloss 2.5000  1.23k tokens/s  bubble 12.5 %"));
    /* 9, 5.5 and 2 are a straight line from the upper left to the lower right */
    assert_non_null(strstr(out.at, "   9.0000 |*"));
    assert_non_null(strstr(out.at, "   6.0000 |"));
    assert_string_equal(strrchr(out.at, '|') + 1, "                                     ***\n");
    sl_text_free(&out);
}

static void test_room(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    struct sl_picture lanes;
    int tried = 0;
    (void)state;
    assert_int_equal(sl_plan_chain(&arena, 17, 17, SL_LAYOUT_LOOP, &plan), SL_OK);
    struct sl_schedule_opts opts = {.schedule = "1f1b", .micros = 5};
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
    assert_int_equal(sl_sim_run(&arena, sched, &(struct sl_sim_opts){.timeline = true}, &sim),
                     SL_OK);
    sl_report_picture_build(&arena, sim->timeline, "", "", &lanes);
    struct sl_dashboard d = sample();
    for (int i = 0; i < 5000; i++)
        sl_report_dashboard_add(&d, 3 + sin(i * 0.01));
    for (int columns = 20; columns <= 230; columns += 7)
        for (int rows = 2; rows <= 50; rows += 3)
            for (int way = 0; way < 4; way++) {
                struct sl_dashboard_room room = {columns, rows, way & 1, way & 2};
                struct sl_text out = {0};
                int wide, high;
                sl_report_dashboard_put(&d, &lanes, &room, &out);
                measure(out.at, &wide, &high);
                assert_true(wide <= columns);
                assert_true(high <= rows);
                assert_int_equal(strchr(out.at, '\033') != NULL && columns >= 40 && rows >= 10,
                                 room.colour && columns >= 40 && rows >= 10);
                sl_text_free(&out);
                tried++;
            }
    sl_arena_free(&arena);
    print_message("count: %d rooms\n", tried);
}

/* However long the run: at most KEPT means, each over `per` steps, and no step is missing. */
static void test_memory(void **state) {
    struct sl_dashboard d = sample();
    double sum = 0, kept = 0;
    (void)state;
    for (int i = 0; i < 10 * SL_DASHBOARD_KEPT; i++) {
        sl_report_dashboard_add(&d, i);
        sum += i;
    }
    assert_true(d.kept <= SL_DASHBOARD_KEPT);
    for (int i = 0; i < d.kept; i++)
        kept += d.losses[i] * (double)d.per;
    assert_true(fabs(kept + d.sum - sum) < 1e-6 * sum);
    assert_int_equal(d.kept * d.per + d.in_sum, 10 * SL_DASHBOARD_KEPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ascii),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
