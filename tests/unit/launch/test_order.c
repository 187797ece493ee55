/* Orders of the launcher: round trip, and everything that is no order is refused. */
#include "launch/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct sl_launch_order sample(void) {
    struct sl_launch_order order = {.directory = "/a 'b'; c\n",
                                    .program = "/usr/bin/x",
                                    .silence_s = 7,
                                    .env = {"SLUICE_KEY=s=e", "SLUICE_RANK=1"},
                                    .env_count = 2,
                                    .argv = {"sluice", "train", "", "$(touch x)"},
                                    .argc = 4};
    return order;
}

static sl_err read_text(struct sl_text *text, struct sl_launch_order *out) {
    char line[SL_LAUNCH_ORDER_HEAD_MAX];
    const char *end = memchr(text->at, '\n', text->length);
    int64_t length;
    assert_non_null(end);
    snprintf(line, sizeof line, "%.*s", (int)(end - text->at), text->at);
    SL_TRY(sl_launch_order_read_head(line, &length));
    assert_int_equal(length, text->length - (size_t)(end + 1 - text->at));
    return sl_launch_order_read(end + 1, length, out);
}

static void test_round_trip(void **state) {
    struct sl_launch_order order = sample(), got;
    struct sl_text text = {0}, again = {0};
    (void)state;
    sl_launch_order_write(&order, &text);
    assert_int_equal(read_text(&text, &got), SL_OK);
    assert_string_equal(got.directory, order.directory);
    assert_string_equal(got.program, order.program);
    assert_int_equal(got.silence_s, 7);
    assert_int_equal(got.argc, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(got.argv[i], order.argv[i]);
    assert_null(got.argv[4]);
    assert_string_equal(got.env[0], "SLUICE_KEY=s=e");
    assert_null(got.env[2]);
    sl_launch_order_write(&got, &again);
    assert_int_equal(again.length, text.length);
    assert_memory_equal(again.at, text.at, text.length);
    sl_text_free(&text);
    sl_text_free(&again);
}

static void test_heads(void **state) {
    static const char *const bad[] = {"",
                                      "sluice order 2 10",
                                      "sluice order 1 ",
                                      "sluice order 1 0",
                                      "sluice order 1 -5",
                                      "sluice order 1 99999999999",
                                      "sluice order 1 10x"};
    int64_t length;
    (void)state;
    for (int i = 0; i < SL_COUNT(bad); i++)
        assert_int_not_equal(sl_launch_order_read_head(bad[i], &length), SL_OK);
    assert_int_equal(sl_launch_order_read_head("sluice order 1 10", &length), SL_OK);
    assert_int_equal(length, 10);
}

static void refuse(const char *fields, int64_t length) {
    struct sl_launch_order out;
    assert_int_not_equal(sl_launch_order_read(fields, length, &out), SL_OK);
}

#define REFUSE(fields) refuse(fields, sizeof(fields) - 1)

static void test_sabotage(void **state) {
    struct sl_launch_order out;
    static const char good[] = "d/\0p/x\0s1\0ax\0";
    (void)state;
    assert_int_equal(sl_launch_order_read(good, sizeof good - 1, &out), SL_OK);
    REFUSE("d/\0p/x\0s1\0ax");       /* does not end */
    REFUSE("p/x\0s1\0ax\0");         /* no directory */
    REFUSE("d/\0s1\0ax\0");          /* no program */
    REFUSE("d/\0p/x\0s1\0");         /* no arguments */
    REFUSE("d/\0p/x\0ax\0");         /* no silence */
    REFUSE("d/\0p/x\0s0\0ax\0");     /* killed at once */
    REFUSE("d/\0p/x\0s1\0ax\0eX\0"); /* no value */
    REFUSE("d/\0p/x\0s1\0ax\0\0");   /* an empty field */
    REFUSE("d/\0p/x\0s1\0ax\0z\0");  /* an unknown one */
    refuse(good, 0);
}

static void test_too_many(void **state) {
    struct sl_text text = {0};
    (void)state;
    sl_text_put_bytes(&text, "d/\0p/x\0s1\0", 10);
    for (int i = 0; i < SL_ARGS_MAX + 4; i++)
        sl_text_put_bytes(&text, "ax\0", 3);
    refuse(text.at, (int64_t)text.length);
    sl_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_heads),
        cmocka_unit_test(test_sabotage), cmocka_unit_test(test_too_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
