/* Traces of PyTorch's profiler: names of actions, kernels on streams, ranks on lanes; the critical
 * path of a made-up pipeline is the one it was made with; what is no trace is refused. */
#include "report/kineto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sl_report_kineto_text text_of(const char *text) {
    return (struct sl_report_kineto_text){"rank.json", text, strlen(text)};
}

static void put(struct sl_text *out, const char *name, int64_t start_us, int64_t us) {
    sl_text_printf(
        out,
        "%s{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"%s\",\"pid\":7,\"tid\":7,"
        "\"ts\":%lld.250,\"dur\":%lld,\"args\":{\"External id\":1}}",
        out->length && out->at[out->length - 1] == '}' ? "," : "", name, (long long)start_us,
        (long long)us);
}

static void put_head(struct sl_text *out, int rank) {
    sl_text_printf(out,
                   "{\"schemaVersion\":1,\"distributedInfo\":{\"backend\":\"gloo\",\"rank\":%d,"
                   "\"pg_config\":[{\"ranks\":[0,1]}]},\"baseTimeNanoseconds\":1000000000,"
                   "\"traceEvents\":[",
                   rank);
}

/* Two stages, F takes 100 us and B 200 us, a message 1 ms, two micro-batches:
 *     rank 0  F0 F1                 B0         B1
 *     rank 1         F0 B0    F1 B1                                                       */
static void two_ranks(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text a = {0}, b = {0};
    (void)state;
    put_head(&a, 0);
    put(&a, "PP:0UNSHARD", 900, 10);
    put(&a, "PP:0F0", 1000, 100);
    put(&a, "PP:0SEND_F0", 1100, 5);
    put(&a, "PP:0F1", 1110, 100);
    put(&a, "PP:0B0", 1300, 2300); /* waits until 3400 for the gradient */
    put(&a, "PP:0B1", 4710, 200);
    sl_text_put(&a, "]}");
    put_head(&b, 1);
    put(&b, "PP:1F0", 2100, 100);
    put(&b, "PP:1B0", 2200, 1200);
    put(&b, "PP:1F1", 3405, 100);
    put(&b, "PP:1B1", 3510, 200);
    sl_text_put(&b, "]}");
    /* rank 1 first: ranks are known from the traces */
    struct sl_report_kineto_text texts[] = {text_of(b.at), text_of(a.at)};
    assert_int_equal(sl_report_kineto_read(&arena, texts, 2, &p), SL_OK);
    assert_int_equal(p.lane_count, 2);
    assert_int_equal(p.stage_count, 2);
    assert_string_equal(p.stages[0], "s0");
    assert_int_equal(p.lane_at[1], 4);
    assert_int_equal(p.lane_at[2], 8);
    assert_int_equal(p.bars[0].start_ns, 0);
    assert_int_equal(p.bars[2].kind, SL_BACKWARD);
    assert_int_equal(p.bars[2].micro, 0);
    assert_int_equal(p.bars[2].start_ns, 2400000); /* its wait is cut off */
    assert_int_equal(p.end_ns, 3910000);
    assert_int_equal(p.arrow_count, 4);
    /* back from B1 of rank 0: a message of 1 ms, B1, F1, B0, F0 of rank 1, a message, F0 */
    assert_true(p.bars[3].critical && !p.bars[2].critical && !p.bars[1].critical);
    assert_true(p.bars[0].critical && p.bars[4].critical && p.bars[7].critical);
    assert_int_equal(p.transfer_ns, 1000000 + 1000000);
    assert_int_equal(p.pass_ns, 100000 + 100000 + 1200000 + 100000 + 200000 + 200000);
    assert_int_equal(p.gap_ns, 5000 + 5000);
    sl_text_free(&a);
    sl_text_free(&b);
    sl_arena_free(&arena);
}

