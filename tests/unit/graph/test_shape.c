/* Shapes with a symbolic micro-batch: sizes, products, broadcasting, refusals, text. */
#include "graph/shape.h"

#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void text_is(struct sl_shape shape, const char *want) {
    char text[SL_SHAPE_TEXT];
    assert_string_equal(sl_graph_shape_text(&shape, text), want);
}

static void text_shows_the_batch(void **state) {
    (void)state;
    text_is(SL_SHAPE(0, 0, 0), "[]");
    text_is(SL_SHAPE(1, 0, 7), "[7]");
    text_is(SL_SHAPE(3, 1, 1, 128, 64), "[B,128,64]");
    text_is(SL_SHAPE(2, 1, 5, 7), "[B*5,7]");
    text_is(SL_SHAPE(3, 2, 3, 1, 7), "[3,B,7]");
    const int64_t big = INT64_MIN; /* the longest possible text fits */
    text_is(SL_SHAPE(1, 1, big), "[B*-9223372036854775808]");
    struct sl_shape longest = SL_SHAPE(6, 63, big, big, big, big, big, big);
    char text[SL_SHAPE_TEXT];
    assert_int_equal(strlen(sl_graph_shape_text(&longest, text)), 2 + 6 * 22 + 5);
}

static void sizes_count_from_either_end(void **state) {
    (void)state;
    struct sl_shape shape = SL_SHAPE(3, 1, 2, 5, 7);
    assert_true(sl_graph_dim_equal(sl_graph_shape_dim(&shape, 0), (struct sl_dim){2, true}));
    assert_true(sl_graph_dim_equal(sl_graph_shape_dim(&shape, -1), (struct sl_dim){7, false}));
    assert_true(sl_graph_dim_equal(sl_graph_shape_dim(&shape, -3), (struct sl_dim){2, true}));
    sl_graph_shape_set(&shape, 0, (struct sl_dim){3, false});
    sl_graph_shape_set(&shape, 2, (struct sl_dim){11, true});
    text_is(shape, "[3,5,B*11]");
}

static void elements_are_counted(void **state) {
    (void)state;
    struct sl_shape shape = SL_SHAPE(3, 1, 2, 5, 7), scalar = {0};
    assert_int_equal(sl_graph_shape_numel(&shape, 1), 70);
    assert_int_equal(sl_graph_shape_numel(&shape, 3), 210);
    assert_int_equal(sl_graph_shape_numel(&scalar, 3), 1);
    assert_true(
        sl_graph_dim_equal(sl_graph_shape_product(&shape, 0, 2), (struct sl_dim){10, true}));
    assert_true(
        sl_graph_dim_equal(sl_graph_shape_product(&shape, 1, 3), (struct sl_dim){35, false}));
    assert_true(
        sl_graph_dim_equal(sl_graph_shape_product(&shape, 1, 1), (struct sl_dim){1, false}));
    text_is(sl_graph_shape_at(&shape, 3), "[6,5,7]");
}

static void equality_sees_the_batch(void **state) {
    (void)state;
    struct sl_shape a = SL_SHAPE(2, 1, 5, 7), b = SL_SHAPE(2, 0, 5, 7), c = SL_SHAPE(1, 1, 5);
    struct sl_shape d = SL_SHAPE(2, 1, 5, 7);
    d.dim[4] = 9; /* behind the rank */
    assert_true(!sl_graph_shape_equal(&a, &b));
    assert_true(!sl_graph_shape_equal(&a, &c));
    assert_true(sl_graph_shape_equal(&a, &d));
}

static void refuse(struct sl_shape shape, const char *why) {
    assert_int_equal(sl_graph_shape_check(&shape), SL_ERR_INPUT);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' does not say '%s'", sl_err_message(), why);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    const int64_t large = (int64_t)1 << 25;
    refuse(SL_SHAPE(2, 3, 5, 7), "[B*5,B*7] has B in two places");
    refuse(SL_SHAPE(2, 1, 0, 7), "[B*0,7] has a size that is not positive");
    refuse(SL_SHAPE(2, 1, 1, -7), "[B,-7] has a size that is not positive");
    refuse(SL_SHAPE(2, 1, large, large), "more than 2^48");
    refuse(SL_SHAPE(2, 1, INT64_MAX, INT64_MAX), "more than 2^48");
    struct sl_shape max = SL_SHAPE(2, 1, SL_MAX_NUMEL, 1), scalar = {0};
    assert_int_equal(sl_graph_shape_check(&max), SL_OK);
    assert_int_equal(sl_graph_shape_check(&scalar), SL_OK);
}

static void broadcast_is(struct sl_shape a, struct sl_shape b, const char *want) {
    struct sl_shape out;
    assert_int_equal(sl_graph_shape_broadcast(&a, &b, &out), SL_OK);
    text_is(out, want);
    assert_int_equal(sl_graph_shape_broadcast(&b, &a, &out), SL_OK);
    text_is(out, want);
}

static void broadcasting_is_that_of_numpy(void **state) {
    (void)state;
    broadcast_is(SL_SHAPE(3, 1, 1, 5, 7), SL_SHAPE(1, 0, 7), "[B,5,7]");
    broadcast_is(SL_SHAPE(3, 1, 1, 5, 1), SL_SHAPE(2, 0, 1, 7), "[B,5,7]");
    broadcast_is(SL_SHAPE(3, 1, 1, 5, 7), (struct sl_shape){0}, "[B,5,7]");
    broadcast_is(SL_SHAPE(2, 1, 1, 7), SL_SHAPE(2, 0, 1, 7), "[B,7]");
    broadcast_is((struct sl_shape){0}, (struct sl_shape){0}, "[]");
    struct sl_shape a = SL_SHAPE(2, 1, 1, 7), out = SL_SHAPE(1, 0, 13);
    const struct sl_shape wrong[] = {SL_SHAPE(2, 1, 1, 5), SL_SHAPE(2, 0, 2, 7),
                                     SL_SHAPE(2, 1, 2, 7), SL_SHAPE(1, 1, 7)};
    for (int i = 0; i < SL_COUNT(wrong); i++) {
        char text[SL_SHAPE_TEXT];
        assert_int_equal(sl_graph_shape_broadcast(&a, &wrong[i], &out), SL_ERR_INPUT);
        assert_non_null(strstr(sl_err_message(), "[B,7]"));
        assert_non_null(strstr(sl_err_message(), sl_graph_shape_text(&wrong[i], text)));
    }
    text_is(out, "[13]"); /* untouched by a refusal */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_shows_the_batch),     cmocka_unit_test(sizes_count_from_either_end),
        cmocka_unit_test(elements_are_counted),     cmocka_unit_test(equality_sees_the_batch),
        cmocka_unit_test(wrong_shapes_are_refused), cmocka_unit_test(broadcasting_is_that_of_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
