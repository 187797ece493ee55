/* Images (IDX, gzip too), CSV and float tables: values, binding of inputs, refusals. */
#include "support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 11, H = 5, W = 3 };

struct bytes {
    unsigned char at[1024];
    size_t size;
};

static void put_be(struct bytes *b, uint32_t value) {
    for (int i = 3; i >= 0; i--)
        b->at[b->size++] = (unsigned char)(value >> (8 * i));
}

static int pixel(int64_t n, int64_t y, int64_t x) { return (int)((n * 31 + y * 7 + x * 3) % 256); }

static struct bytes images(void) {
    struct bytes b = {{0, 0, 8, 3}, 4};
    put_be(&b, N);
    put_be(&b, H);
    put_be(&b, W);
    for (int i = 0; i < N * H * W; i++)
        b.at[b.size++] = (unsigned char)pixel(i / (H * W), i / W % H, i % W);
    return b;
}

static struct bytes labels(void) {
    struct bytes b = {{0, 0, 8, 1}, 4};
    put_be(&b, N);
    for (int i = 0; i < N; i++)
        b.at[b.size++] = (unsigned char)(i % 4);
    return b;
}

static sl_err open_idx(const struct bytes *image, const struct bytes *label,
                       const struct sl_data_input *inputs, int count, struct sl_data **data) {
    struct sl_data_file files[2] = {{"images", image->at, (int64_t)image->size},
                                    {"labels", label->at, (int64_t)label->size}};
    struct sl_data_spec spec = {
        .source = "idx:", .inputs = inputs, .input_count = count, .in_order = true};
    return sl_data_open_memory(&spec, files, 2, data);
}

/* Padding and cropping keep the image centred. */
static void check_size(int64_t height, int64_t width, bool flat) {
    struct bytes image = images(), label = labels();
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, height, width),
                                      sl_test_int("label", 0, 4)};
    if (flat)
        inputs[0] = sl_test_float("x", height * width, 0, 0);
    struct sl_data *data;
    float *out = malloc(sizeof *out * (size_t)(height * width * N));
    int32_t classes[N];
    double sum = 0, squares = 0;
    for (int i = 0; i < N * H * W; i++) {
        sum += image.at[16 + i];
        squares += (double)image.at[16 + i] * image.at[16 + i];
    }
    double mean = sum / (N * H * W), deviation = sqrt(squares / (N * H * W) - mean * mean);
    SL_TEST_OK(open_idx(&image, &label, inputs, 2, &data));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, N, 0, out));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, N, 1, classes));
    int64_t top = (height - H) / 2, left = (width - W) / 2;
    for (int64_t n = 0; n < N; n++) {
        assert_int_equal(classes[n], n % 4);
        for (int64_t i = 0; i < height * width; i++) {
            int64_t y = i / width - top, x = i % width - left;
            bool inside = y >= 0 && y < H && x >= 0 && x < W;
            double want = ((inside ? pixel(n, y, x) : 0) - mean) / deviation;
            assert_true(fabs(out[n * height * width + i] - want) < 1e-5);
        }
    }
    free(out);
    sl_data_close(data);
}

static void test_idx(void **state) {
    (void)state;
    check_size(H, W, false);
    check_size(H, W, true);
    check_size(H + 3, W + 2, false);
    check_size(H - 2, W - 1, false);
    check_size(H - 1, W + 5, false);
}