/* Kernels belong to the range in which they were launched; a stream is a lane. */
static void kernels_on_streams(void **state) {
    static const char text[] =
        "{\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":500,\"dur\":90,"
        "\"args\":{\"correlation\":11,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":600,\"dur\":50,"
        "\"args\":{\"correlation\":12,\"stream\":7}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"c\",\"pid\":0,\"tid\":9,\"ts\":620,\"dur\":80,"
        "\"args\":{\"correlation\":13,\"stream\":9}},"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"lost\",\"pid\":0,\"tid\":9,\"ts\":900,\"dur\":"
        "9,"
        "\"args\":{\"correlation\":99,\"stream\":9}},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"attn(F)\",\"ts\":10,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"mlp(B)\",\"ts\":40,\"dur\":20},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"ts\":12,\"dur\":1,"
        "\"args\":{\"correlation\":11}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"ts\":14,\"dur\":1,"
        "\"args\":{\"correlation\":12}},"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"ts\":45,\"dur\":1,"
        "\"args\":{\"correlation\":13}}]}";
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_report_kineto_text one = text_of(text);
    (void)state;
    assert_int_equal(sl_report_kineto_read(&arena, &one, 1, &p), SL_OK);
    assert_int_equal(p.lane_count, 2);
    assert_int_equal(p.lane_at[2], 2);
    assert_int_equal(p.bars[0].kind, SL_FORWARD);
    assert_string_equal(p.stages[p.bars[0].stage], "attn");
    assert_int_equal(p.bars[0].start_ns, 0); /* both kernels are one bar */
    assert_int_equal(p.bars[0].end_ns, 150000);
    assert_int_equal(p.bars[1].kind, SL_BACKWARD);
    assert_int_equal(p.bars[1].start_ns, 120000);
    assert_int_equal(p.end_ns, 200000);
    sl_arena_free(&arena);
}

