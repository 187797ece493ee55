/* Many threads read ranges and inputs of one frozen set; the results equal those of one thread. */
#include "base/par.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 16, JOBS = 64, EACH = 8 };

struct job {
    const struct sl_data *data;
    int32_t out[2][JOBS][EACH * T];
    sl_err err[JOBS];
};

static void fetch(void *ctx, int64_t i) {
    struct job *job = ctx;
    for (int input = 0; input < 2 && job->err[i] == SL_OK; input++)
        job->err[i] =
            sl_data_fill(job->data, SL_DATA_TRAIN, i * EACH, EACH, input, job->out[input][i]);
}

static void check(const char *source, const char *tokenizer) {
    struct sl_data_input inputs[3] = {sl_test_int("tokens", T, 1000),
                                      sl_test_int("targets", T, 1000), sl_test_int("mask", T, 2)};
    struct sl_data_spec spec = {
        .source = source, .inputs = inputs, .input_count = 3, .tokenizer = tokenizer, .threads = 4};
    struct sl_data *data;
    struct job *one = calloc(1, sizeof *one), *many = calloc(1, sizeof *many);
    SL_TEST_OK(sl_data_open(&spec, &data));
    one->data = many->data = data;
    sl_par_for(JOBS, 1, fetch, one);
    sl_par_for(JOBS, 8, fetch, many);
    assert_memory_equal(one, many, sizeof *one);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(one->err[i], SL_OK);
    free(one);
    free(many);
    sl_data_close(data);
}

static void test_threads(void **state) {
    (void)state;
    struct sl_text text = {0};
    for (int i = 0; i < 60000; i++)
        sl_text_printf(&text, "gate %d opens; ", i * 7919);
    const char *path = sl_test_file("long.txt", text.at, text.length);
    check(path, NULL);
    check(path, SL_TEST_SRC_DIR "/tests/fixtures/bpe/tokenizer-gpt2.json");
    check("synthetic", NULL);
    sl_text_free(&text);
    sl_test_folder_remove();
}

/* Encoding does not depend on the number of threads. */
static void test_encoding(void **state) {
    (void)state;
    struct sl_data_input inputs[2] = {sl_test_int("tokens", T, 1000),
                                      sl_test_int("targets", T, 1000)};
    struct sl_text text = {0};
    for (int i = 0; i < 100000; i++)
        sl_text_printf(&text, "water %d,", i % 977);
    struct sl_data_file file = {"t", text.at, (int64_t)text.length};
    struct sl_data *data[2];
    int32_t a[T], b[T];
    for (int i = 0; i < 2; i++) {
        struct sl_data_spec spec = {.source = "text:",
                                    .inputs = inputs,
                                    .input_count = 2,
                                    .tokenizer =
                                        SL_TEST_SRC_DIR "/tests/fixtures/bpe/tokenizer-llama3.json",
                                    .threads = i ? 1 : 5};
        SL_TEST_OK(sl_data_open_memory(&spec, &file, 1, &data[i]));
    }
    int64_t count = sl_data_count(data[0], SL_DATA_TRAIN);
    assert_int_equal(count, sl_data_count(data[1], SL_DATA_TRAIN));
    for (int64_t n = 0; n < count; n += 13) {
        SL_TEST_OK(sl_data_fill(data[0], SL_DATA_TRAIN, n, 1, 0, a));
        SL_TEST_OK(sl_data_fill(data[1], SL_DATA_TRAIN, n, 1, 0, b));
        assert_memory_equal(a, b, sizeof a);
    }
    sl_data_close(data[0]);
    sl_data_close(data[1]);
    sl_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_encoding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
