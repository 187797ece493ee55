/* Synthetic sets for the inputs of every family of models: values are in range, reproducible,
 * independent of the calling order, and learnable (simple models beat chance by far). */
#include "base/map.h"
#include "support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sl_data *open_synthetic(const struct sl_data_input *inputs, int count) {
    struct sl_data_spec spec = {
        .source = "synthetic", .inputs = inputs, .input_count = count, .seed = 3, .validation = 64};
    struct sl_data *data;
    SL_TEST_OK(sl_data_open(&spec, &data));
    return data;
}

static struct sl_data_input shaped(struct sl_data_input input, int rank, int64_t a, int64_t b,
                                   int64_t c) {
    input.rank = rank;
    input.dim[0] = a;
    input.dim[1] = b;
    input.dim[2] = c;
    return input;
}

static int64_t numel(const struct sl_data_input *input) {
    int64_t n = 1;
    for (int i = 0; i < input->rank; i++)
        n *= input->dim[i];
    return n;
}

/* Every input of 32 samples: values are in range and equal when read one by one. */
static void check_inputs(const struct sl_data_input *inputs, int count) {
    struct sl_data *data = open_synthetic(inputs, count);
    for (int i = 0; i < count; i++) {
        int64_t n = numel(&inputs[i]);
        int32_t *all = malloc(sizeof *all * (size_t)(32 * n)), *one = malloc(4 * (size_t)n);
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 100, 32, i, all));
        for (int64_t s = 0; s < 32; s++) {
            SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 100 + s, 1, i, one));
            if (strcmp(inputs[i].name, "row") != 0)
                assert_memory_equal(one, all + s * n, 4 * (size_t)n);
        }
        for (int64_t k = 0; k < 32 * n; k++) {
            float value;
            memcpy(&value, &all[k], sizeof value);
            if (inputs[i].dtype == SL_DATA_FLOAT)
                assert_true(isfinite(value) && fabsf(value) < 20);
            else if (inputs[i].below && all[k] != SL_DATA_IGNORE)
                assert_in_range(all[k], 0, inputs[i].below - 1);
        }
        free(all);
        free(one);
    }
    sl_data_close(data);
}

static void test_zoo(void **state) {
    (void)state;
    struct sl_data_input tokens = sl_test_int("tokens", 33, 50257);
    struct sl_data_input targets = sl_test_int("targets", 33, 50257);
    struct sl_data_input label = sl_test_int("label", 0, 10);
    struct sl_data_input image = sl_test_float("image", 3, 17, 19);
    check_inputs((struct sl_data_input[]){tokens, targets}, 2); /* gpt, llama, lstm */
    check_inputs((struct sl_data_input[]){tokens, targets, sl_test_int("mask", 33, 2),
                                          sl_test_int("segments", 33, 2),
                                          sl_test_int("positions", 33, 33),
                                          sl_test_int("nsp_label", 0, 2)},
                 6);                                                   /* bert */
    check_inputs((struct sl_data_input[]){image, label}, 2);           /* vgg, resnet, inception */
    check_inputs((struct sl_data_input[]){tokens, label}, 2);          /* transformer-classifier */
    check_inputs((struct sl_data_input[]){image, tokens, targets}, 3); /* vlm */
    check_inputs((struct sl_data_input[]){image, tokens, sl_test_int("row", 0, 0)}, 3); /* clip */
    check_inputs((struct sl_data_input[]){shaped(image, 3, 6, 9, 9), shaped(tokens, 2, 6, 33, 0),
                                          sl_test_int("match", 6, 6), sl_test_int("back", 6, 6)},
                 4); /* clip in groups */
    check_inputs((struct sl_data_input[]){image, shaped(targets, 2, 17, 19, 0)}, 2); /* u-net */
    check_inputs((struct sl_data_input[]){image, sl_test_float("targets", 1, 17, 19)}, 2);
    check_inputs((struct sl_data_input[]){sl_test_float("dense0", 13, 0, 0),
                                          sl_test_float("dense1", 13, 0, 0),
                                          sl_test_int("sparse0", 100, 1000000),
                                          sl_test_int("sparse1", 100, 1000000),
                                          sl_test_float("click", 1, 0, 0)},
                 5); /* dlrm */
    check_inputs((struct sl_data_input[]){sl_test_float("dose1", 1, 0, 0),
                                          sl_test_float("rnaseq", 942, 0, 0),
                                          sl_test_float("growth", 1, 0, 0)},
                 3); /* candle-uno */
    check_inputs((struct sl_data_input[]){sl_test_float("a", 5, 7, 0), sl_test_float("b", 5, 7, 0),
                                          sl_test_int("y", 3, 11)},
                 3); /* mmt, several labels */
    check_inputs((struct sl_data_input[]){sl_test_int("src", 33, 50), tokens, targets}, 3);
    check_inputs(
        (struct sl_data_input[]){sl_test_int("tokens", 5, 1), sl_test_int("targets", 5, 1)}, 2);
    check_inputs((struct sl_data_input[]){sl_test_int("ids", 5, 2), sl_test_int("labels", 5, 2),
                                          sl_test_int("mask", 5, 2)},
                 3);
}

/* Next token: a table of token pairs predicts 7/8 of the targets. */
static void test_stream_learnable(void **state) {
    (void)state;
    enum { T = 32, SAMPLES = 400 };
    struct sl_data_input inputs[2] = {sl_test_int("tokens", T, 1000),
                                      sl_test_int("targets", T, 1000)};
    struct sl_data *data = open_synthetic(inputs, 2);
    static int32_t tokens[SAMPLES * T], targets[SAMPLES * T], table[1000];
    int right = 0;
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 0, tokens));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 1, targets));
    for (int i = 0; i < SAMPLES * T; i++) {
        if (i % T)
            assert_int_equal(tokens[i], targets[i - 1]);
        right += i >= SAMPLES * T / 2 && table[tokens[i]] == targets[i];
        if (i < SAMPLES * T / 2)
            table[tokens[i]] = targets[i];
    }
    assert_true(right > SAMPLES * T / 2 * 0.70);
    sl_data_close(data);
}