static void test_idx_sabotage(void **state) {
    (void)state;
    struct bytes image = images(), label = labels(), bad;
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 4)};
    struct sl_data *data;
    for (bad = image; bad.size > 0;) {
        bad.size--;
        assert_int_equal(open_idx(&bad, &label, inputs, 2, &data), SL_ERR_INPUT);
    }
    for (bad = label; bad.size > 0;) {
        bad.size--;
        assert_int_equal(open_idx(&image, &bad, inputs, 2, &data), SL_ERR_INPUT);
    }
    bad = image;
    bad.at[4] = 0xff; /* about 4e9 images */
    SL_TEST_FAILS(open_idx(&bad, &label, inputs, 2, &data), SL_ERR_INPUT, "truncated");
    bad = image;
    bad.at[11] = 0;
    SL_TEST_FAILS(open_idx(&bad, &label, inputs, 2, &data), SL_ERR_INPUT, "dimension of 0");
    bad = image;
    bad.at[2] = 7;
    SL_TEST_FAILS(open_idx(&bad, &label, inputs, 2, &data), SL_ERR_INPUT, "not an IDX file");
    bad = image;
    bad.at[bad.size++] = 0;
    SL_TEST_FAILS(open_idx(&bad, &label, inputs, 2, &data), SL_ERR_INPUT, "its header states");
    bad = label;
    bad.at[8] = 4;
    SL_TEST_FAILS(open_idx(&image, &bad, inputs, 2, &data), SL_ERR_INPUT, "not in [0, 4)");
    SL_TEST_FAILS(open_idx(&image, &image, inputs, 2, &data), SL_ERR_INPUT, "3 dimensions");
    SL_TEST_FAILS(open_idx(&label, &label, inputs, 2, &data), SL_ERR_INPUT, "1 dimensions");
    inputs[0] = sl_test_float("image", 3, H, W);
    SL_TEST_FAILS(open_idx(&image, &label, inputs, 2, &data), SL_ERR_INPUT, "number of channels");
    inputs[0] = sl_test_int("tokens", 8, 10);
    SL_TEST_FAILS(open_idx(&image, &label, inputs, 2, &data), SL_ERR_INPUT, "it offers image");
}

/* MNIST file names: labels are found in the folder of the images; gzip; a damaged stream. */
static void test_idx_files(void **state) {
    (void)state;
    struct bytes image = images(), label = labels();
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 4)};
    const char *path = sl_test_gzip("x-images-idx3-ubyte.gz", image.at, image.size);
    struct sl_data_spec spec = {.source = path, .inputs = inputs, .input_count = 2};
    struct sl_data *data;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "needs labels");
    sl_test_gzip("x-labels-idx1-ubyte.gz", label.at, label.size);
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), N);
    SL_TEST_OK(sl_data_check(data));
    sl_data_close(data);
    char *text = NULL;
    size_t length;
    SL_TEST_OK(sl_file_read(path, 1 << 20, &text, &length));
    sl_test_file("x-images-idx3-ubyte.gz", text, length - 9);
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "gzip data");
    text[length / 2] = (char)~text[length / 2];
    sl_test_file("x-images-idx3-ubyte.gz", text, length);
    assert_int_equal(sl_data_open(&spec, &data), SL_ERR_INPUT);
    free(text);
}

static void test_mnist(void **state) {
    (void)state;
    const char *path = sl_test_shared("mnist-t10k-images-idx3-ubyte.gz");
    if (!path)
        skip();
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, 32, 32),
                                      sl_test_int("label", 0, 10)};
    struct sl_data_spec spec = {
        .source = path, .inputs = inputs, .input_count = 2, .validation = 2000, .seed = 5};
    struct sl_data *data;
    int32_t label[2000];
    int count[10] = {0};
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 8000);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, 2000, 1, label));
    for (int i = 0; i < 2000; i++)
        count[label[i]]++;
    for (int i = 0; i < 10; i++)
        assert_in_range(count[i], 140, 260); /* drawn: every digit occurs */
    SL_TEST_OK(sl_data_check(data));
    sl_data_close(data);
}

/* ---- tables ---- */

static sl_err open_csv(const char *text, const struct sl_data_input *inputs, int count,
                       struct sl_data **data) {
    struct sl_data_file file = {"t.csv", text, (int64_t)strlen(text)};
    struct sl_data_spec spec = {
        .source = "csv:", .inputs = inputs, .input_count = count, .in_order = true};
    return sl_data_open_memory(&spec, &file, 1, data);
}