static void names(void **state) {
    static const struct {
        const char *name;
        int kind; /* -1: no action */
    } cases[] = {{"PP:3F12", SL_FORWARD},
                 {"PP:3I12", SL_BACKWARD_INPUT},
                 {"PP:3W12", SL_BACKWARD_WEIGHT},
                 {"PP:(0F1;3B0)OVERLAP_F_B", SL_FORWARD},
                 {"Forward 3", SL_FORWARD},
                 {"Backward 3", SL_BACKWARD},
                 {"Optimizer.step#SGD.step", SL_STEP},
                 {"mlp(W)", SL_BACKWARD_WEIGHT},
                 {"PP:3SEND_F12", -1},
                 {"PP:3F", -1},
                 {"PP:F1", -1},
                 {"PP:99999999999F1", -1},
                 {"Forward", -1},
                 {"Forward x", -1},
                 {"f(X)", -1},
                 {"(F)", -1},
                 {"ProfilerStep#1", -1}};
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        struct sl_picture p;
        struct sl_text text = {0};
        sl_text_put(&text, "[");
        put(&text, cases[i].name, 10, 20);
        sl_text_put(&text, "]");
        struct sl_report_kineto_text one = text_of(text.at);
        sl_err err = sl_report_kineto_read(&arena, &one, 1, &p);
        if ((err == SL_OK) != (cases[i].kind >= 0) ||
            (err == SL_OK && p.bars[0].kind != cases[i].kind))
            fail_msg("%s: %s", cases[i].name, err == SL_OK ? "an action" : sl_err_message());
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

/* DualPipeV: two passes in one range. */
static void overlapped(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text text = {0};
    (void)state;
    sl_text_put(&text, "[");
    put(&text, "PP:(0F1;3B0)OVERLAP_F_B", 10, 30);
    sl_text_put(&text, ",");
    put(&text, "PP:(3I0;0W0)OVERLAP_F_B", 50, 30);
    sl_text_put(&text, "]");
    struct sl_report_kineto_text one = text_of(text.at);
    assert_int_equal(sl_report_kineto_read(&arena, &one, 1, &p), SL_OK);
    static const struct {
        int kind, micro;
        int64_t start_us, end_us;
    } want[] = {{SL_FORWARD, 1, 0, 10},
                {SL_BACKWARD, 0, 10, 30},
                {SL_BACKWARD_INPUT, 0, 40, 55},
                {SL_BACKWARD_WEIGHT, 0, 55, 70}};
    assert_int_equal(p.lane_at[1], SL_COUNT(want));
    for (int i = 0; i < SL_COUNT(want); i++) {
        assert_int_equal(p.bars[i].kind, want[i].kind);
        assert_int_equal(p.bars[i].micro, want[i].micro);
        assert_int_equal(p.bars[i].start_ns, 1000 * want[i].start_us);
        assert_int_equal(p.bars[i].end_ns, 1000 * want[i].end_us);
    }
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* Kernels of two ranges of one name are two bars, also if only kernels of other streams ran between
 * them. */
static void kernels_of_two_ranges(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text text = {0};
    (void)state;
    sl_text_put(&text, "[");
    for (int i = 0; i < 2; i++) {
        put(&text, "attn(W)", 100 * i, 50);
        sl_text_printf(&text,
                       ",{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"l\",\"ts\":%d,"
                       "\"dur\":1,\"args\":{\"correlation\":%d}},{\"ph\":\"X\",\"cat\":"
                       "\"kernel\",\"name\":\"k\",\"ts\":%d,\"dur\":9,\"args\":{"
                       "\"correlation\":%d,\"stream\":7}}%s",
                       100 * i + 2, i, 1000 + 500 * i, i, i ? "]" : ",");
    }
    struct sl_report_kineto_text one = text_of(text.at);
    assert_int_equal(sl_report_kineto_read(&arena, &one, 1, &p), SL_OK);
    assert_int_equal(p.lane_at[1], 2);
    assert_int_equal(p.bars[0].end_ns, 9000);
    assert_int_equal(p.bars[1].start_ns, 500000);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* The clock of rank 0 is ahead: its F1 seems to end after the F1 of rank 1, which needs it. No pass is
 * lost, and its message stays. */
static void clocks_differ(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text a = {0}, b = {0};
    (void)state;
    put_head(&a, 0);
    put(&a, "Forward 0", 1000, 100);
    put(&a, "Forward 1", 1200, 900);
    sl_text_put(&a, "]}");
    put_head(&b, 1);
    put(&b, "Forward 0", 1100, 80);
    put(&b, "Forward 1", 1300, 700);
    sl_text_put(&b, "]}");
    struct sl_report_kineto_text texts[] = {text_of(a.at), text_of(b.at)};
    assert_int_equal(sl_report_kineto_read(&arena, texts, 2, &p), SL_OK);
    assert_int_equal(p.lane_at[2], 4);
    assert_int_equal(p.bars[3].start_ns, 920000);
    assert_int_equal(p.bars[3].end_ns, 1000000);
    assert_int_equal(p.arrow_count, 2);
    sl_text_free(&a);
    sl_text_free(&b);
    sl_arena_free(&arena);
}

static void exponents(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_report_kineto_text one =
        text_of("[{\"ph\":\"X\",\"name\":\"PP:0F0\",\"ts\":1e2,\"dur\":3E3}]");
    (void)state;
    assert_int_equal(sl_report_kineto_read(&arena, &one, 1, &p), SL_OK);
    assert_int_equal(p.bars[0].end_ns, 3000000);
    sl_arena_free(&arena);
}

static void one_rank_twice(void **state) {
    struct sl_arena arena = {0};
    struct sl_picture p;
    struct sl_text text = {0};
    (void)state;
    put_head(&text, 3);
    put(&text, "PP:0F0", 0, 1);
    sl_text_put(&text, "]}");
    struct sl_report_kineto_text texts[] = {text_of(text.at), text_of(text.at)};
    assert_int_equal(sl_report_kineto_read(&arena, texts, 2, &p), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "rank 3 was already read from rank.json"));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void refuses(void **state) {
    static const char *const bad[] = {"",
                                      "{}",
                                      "[1]",
                                      "{\"traceEvents\":{}}",
                                      "{\"traceEvents\":[",
                                      "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1e300}]}",
                                      "{\"traceEvents\":[{\"ph\":\"X\",\"ts\":-5}]}",
                                      "{\"traceEvents\":[]}",
                                      "\"x\""};
    (void)state;
    for (int i = 0; i < SL_COUNT(bad); i++) {
        struct sl_arena arena = {0};
        struct sl_picture p;
        struct sl_report_kineto_text one = text_of(bad[i]);
        assert_int_equal(sl_report_kineto_read(&arena, &one, 1, &p), SL_ERR_INPUT);
        assert_non_null(strstr(sl_err_message(), "rank.json"));
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks),
        cmocka_unit_test(kernels_on_streams),
        cmocka_unit_test(kernels_of_two_ranges),
        cmocka_unit_test(clocks_differ),
        cmocka_unit_test(exponents),
        cmocka_unit_test(one_rank_twice),
        cmocka_unit_test(names),
        cmocka_unit_test(overlapped),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