/* Images: the nearest class mean of the training split classifies almost all of validation. */
static void test_images_learnable(void **state) {
    (void)state;
    enum { C = 10, SIDE = 8, PIXELS = 3 * SIDE * SIDE, SAMPLES = 500 };
    struct sl_data_input inputs[2] = {sl_test_float("image", 3, SIDE, SIDE),
                                      sl_test_int("label", 0, C)};
    struct sl_data *data = open_synthetic(inputs, 2);
    static float image[SAMPLES * PIXELS], mean[C][PIXELS];
    static int32_t label[SAMPLES];
    int count[C] = {0}, right = 0;
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 0, image));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 1, label));
    for (int s = 0; s < SAMPLES; s++) {
        count[label[s]]++;
        for (int i = 0; i < PIXELS; i++)
            mean[label[s]][i] += image[s * PIXELS + i];
    }
    for (int c = 0; c < C; c++)
        assert_in_range(count[c], 25, 80);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, 64, 0, image));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, 64, 1, label));
    for (int s = 0; s < 64; s++) {
        int best = 0;
        double best_distance = INFINITY;
        for (int c = 0; c < C; c++) {
            double distance = 0;
            for (int i = 0; i < PIXELS; i++) {
                double d = image[s * PIXELS + i] - mean[c][i] / (float)count[c];
                distance += d * d;
            }
            if (distance < best_distance) {
                best_distance = distance;
                best = c;
            }
        }
        right += best == label[s];
    }
    assert_in_range(right, 60, 64);
    sl_data_close(data);
}

/* Regression: one least-squares step along X'y explains most of the variance. */
static void test_values_learnable(void **state) {
    (void)state;
    enum { N = 30, SAMPLES = 2000 };
    struct sl_data_input inputs[2] = {sl_test_float("x", N, 0, 0),
                                      sl_test_float("growth", 1, 0, 0)};
    struct sl_data *data = open_synthetic(inputs, 2);
    static float x[SAMPLES * N], y[SAMPLES];
    double w[N] = {0}, mean = 0, dot = 0, norm = 0, total = 0;
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 0, x));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, SAMPLES, 1, y));
    for (int s = 0; s < SAMPLES; s++)
        mean += y[s] / SAMPLES;
    for (int s = 0; s < SAMPLES; s++)
        for (int i = 0; i < N; i++)
            w[i] += x[s * N + i] * (y[s] - mean);
    for (int s = 0; s < SAMPLES; s++) {
        double guess = 0;
        for (int i = 0; i < N; i++)
            guess += w[i] * x[s * N + i];
        dot += guess * (y[s] - mean);
        norm += guess * guess;
        total += (y[s] - mean) * (y[s] - mean);
    }
    assert_true(dot * dot / norm > 0.5 * total);
    sl_data_close(data);
}

/* A run that an older version saved goes on with the samples, masks and splits that it began with. */
static void test_pinned(void **state) {
    enum { SAMPLES = 16, LENGTH = 9 };
    static const uint64_t want[2][2] = {
        {0x4352fb3205d6c3ca, 0xdda2b25502534b48},
        {0x4c428b40b2e65e38, 0xafb768cba82736b6}}; /* [split][tokens, targets] */
    struct sl_data_input inputs[3] = {sl_test_int("tokens", LENGTH, 50),
                                      sl_test_int("targets", LENGTH, 50),
                                      sl_test_int("mask", LENGTH, 2)};
    struct sl_data *data = open_synthetic(inputs, 3);
    (void)state;
    for (int split = 0; split < 2; split++)
        for (int input = 0; input < 2; input++) {
            int32_t values[SAMPLES * LENGTH];
            SL_TEST_OK(sl_data_fill(data, (enum sl_data_split)split, 3, SAMPLES, input, values));
            uint64_t hash = sl_hash(values, sizeof values);
            if (hash != want[split][input])
                fail_msg("split %d, input %d: 0x%llx", split, input, (unsigned long long)hash);
        }
    sl_data_close(data);
}

static void test_describe(void **state) {
    (void)state;
    struct sl_data_input inputs[2] = {sl_test_int("tokens", 9, 50), sl_test_int("targets", 9, 50)};
    struct sl_data *data = open_synthetic(inputs, 2);
    struct sl_text text = {0}, line = {0};
    struct sl_json_out json = {.text = &text};
    struct sl_json_in in;
    sl_data_write_json(data, &json);
    sl_json_read(&in, "json", text.at, text.length);
    SL_TEST_OK(sl_json_next(&in));
    SL_TEST_OK(sl_json_skip(&in));
    SL_TEST_OK(sl_json_next(&in));
    assert_non_null(strstr(text.at, "\"kind\""));
    char print[48];
    snprintf(print, sizeof print, "\"fingerprint\": \"%016llx\"",
             (unsigned long long)sl_data_fingerprint(data));
    assert_non_null(strstr(text.at, print));
    sl_data_describe(data, &line);
    assert_string_equal(line.at,
                        "synthetic, windows of 9, next token: 1048512 samples to train, 64 "
                        "to validate");
    sl_text_free(&text);
    sl_text_free(&line);
    sl_data_close(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_stream_learnable),
        cmocka_unit_test(test_images_learnable),
        cmocka_unit_test(test_values_learnable),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