static void expect_floats(const struct sl_data *data, int input, int64_t sample, const float *want,
                          int count) {
    float got[8];
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, sample, 1, input, got));
    for (int i = 0; i < count; i++)
        assert_true(got[i] == want[i]);
}

static void test_csv(void **state) {
    (void)state;
    struct sl_data *data;
    int32_t label[2];
    struct sl_data_input named[3] = {sl_test_float("age", 0, 0, 0), sl_test_float("x", 2, 0, 0),
                                     sl_test_int("label", 0, 3)};
    SL_TEST_OK(open_csv("x1, y ,\"x0\",age\r\n\r\n1.5,2,-3e1,4\r\n5,0,\"6\",7", named, 3, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 2);
    expect_floats(data, 0, 1, (float[]){7}, 1);
    expect_floats(data, 1, 0, (float[]){-30, 1.5f}, 2);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 2, 2, label));
    assert_int_equal(label[0], 2);
    assert_int_equal(label[1], 0);
    sl_data_close(data);

    /* Without names: the last column is the label, the others are the one float input. */
    struct sl_data_input rest[2] = {sl_test_float("features", 3, 0, 0), sl_test_int("y", 0, 9)};
    SL_TEST_OK(open_csv("1\t2\t3\t4\n5\t6\t7\t8\n", rest, 2, &data));
    expect_floats(data, 0, 1, (float[]){5, 6, 7}, 3);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 2, 1, label));
    assert_int_equal(label[1], 8);
    sl_data_close(data);
}

static void test_csv_sabotage(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "no rows"},
        {"a,b,c\n", "no rows"},
        {"a,b,c\n1,2,3\n1,2\n", "row 3 has 2 cells, the first row has 3"},
        {"a,b,c\n1,2,3\n1,2,3,4\n", "has 4 cells"},
        {"a,b,c\n1,,3\n", "empty cell"},
        {"a,b,c\n1,2,3\n1,2,x\n", "t.csv:3: column 'c': 'x' is not a finite number"},
        {"a,b,c\n1,2,nan\n", "not a finite number"},
        {"a,b,c\n1,2,1e99\n", "not a finite number"},
        {"a,b,c\n1,2,\"3\n", "not closed"},
        {"a,b,label\n1,2,2.5\n", "takes whole numbers from 0 to 4"},
        {"a,b,label\n1,2,5\n", "takes whole numbers"},
        {"a,b,d,label\n1,2,3,4\n", "no columns for input 'x' float[B,2]"},
    };
    struct sl_data_input inputs[2] = {sl_test_float("x", 2, 0, 0), sl_test_int("label", 0, 5)};
    struct sl_data *data;
    for (int i = 0; i < SL_COUNT(cases); i++)
        SL_TEST_FAILS(open_csv(cases[i].text, inputs, 2, &data), SL_ERR_INPUT, cases[i].reason);
    char *wide = malloc(300000);
    memset(wide, '7', 299999);
    wide[299999] = 0;
    SL_TEST_FAILS(open_csv(wide, inputs, 2, &data), SL_ERR_INPUT, "longer than 255");
    for (int i = 1; i < 299999; i += 2)
        wide[i] = ',';
    SL_TEST_FAILS(open_csv(wide, inputs, 2, &data), SL_ERR_INPUT, "65,536 columns");
    free(wide);
}

static void test_f32(void **state) {
    (void)state;
    const float rows[] = {1, 2, 3, 0, 4, 5, 6, 2};
    struct sl_data_input inputs[2] = {sl_test_float("x", 3, 0, 0), sl_test_int("y", 0, 3)};
    struct sl_data_spec spec = {.source = sl_test_file("t.f32", rows, sizeof rows),
                                .inputs = inputs,
                                .input_count = 2,
                                .in_order = true};
    struct sl_data *data;
    int32_t label[2];
    SL_TEST_OK(sl_data_open(&spec, &data));
    expect_floats(data, 0, 1, (float[]){4, 5, 6}, 3);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 2, 1, label));
    assert_int_equal(label[1], 2);
    sl_data_close(data);
    inputs[1].below = 2;
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_FAILS(sl_data_check(data), SL_ERR_INPUT, "row 1, value 0 of input 'y' is 2");
    sl_data_close(data);
    inputs[0].dim[0] = 4;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "a row of 5 floats");
}

