/* Files of Sailor: times and bytes by hand, and broken files. */
#include "fuzz/sailor_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static size_t read_seed(const char *name, char **text) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/sailor/%s", SL_TEST_SRC_DIR, name);
    assert_int_equal(sl_file_read(path, 1 << 20, text, &length), SL_OK);
    return length;
}

static sl_err forecast(const char *text, size_t length, struct sl_arena *arena,
                       struct sl_sailor_forecast *out) {
    struct sl_sailor s = {0};
    sl_err err = sailor_add_all(&s, arena, text, length);
    if (err == SL_OK)
        err = sl_interop_sailor_forecast(&s, arena, NULL, out);
    sl_interop_sailor_free(&s);
    return err;
}

/* Forward of layer 1 takes 10 ms for one sample and 8 ms for two: the smaller one counts. An
 * activation of 2 MB takes 1 ms at 2 GB/s. The first stage of two counts one transfer, the last two. */
static void test_two_stages(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_sailor_forecast f;
    char *text;
    size_t length = read_seed("two-stages.txt", &text);
    assert_int_equal(forecast(text, length, &arena, &f), SL_OK);
    const struct sl_stage *a = &f.plan->stages[0], *b = &f.plan->stages[1];
    assert_int_equal(f.micros, 6);
    assert_int_equal(f.plan->batch, 12);
    assert_int_equal(a->times.f + a->times.b, 1000000 + 2000000 + 8000000 + 20000000 + 1000000);
    assert_int_equal(b->times.f + b->times.b, 11000000 + 21000000 + 2000000);
    assert_int_equal(b->times.step, 700000);
    /* 2 (n-1) / n of 3000 floats at 2 GB/s */
    assert_int_equal(b->times.reduce, 6000);
    assert_int_equal(a->bytes.params + a->bytes.grads + a->bytes.state, 3000 * 24);
    assert_int_equal(a->bytes.stash, 4000);
    assert_int_equal(a->bytes.work, 2800 + 2000000000);
    assert_int_equal(f.plan->edges[0].sample_bytes, 2000000);
    assert_int_equal(f.cost_count, 1);
    assert_int_equal(f.costs[0]->row_count, 6);
    free(text);
    sl_arena_free(&arena);
}

/* Two kinds of GPU: the slower replica sets the pass, the slower direction the network. */
static void test_zones(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_sailor_forecast f;
    char *text;
    size_t length = read_seed("zones.txt", &text);
    assert_int_equal(forecast(text, length, &arena, &f), SL_OK);
    assert_int_equal(f.micros, 3);
    assert_int_equal(f.plan->stages[0].times.f, 3000000000);
    assert_int_equal(f.plan->stages[0].times.b, 1000000000);
    assert_int_equal(f.plan->stages[0].times.step, 500000000);
    assert_int_equal(f.plan->stages[0].times.reduce, 1000000000); /* 1 GB at 1 GB/s */
    assert_int_equal(f.cost_count, 2);
    free(text);
    sl_arena_free(&arena);
}

/* The polynomial of log2(MB), within the measured limit, and never zero. */
static void test_bandwidth(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_sailor s = {0};
    const char *const gpus[] = {"G"};
    const struct sl_sailor_replica r = {.gpus = gpus, .gpu_count = 1, .tensor = 1};
    const char *text = "{\"inter\": {\"G\": {\"1\": [[-1, 4, 1], 4.5e9], \"4\": [[9], 9e9]}}}";
    assert_int_equal(sl_interop_sailor_add(&s, &arena, "n.json", text, strlen(text)), SL_OK);
    const struct {
        int senders;
        double bytes, rate;
    } cases[] = {{1, 1e6, 1e9}, {1, 2e6, 4e9}, {1, 4e6, 4.5e9}, {1, 1e3, 4.5e6},
                 {3, 1e6, 1e9}, {4, 1e6, 9e9}, {8, 1e6, 9e9}};
    for (int i = 0; i < SL_COUNT(cases); i++)
        assert_float_equal(
            sl_interop_sailor_bandwidth(&s, &r, &r, cases[i].senders, cases[i].bytes),
            cases[i].rate, 1);
    sl_interop_sailor_free(&s);
    sl_arena_free(&arena);
}

