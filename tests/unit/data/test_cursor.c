/* Epochs, splits, cursors: every sample occurs once per epoch, train and validation are disjoint, a
 * range equals its parts, a resumed cursor continues exactly. */
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 103 };

/* A table with one column: the row number. */
static struct sl_data *numbers(uint64_t seed, double validation, enum sl_data_holdout holdout,
                               bool in_order) {
    static char text[4096];
    static struct sl_data_input input;
    struct sl_data_file file = {"n.csv", text, 0};
    size_t used = 0;
    for (int i = 0; i < ROWS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\n", i);
    file.size_bytes = (int64_t)used;
    input = sl_test_int("y", 0, ROWS);
    struct sl_data_spec spec = {.source = "csv:",
                                .inputs = &input,
                                .input_count = 1,
                                .seed = seed,
                                .validation = validation,
                                .holdout = holdout,
                                .in_order = in_order};
    struct sl_data *data;
    SL_TEST_OK(sl_data_open_memory(&spec, &file, 1, &data));
    return data;
}

static void test_epochs(void **state) {
    (void)state;
    static const enum sl_data_holdout holdouts[] = {SL_DATA_HOLD_AUTO, SL_DATA_HOLD_LAST,
                                                    SL_DATA_HOLD_DRAWN};
    for (int h = 0; h < 3; h++) {
        struct sl_data *data = numbers(17, 0.2, holdouts[h], false);
        int32_t train[3][ROWS], valid[ROWS], seen[ROWS] = {0};
        int64_t n = sl_data_count(data, SL_DATA_TRAIN), v = sl_data_count(data, SL_DATA_VALID);
        assert_int_equal(v, 20);
        assert_int_equal(n + v, ROWS);
        SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, v, 0, valid));
        for (int e = 0; e < 3; e++) {
            SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, e * n, n, 0, train[e]));
            for (int64_t i = 0; i < n; i++)
                seen[train[e][i]]++;
        }
        for (int64_t i = 0; i < v; i++) {
            assert_int_equal(seen[valid[i]], 0);
            seen[valid[i]] = 3;
        }
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(seen[i], 3);
        assert_memory_not_equal(train[0], train[1], sizeof(int32_t) * (size_t)n);
        if (holdouts[h] == SL_DATA_HOLD_LAST)
            assert_int_equal(valid[0], n);
        /* A range equals its parts, also across epochs. */
        for (int64_t i = 0; i < 3 * n; i += 7) {
            int32_t one;
            SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, i, 1, 0, &one));
            assert_int_equal(one, train[i / n][i % n]);
        }
        sl_data_close(data);
    }
}

static void test_seeds(void **state) {
    (void)state;
    struct sl_data *a = numbers(1, 20, SL_DATA_HOLD_AUTO, false);
    struct sl_data *b = numbers(2, 20, SL_DATA_HOLD_AUTO, false);
    struct sl_data *c = numbers(1, 20, SL_DATA_HOLD_AUTO, false);
    struct sl_data *d = numbers(1, 21, SL_DATA_HOLD_AUTO, false);
    int32_t x[ROWS], y[ROWS];
    SL_TEST_OK(sl_data_fill(a, SL_DATA_TRAIN, 0, 83, 0, x));
    SL_TEST_OK(sl_data_fill(b, SL_DATA_TRAIN, 0, 83, 0, y));
    assert_memory_not_equal(x, y, 83 * sizeof *x);
    SL_TEST_OK(sl_data_fill(c, SL_DATA_TRAIN, 0, 83, 0, y));
    assert_memory_equal(x, y, 83 * sizeof *x);
    SL_TEST_OK(sl_data_fill(a, SL_DATA_VALID, 0, 20, 0, x));
    SL_TEST_OK(sl_data_fill(b, SL_DATA_VALID, 0, 20, 0, y));
    assert_memory_equal(x, y, 20 * sizeof *x); /* validation does not depend on the seed */
    assert_true(sl_data_fingerprint(a) == sl_data_fingerprint(c));
    assert_true(sl_data_fingerprint(a) != sl_data_fingerprint(b));
    assert_true(sl_data_fingerprint(a) != sl_data_fingerprint(d));
    sl_data_close(a);
    sl_data_close(b);
    sl_data_close(c);
    sl_data_close(d);
}

static void walk(const struct sl_data *data, enum sl_data_tail tail, const int64_t (*want)[2],
                 int count) {
    struct sl_data_cursor cursor = {0, 0};
    struct sl_data_range range;
    for (int i = 0; i < count; i++) {
        struct sl_data_cursor saved = cursor; /* as a checkpoint stores it */
        cursor = saved;
        SL_TEST_OK(sl_data_next(data, SL_DATA_TRAIN, tail, 40, &cursor, &range));
        assert_int_equal(range.first, want[i][0]);
        assert_int_equal(range.count, want[i][1]);
    }
}

static void test_tails(void **state) {
    (void)state;
    static const int64_t wrap[][2] = {{0, 40}, {40, 40}, {80, 40}, {120, 40}, {160, 40}, {200, 40}};
    static const int64_t drop[][2] = {{0, 40}, {40, 40}, {103, 40}, {143, 40}, {206, 40}};
    static const int64_t part[][2] = {{0, 40}, {40, 40}, {80, 23}, {103, 40}, {143, 40}, {183, 23}};
    struct sl_data *data = numbers(1, 0, SL_DATA_HOLD_AUTO, true);
    walk(data, SL_DATA_WRAP, wrap, SL_COUNT(wrap));
    walk(data, SL_DATA_DROP, drop, SL_COUNT(drop));
    walk(data, SL_DATA_PARTIAL, part, SL_COUNT(part));
    struct sl_data_cursor cursor = {0, 104};
    struct sl_data_range range;
    SL_TEST_FAILS(sl_data_next(data, SL_DATA_TRAIN, SL_DATA_WRAP, 1, &cursor, &range), SL_ERR_INPUT,
                  "belongs to other data");
    cursor = (struct sl_data_cursor){0, 0};
    SL_TEST_FAILS(sl_data_next(data, SL_DATA_TRAIN, SL_DATA_DROP, 104, &cursor, &range),
                  SL_ERR_INPUT, "only 103");
    SL_TEST_FAILS(sl_data_next(data, SL_DATA_VALID, SL_DATA_WRAP, 1, &cursor, &range), SL_ERR_INPUT,
                  "validation split of the data is empty");
    SL_TEST_OK(sl_data_next(data, SL_DATA_TRAIN, SL_DATA_WRAP, 250, &cursor, &range));
    assert_int_equal(cursor.epoch, 2);
    assert_int_equal(cursor.position, 250 - 206);
    sl_data_close(data);
}

static void test_in_order(void **state) {
    (void)state;
    struct sl_data *data = numbers(9, 0, SL_DATA_HOLD_AUTO, true);
    int32_t x[ROWS];
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, ROWS, 0, x));
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(x[i], i);
    sl_data_close(data);
}

static void test_kinds(void **state) {
    (void)state;
    const char *brief, *before = "";
    int count = 0;
    for (const char *name; (name = sl_data_kind_name(count, &brief)); count++) {
        assert_true(strcmp(before, name) < 0); /* alphabetical */
        assert_true(strlen(brief) > 10);
        before = name;
    }
    assert_true(count > 0);
    assert_null(sl_data_kind_name(-1, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),   cmocka_unit_test(test_seeds), cmocka_unit_test(test_tails),
        cmocka_unit_test(test_in_order), cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