static int remove_folder(void **state) {
    (void)state;
    sl_test_folder_remove();
    return 0;
}

/* Text becomes categories: sorted, or as in the list of the run. */
static void test_categories(void **state) {
    static const char text[] =
        "size,colour,name\n1.5,red,b\n2,blue,a\n3,\"light, blue\",b\n4,red,7\n";
    static const int32_t want[2][4] = {{2, 0, 1, 2}, {0, 3, 2, 0}};
    struct sl_data_input inputs[3] = {sl_test_float("size", 0, 0, 0), sl_test_int("colour", 0, 4),
                                      sl_test_int("label", 0, 3)};
    struct sl_text names = {0};
    (void)state;
    const char *known =
        sl_test_text("run.json", "{\"colour\": [\"red\", \"green\", \"light, blue\", \"blue\"], "
                                 "\"name\": [\"7\", \"a\", \"b\"]}");
    for (int run = 0; run < 2; run++) {
        struct sl_data_file file = {"t.csv", text, sizeof text - 1};
        struct sl_data_spec spec = {.source = "csv:",
                                    .inputs = inputs,
                                    .input_count = 3,
                                    .in_order = true,
                                    .categories = run ? known : NULL};
        struct sl_data *data;
        int32_t colour[4], label[4];
        SL_TEST_OK(sl_data_open_memory(&spec, &file, 1, &data));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 4, 1, colour));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 4, 2, label));
        for (int i = 0; i < 4; i++) {
            static const int32_t labels[4] = {2, 1, 2, 0};
            assert_int_equal(colour[i], want[run][i]);
            assert_int_equal(label[i], labels[i]);
        }
        names.length = 0;
        assert_true(sl_data_categories(data, &names));
        assert_string_equal(names.at, run ? "{\"colour\": [\"red\", \"green\", \"light, blue\", "
                                            "\"blue\"], \"name\": [\"7\", \"a\", \"b\"]}\n"
                                          : "{\"colour\": [\"blue\", \"light, blue\", \"red\"], "
                                            "\"name\": [\"7\", \"a\", \"b\"]}\n");
        sl_data_close(data);
        sl_test_text("run.json", names.at); /* what is written is read */
        SL_TEST_OK(run ? sl_data_open_memory(&spec, &file, 1, &data) : SL_OK);
        if (run)
            sl_data_close(data);
        sl_test_text("run.json", "{\"colour\": [\"red\", \"green\", \"light, blue\", \"blue\"], "
                                 "\"name\": [\"7\", \"a\", \"b\"]}");
    }
    sl_test_text("run.json", "{\"colour\": [\"red\"], \"name\": [\"7\", \"a\", \"b\"]}");
    struct sl_data_file file = {"t.csv", text, sizeof text - 1};
    struct sl_data_spec spec = {
        .source = "csv:", .inputs = inputs, .input_count = 3, .categories = known};
    struct sl_data *data;
    SL_TEST_FAILS(sl_data_open_memory(&spec, &file, 1, &data), SL_ERR_INPUT,
                  "'blue' is not one of the 1 categories of the run: red");
    sl_test_text("run.json", "{\"colour\": [3]}");
    SL_TEST_FAILS(sl_data_open_memory(&spec, &file, 1, &data), SL_ERR_INPUT, "must be a string");
    sl_text_free(&names);
    sl_test_folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_categories),   cmocka_unit_test(test_idx),
        cmocka_unit_test(test_idx_sabotage), cmocka_unit_test(test_idx_files),
        cmocka_unit_test(test_mnist),        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_sabotage), cmocka_unit_test(test_f32),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
