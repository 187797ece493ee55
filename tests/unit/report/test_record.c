/* Logs of runs: the reader gets what run/ writes; refused files; charts and the page of a run. */
#include "report/chart.h"
#include "report/curves.h"
#include "run/log.h"
#include "support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sl_err read_text(struct sl_arena *arena, const char *text, const struct sl_record **out) {
    return sl_report_record_read(arena, "t", text, strlen(text), out);
}

/* The writer of the runtime and this reader agree on every field. */
static void as_written(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_run_log log;
    const struct sl_record *r;
    char dir[] = "/tmp/sluice-record-XXXXXX", path[64], *text;
    size_t length;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(sl_run_log_open(&log, dir, 0), SL_OK);
    for (int i = 1; i <= 3; i++) {
        struct sl_step_report step = {.step = i,
                                      .loss = 1.5 * i,
                                      .norm = 0.25,
                                      .lr = 0.125,
                                      .samples = 7,
                                      .dur_ns = 3000000,
                                      .peak_share = NAN};
        struct sl_eval_report eval = {.step = i, .loss = i == 2 ? NAN : 0.75, .accuracy = 0.5};
        struct sl_staleness s = {.step = i,
                                 .stage = i,
                                 .base = i - 1,
                                 .ahead = 1,
                                 .backward = i == 2,
                                 .predicts = i == 2,
                                 .predicted = 0.0625,
                                 .stale = 0.5};
        assert_int_equal(sl_run_log_step(&log, &step), SL_OK);
        assert_int_equal(sl_run_log_eval(&log, &eval), SL_OK);
        assert_int_equal(sl_run_log_staleness(&log, &s), SL_OK);
    }
    sl_run_log_close(&log);
    snprintf(path, sizeof path, "%s/log.jsonl", dir);
    assert_int_equal(sl_file_read(path, 1 << 20, &text, &length), SL_OK);
    assert_int_equal(sl_report_record_read(&arena, path, text, length, &r), SL_OK);
    free(text);
    assert_int_equal(r->step_count, 3);
    assert_int_equal(r->eval_count, 3);
    assert_int_equal(r->stale_count, 3);
    assert_true(r->steps[2].step == 3 && r->steps[2].loss == 4.5 && r->steps[2].norm == 0.25 &&
                r->steps[2].lr == 0.125 && r->steps[2].ms == 3 && r->steps[2].samples == 7);
    assert_true(isnan(r->evals[1].loss) && r->evals[2].loss == 0.75 && r->evals[2].accuracy == 0.5);
    assert_true(r->stales[1].backward && r->stales[1].predicted == 0.0625 &&
                r->stales[1].stale == 0.5 && r->stales[1].stage == 2 && r->stales[1].ahead == 1 &&
                r->stales[1].base == 1 && r->stales[1].step == 2);
    assert_true(!r->stales[0].backward && isnan(r->stales[0].predicted));
    char command[96];
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
    sl_arena_free(&arena);
}

static void wrong_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{\"step\": 1, \"loss\": \"x\"}\n", "t:1:"},
        {"{\"step\": 1, \"loss\": 2}\n{\"step\": -1, \"loss\": 2}\n", "t:2:"},
        {"{\"step\": 1.5, \"eval_loss\": 2}\n", "'step' is not a whole number"},
        {"{\"eval_loss\": 2}\n", "'step' is not a whole number"},
        {"{\"step\": 1, \"rmse_stale\": 2}\n", "'base' is not a whole number"},
        {"{\"step\": 1, \"base\": 0, \"s\": 1, \"stage\": 70000, \"rmse_stale\": 2}\n", "'stage'"},
        {"[]\n", "expected an object"},
        {"{} {}\n", "t:1:"},
    };
    struct sl_arena arena = {0};
    const struct sl_record *r;
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (read_text(&arena, rows[i].text, &r) != SL_ERR_INPUT ||
            !strstr(sl_err_message(), rows[i].message))
            fail_msg("row %d: %s", i, sl_err_message());
    /* other lines, and an unfinished one */
    assert_int_equal(
        read_text(&arena, "{\"note\": [1, {}]}\n{\"step\": 4, \"loss\": 1}\n{\"ste", &r), SL_OK);
    assert_int_equal(r->step_count, 1);
    assert_int_equal(read_text(&arena, "", &r), SL_OK);
    assert_int_equal(r->step_count + r->eval_count + r->stale_count, 0);
    sl_arena_free(&arena);
}

