/* Pictures: drawn spans are the simulated ones; a trace reads back as the same picture; bad traces
 * are refused. */
#include "report/picture.h"
#include "schedules/schedule.h"
#include "sim/sim.h"
#include "support/sched_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void draw(struct sl_arena *arena, const char *name, int p, int64_t m,
                 struct sl_picture *out) {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    const struct sl_schedule *row = sl_schedules_row_find(name);
    struct sl_schedule_opts opts = {.schedule = name, .micros = m};
    static const struct sl_sim_links links = {.latency_ns = 1};
    struct sl_sim_opts how = {.timeline = true, .net = sl_sim_uniform(&links)};
    assert_int_equal(sl_plan_chain(arena, row->layout_chunks ? 2 * p : p, p, row->layout, &plan),
                     SL_OK);
    assert_int_equal(sl_schedules_build(arena, plan, &opts, &sched), SL_OK);
    assert_int_equal(sl_sim_run(arena, sched, &how, &sim), SL_OK);
    sl_report_picture_build(arena, sim->timeline, name, "for a test", out);
    for (int w = 0; w < p; w++)
        assert_int_equal(sl_report_picture_busy(out, w), sim->workers[w].busy_ns);
    assert_int_equal(out->end_ns, sim->end_ns);
    assert_int_equal(out->arrow_count, sim->transfers);
}

static int64_t count_of(const char *text, const char *what) {
    int64_t count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

static void bars_and_messages(void **state) {
    static const char *const names[] = {"1f1b", "zb-v", "chimera", "gpipe"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_arena arena = {0};
        struct sl_picture p;
        struct sl_text text = {0};
        draw(&arena, names[i], 4, 8, &p);
        int64_t timed = 0;
        for (int64_t b = 0; b < p.lane_at[4]; b++)
            timed += p.bars[b].end_ns > p.bars[b].start_ns;
        assert_int_equal(timed, i == 1 ? 4 * 8 * 6 : 4 * 8 * 2);
        sl_report_svg(&p, 900, &text);
        assert_int_equal(count_of(text.at, "<g><rect"), timed);
        sl_text_free(&text);
        sl_report_trace(&p, &text);
        assert_int_equal(count_of(text.at, "\"ph\":\"s\"") + count_of(text.at, "\"ph\": \"s\""),
                         p.arrow_count);
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

static void grid(void **state) {
    static const char want[] = "0 |F0 F1 .  .  .  .  B0==* F2 B1=== .  .  .  B2==*\n"
                               "1 |.  .  F0 B0==* F1 B1=== .  .  F2 B2==* .  .  .\n"
                               "16 ns, a column is 1 ns; * critical path\n";
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text text = {0};
    (void)state;
    draw(&arena, "1f1b", 2, 3, &p);
    sl_report_grid(&p, &(struct sl_grid_opts){.columns = 80, .critical = true}, &text);
    assert_string_equal(text.at, want);
    sl_text_free(&text);
    sl_report_grid(&p, &(struct sl_grid_opts){.columns = 80, .colour = true}, &text);
    assert_non_null(strstr(text.at, "\033[0;38;5;234;48;5;75mF0 "));
    sl_text_free(&text);
    sl_report_grid(&p, &(struct sl_grid_opts){.columns = 30, .max_lanes = 1}, &text);
    assert_non_null(strstr(text.at, "... and 1 more workers"));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void same_picture(const struct sl_picture *a, const struct sl_picture *b) {
    assert_int_equal(a->lane_count, b->lane_count);
    assert_int_equal(a->end_ns, b->end_ns);
    assert_int_equal(a->arrow_count, b->arrow_count);
    assert_int_equal(a->transfer_ns, b->transfer_ns);
    assert_memory_equal(a->lane_at, b->lane_at, sizeof *a->lane_at * ((size_t)a->lane_count + 1));
    for (int64_t i = 0; i < a->lane_at[a->lane_count]; i++) {
        struct sl_bar x = a->bars[i], y = b->bars[i];
        assert_string_equal(a->stages[x.stage], b->stages[y.stage]);
        assert_true(x.start_ns == y.start_ns && x.end_ns == y.end_ns && x.bytes == y.bytes &&
                    x.micro == y.micro && x.version == y.version && x.kind == y.kind &&
                    x.critical == y.critical);
    }
    for (int64_t i = 0; i < a->arrow_count; i++) {
        struct sl_arrow x = a->arrows[i], y = b->arrows[i];
        assert_true(x.start_ns == y.start_ns && x.left_ns == y.left_ns && x.end_ns == y.end_ns &&
                    x.from == y.from && x.to == y.to && x.micro == y.micro && x.grad == y.grad &&
                    x.critical == y.critical);
    }
}

static void trace_reads_back(void **state) {
    static const char *const names[] = {"1f1b", "zb-v", "chimera", "2bw"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_arena arena = {0};
        struct sl_picture p, q;
        struct sl_text text = {0};
        draw(&arena, names[i], 4, 9 - i % 2, &p);
        sl_report_trace(&p, &text);
        if (sl_report_trace_read(&arena, "t", text.at, text.length, &q) != SL_OK)
            fail_msg("%s", sl_err_message());
        same_picture(&p, &q);
        for (size_t cut = 0; cut < text.length - 2; cut += text.length / 61 + 1) /* truncated */
            assert_int_equal(sl_report_trace_read(&arena, "t", text.at, cut, &q), SL_ERR_INPUT);
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

static void bad_traces(void **state) {
    static const char *const cases[] = {
        "",
        "[]",
        "{}",
        "{\"traceEvents\":[]}",
        "{\"traceEvents\":[1]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"F\",\"pid\":99999999,\"args\":{\"end_ns\":1}}]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"F\",\"pid\":0,\"args\":{\"start_ns\":2,"
        "\"end_ns\":1}}]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"SEND\",\"pid\":0,\"args\":{\"message\":5,"
        "\"peer\":1,\"end_ns\":1}}]}",
        "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"F\",\"pid\":0,\"args\":{\"start_ns\":0,\"end_"
        "ns\":"
        "9}},{\"ph\":\"X\",\"cat\":\"F\",\"pid\":0,\"args\":{\"start_ns\":5,\"end_ns\":9}}]}",
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        struct sl_picture p;
        assert_int_equal(sl_report_trace_read(&arena, "t", cases[i], strlen(cases[i]), &p),
                         SL_ERR_INPUT);
        sl_arena_free(&arena);
    }
}

static void page(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p[2];
    struct sl_text text = {0};
    (void)state;
    draw(&arena, "1f1b", 4, 8, &p[0]);
    draw(&arena, "zb-h1", 4, 8, &p[1]);
    p[0].title = "</script><b>";
    sl_report_html(p, 2, &text);
    assert_int_equal(count_of(text.at, "</script>"), 2); /* the page's own */
    assert_int_equal(count_of(text.at, "http://") - count_of(text.at, "http://www.w3.org"), 0);
    assert_int_equal(count_of(text.at, "https://"), 0);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_and_messages),
        cmocka_unit_test(grid),
        cmocka_unit_test(trace_reads_back),
        cmocka_unit_test(bad_traces),
        cmocka_unit_test(page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