/* Replaces `old` by `new`; the message must hold `reason`. */
static const struct {
    const char *seed, *old, *new, *reason;
} broken[] = {
    {"two-stages.txt", "0.0005]", "-1]", "not negative"},
    {"two-stages.txt", "0.0005]", "1e99]", "not negative"},
    {"two-stages.txt", "0.0005]", "\"x\"]", "not negative"},
    {"two-stages.txt", ", 0.0005]", "]", "[forward, backward, update]"},
    {"two-stages.txt", "\"2\": {\"1\"", "\"2\": {\"0\"", "integer in 1..1024"},
    {"two-stages.txt", "{\"1\": {\"1\": {\"0\"", "{\"x\": {\"1\": {\"0\"", "integer in 1.."},
    {"two-stages.txt", "\"act_mem_floats\": 300", "\"x\": 300", "needs act_mem_floats"},
    {"two-stages.txt", "[[0, 0, 2], 2e9]", "[[], 2e9]", "[[coefficients], limit]"},
    {"two-stages.txt", "[[0, 0, 2], 2e9]", "[[0, 0, 2], 0]", "at least one byte"},
    {"two-stages.txt", "[[0, 0, 2], 2e9]", "[[0,0,0,0,0,0,0,0,0], 1]", "[[coefficients], limit]"},
    {"two-stages.txt", "{\"G\": {\"1\": [[0", "{\"H\": {\"1\": [[0", "no network from G to G"},
    {"two-stages.txt", "[[0, 1], [2]]", "[[0, 1], [3]]", "in order"},
    {"two-stages.txt", "[[0, 1], [2]]", "[[0], [1]]", "the plan has 2 layers"},
    {"two-stages.txt", "[[0, 1], [2]]", "[[0, 1, 2]]", "differ in the stages"},
    {"two-stages.txt", "[[0, 1], [2]]", "[[0, 1, 2], []]", "layers of a stage"},
    {"two-stages.txt", "\"dp\": [2, 2]", "\"dp\": [2, 3]", "number of replicas"},
    {"two-stages.txt", "\"dp\": [2, 2]", "\"dp\": [2]", "one number per stage"},
    {"two-stages.txt", "[\"G\", 4, \"z\"]", "[4, \"G\", \"z\"]", "kind of a GPU"},
    {"two-stages.txt", "[\"G\", 4, \"z\"]", "[\"H\", 4, \"z\"]", "no network from H to G"},
    {"two-stages.txt", "[[[\"G\", 4, \"z\"]], 1]", "[[[\"G\", 4, \"z\"]], 2]", "tensor degree 2"},
    {"two-stages.txt", "\"mbs\": 1", "\"mbs\": 0", "must be positive"},
    {"two-stages.txt", "\"mbs\": 1, ", "", "needs mbs"},
    {"two-stages.txt", "\"gbs\": 12", "\"gbs\": 1.5", "expected an integer"},
    {"two-stages.txt", "\"gbs\": 12, ", "", "gbs is missing"},
    {"two-stages.txt", "\"real\": 0.5", "\"real\": []", "measured number"},
    {"two-stages.txt", "\"pipeline_list\"", "\"pipelines\"", "not a plan"},
    {"zones.txt", "\"B\": {\"1\": {\"1\": {\"0\": [3", "\"D\": {\"1\": {\"1\": {\"0\": [3",
     "no profile of M on B"},
    {"zones.txt", "\"B\": {\"1\": [[2], 2e9]}", "\"C\": {\"1\": [[2], 2e9]}", "no network from A"},
    {"zones.txt", "}], \"mbs\": 1}", "}, {}], \"mbs\": 1}", "several pipelines"},
};

static void test_broken(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(broken); i++) {
        struct sl_arena arena = {0};
        struct sl_sailor_forecast f;
        struct sl_text text = {0};
        char *seed;
        size_t length = read_seed(broken[i].seed, &seed);
        const char *at = strstr(seed, broken[i].old);
        assert_non_null(at);
        sl_text_put_bytes(&text, seed, (size_t)(at - seed));
        sl_text_put(&text, broken[i].new);
        at += strlen(broken[i].old);
        sl_text_put_bytes(&text, at, length - (size_t)(at - seed));
        sl_err err = forecast(text.at, text.length, &arena, &f);
        if (err != SL_ERR_INPUT || !strstr(sl_err_message(), broken[i].reason))
            fail_msg("'%s': %d %s", broken[i].new, err, sl_err_message());
        sl_text_free(&text);
        free(seed);
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_stages),
        cmocka_unit_test(test_zones),
        cmocka_unit_test(test_bandwidth),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