/* One chart per stage and direction in the log; two curves if weights were predicted. */
static void page_of_run(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text log = {0}, out = {0};
    for (int step = 1; step <= 30; step++) {
        sl_text_printf(&log, "{\"step\": %d, \"loss\": %g, \"grad_norm\": 1, \"lr\": 0.1}\n", step,
                       3.0 / step);
        for (int stage = 0; stage < 3; stage++)
            sl_text_printf(
                &log,
                "{\"step\": %d, \"stage\": %d, \"pass\": \"%s\", \"base\": %d, \"s\": 1, "
                "%s\"rmse_stale\": 0.002}\n",
                step, stage, step % 2 ? "forward" : "backward", step - 1,
                stage ? "\"rmse_predicted\": 0.001, " : "");
    }
    struct sl_report_run page = {
        .title = "a<b", .facts = (const char *const[][2]){{"model", "<i>"}}, .fact_count = 1};
    assert_int_equal(sl_report_record_read(&arena, "t", log.at, log.length, &page.record), SL_OK);
    sl_report_run_page_put(&page, &out);
    assert_int_equal(times_in(out.at, "<figcaption>stage "), 6);
    assert_int_equal(times_in(out.at, "data-name=\"stale to true\""), 6);
    assert_int_equal(times_in(out.at, "data-name=\"predicted to true\""), 4);
    assert_int_equal(times_in(out.at, "<i>"), 0);
    assert_int_equal(times_in(out.at, "a<b"), 0);
    sl_text_free(&log);
    sl_text_free(&out);
    sl_arena_free(&arena);
}

/* Long curves are shortened and keep mean and extremes. */
static void thin(void **state) {
    (void)state;
    enum { N = 1000 };
    struct sl_chart_point at[N];
    double sum = 0;
    for (int i = 0; i < N; i++) {
        double y = i == 777 ? 1000 : i % 10;
        at[i] = (struct sl_chart_point){i, y, y, y};
    }
    assert_int_equal(sl_report_chart_thin(at, N, 2 * N), N);
    assert_int_equal(sl_report_chart_thin(at, N, 100), 100);
    for (int i = 0; i < 100; i++) {
        sum += at[i].y;
        assert_true(fabs(at[i].x - (10 * i + 4.5)) < 1e-9);
        assert_true(at[i].low == 0 && at[i].high == (i == 77 ? 1000 : 9));
    }
    assert_true(fabs(sum / 100 - 4.5 - (1000.0 - 7) / N) < 1e-9);
}

/* Any curve gives a chart with finite coordinates, in finite time. */
static void strange_values(void **state) {
    (void)state;
    static const double sets[][4] = {{NAN, NAN, NAN, NAN},
                                     {INFINITY, 1, -INFINITY, 2},
                                     {1e17, 1e17, 1e17 + 64, 1e17},
                                     {1e300, -1e300, 1, 2},
                                     {0, -1, -2, 0},
                                     {5, 5, 5, 5}};
    for (int i = 0; i < SL_COUNT(sets); i++)
        for (int log_y = 0; log_y < 2; log_y++) {
            struct sl_text out = {0};
            struct sl_chart_point at[4];
            for (int j = 0; j < 4; j++)
                at[j] = (struct sl_chart_point){j, sets[i][j], sets[i][j], sets[i][j] + 1};
            struct sl_chart_curve curve = {.name = "c", .at = at, .count = 4};
            struct sl_chart chart = {.title = "t",
                                     .x_label = "x",
                                     .y_label = "y",
                                     .curves = &curve,
                                     .curve_count = 1,
                                     .log_y = log_y};
            sl_report_chart_put(&chart, &out);
            if (strstr(out.at, "nan") || strstr(out.at, "inf"))
                fail_msg("set %d: %s", i, out.at);
            sl_text_free(&out);
        }
}

/* Labels of a logarithmic axis are round numbers, and every range has some. */
static void log_ticks(void **state) {
    (void)state;
    static const struct {
        double low, high;
        const char *has[3], *not ;
    } cases[] = {{6e-5, 2.8e-4, {">0.0001<", ">0.0002<", ">0.0002<"}, ">0.0001585<"},
                 {3e-4, 4e-3, {">0.0005<", ">0.001<", ">0.002<"}, ">0.0003162<"},
                 {1e-14, 1e-9, {">1e-14<", ">1e-12<", ">1e-10<"}, ">2e-14<"},
                 {1e-60, 1, {">1e-34<", ">1e-17<", ">1<"}, ">2<"},
                 {0.98, 1.01, {">0.98<", ">0.99<", ">1<"}, ">2<"}};
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_text out = {0};
        struct sl_chart_point at[] = {{0, cases[i].low, cases[i].low, cases[i].low},
                                      {1, cases[i].high, cases[i].high, cases[i].high}};
        struct sl_chart_curve curve = {.name = "c", .at = at, .count = 2};
        struct sl_chart chart = {.title = "t",
                                 .x_label = "x",
                                 .y_label = "y",
                                 .curves = &curve,
                                 .curve_count = 1,
                                 .log_y = true,
                                 .small = true};
        sl_report_chart_put(&chart, &out);
        for (int j = 0; j < 3; j++)
            if (!strstr(out.at, cases[i].has[j]))
                fail_msg("no %s in %s", cases[i].has[j], out.at);
        if (strstr(out.at, cases[i].not ))
            fail_msg("%s in %s", cases[i].not, out.at);
        sl_text_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written),     cmocka_unit_test(wrong_files),
        cmocka_unit_test(page_of_run),    cmocka_unit_test(thin),
        cmocka_unit_test(strange_values), cmocka_unit_test(log_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
