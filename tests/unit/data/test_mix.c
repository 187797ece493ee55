/* Sets with weights: every block has the shares, each set goes through its own epochs, order and
 * validation are functions of the number; refusals. */
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A = 101, B = 40, BLOCK = 1024, BLOCKS = 3 };

static const char *write_set(const char *name, int first, int count) {
    struct sl_text text = {0};
    for (int i = 0; i < count; i++)
        sl_text_printf(&text, "%d\n", first + i);
    const char *path = sl_test_text(name, text.at);
    sl_text_free(&text);
    return path;
}

static sl_err open_mix(const char *source, double validation, bool in_order, uint64_t seed,
                       struct sl_data **data) {
    static struct sl_data_input input;
    input = sl_test_int("y", 0, 2000);
    struct sl_data_spec spec = {.source = source,
                                .inputs = &input,
                                .input_count = 1,
                                .seed = seed,
                                .validation = validation,
                                .in_order = in_order};
    return sl_data_open(&spec, data);
}

static void test_shares(void **state) {
    struct sl_text source = {0};
    struct sl_data *data, *again, *other;
    int32_t *y = malloc(sizeof *y * BLOCK * BLOCKS), *z = malloc(sizeof *z * BLOCK * BLOCKS), one;
    int64_t valid;
    (void)state;
    sl_text_printf(&source, "%s:0.7,", write_set("a.csv", 0, A));
    sl_text_printf(&source, "%s:0.3", write_set("b.csv", 1000, B));
    SL_TEST_OK(open_mix(source.at, 0, false, 5, &data));
    SL_TEST_OK(open_mix(source.at, 0, false, 5, &again));
    SL_TEST_OK(open_mix(source.at, 0, false, 6, &other));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), A + B);
    assert_true(sl_data_fingerprint(data) == sl_data_fingerprint(again));
    assert_true(sl_data_fingerprint(data) != sl_data_fingerprint(other));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, BLOCK * BLOCKS, 0, y));
    SL_TEST_OK(sl_data_fill(other, SL_DATA_TRAIN, 0, BLOCK * BLOCKS, 0, z));
    assert_memory_not_equal(y, z, sizeof *y * BLOCK);
    int seen[2000] = {0}, all = 0;
    for (int block = 0; block < BLOCKS; block++) {
        int from_b = 0;
        for (int i = 0; i < BLOCK; i++) {
            int32_t value = y[block * BLOCK + i];
            from_b += value >= 1000;
            all += value >= 1000;
            seen[value]++;
            SL_TEST_OK(sl_data_fill(again, SL_DATA_TRAIN, block * BLOCK + i, 1, 0, &one));
            assert_int_equal(one, value);
        }
        assert_int_equal(from_b, 307); /* 0.3 of 1024 */
    }
    for (int i = 0; i < A; i++) /* in its own epochs */
        assert_in_range(seen[i], (BLOCK * BLOCKS - all) / A, (BLOCK * BLOCKS - all) / A + 1);
    for (int i = 0; i < B; i++)
        assert_in_range(seen[1000 + i], all / B, all / B + 1);
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 100, 50, 0, &valid));
    assert_int_equal(valid, 50);
    sl_data_close(data);
    sl_data_close(again);
    sl_data_close(other);
    /* Validation: a tenth of every set, and 7 samples of both. */
    for (int way = 0; way < 2; way++) {
        SL_TEST_OK(open_mix(source.at, way ? 7 : 0.1, false, 5, &data));
        int64_t held = sl_data_count(data, SL_DATA_VALID), of_b = 0;
        assert_int_equal(held, way ? 7 : A / 10 + B / 10);
        SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, held, 0, y));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, BLOCK, 0, z));
        for (int i = 0; i < held; i++) {
            of_b += y[i] >= 1000;
            for (int k = 0; k < BLOCK; k++)
                assert_int_not_equal(y[i], z[k]);
        }
        assert_int_equal(of_b, way ? 3 : 4);
        sl_data_close(data);
    }
    SL_TEST_OK(open_mix(source.at, 0, true, 5, &data)); /* prediction: one set after the other */
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, A + B, 0, y));
    for (int i = 0; i < A + B; i++)
        assert_int_equal(y[i], i < A ? i : 1000 + i - A);
    sl_data_close(data);
    sl_text_free(&source);
    free(y);
    free(z);
    sl_test_folder_remove();
}

static void test_refusals(void **state) {
    struct sl_text source = {0};
    struct sl_data *data;
    (void)state;
    const char *a = write_set("a.csv", 0, A);
    const char *b = sl_test_text("b.csv", "y\nred\nblue\n"),
               *c = sl_test_text("c.csv", "y\nred\npink\n");
    sl_text_printf(&source, "%s:0.7,%s", a, b);
    SL_TEST_FAILS(open_mix(source.at, 0, false, 1, &data), SL_ERR_INPUT, "needs a weight");
    source.length = 0;
    sl_text_printf(&source, "%s:0,%s:1", a, b);
    SL_TEST_FAILS(open_mix(source.at, 0, false, 1, &data), SL_ERR_INPUT, "needs a weight");
    source.length = 0;
    sl_text_printf(&source, "%s:1,%s:2", b, c);
    SL_TEST_FAILS(open_mix(source.at, 0, false, 1, &data), SL_ERR_INPUT, "'pink' is not one of");
    source.length = 0;
    sl_text_printf(&source, "%s:1,none.csv:2", a);
    SL_TEST_FAILS(open_mix(source.at, 0, false, 1, &data), SL_ERR_INPUT, "none.csv");
    SL_TEST_FAILS(open_mix("mix", 0, false, 1, &data), SL_ERR_INPUT, "files with weights");
    sl_text_free(&source);
    sl_test_folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
