/* JSON: integers are exact, numbers of the wrong kind are refused, strings are UTF-8. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static sl_err take(const char *text, int64_t low, int64_t high, int64_t *out) {
    struct sl_json_in json;
    sl_json_read(&json, "test", text, strlen(text));
    return sl_json_take_int(&json, low, high, out);
}

static void whole_numbers_are_exact(void **state) {
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-7", -7},
        {"5e1", 50},
        {"5e+01", 50},
        {"12.0", 12},
        {"9007199254740993", 9007199254740993}, /* 2^53 + 1: no double */
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 1;
        assert_int_equal(take(good[i].text, INT64_MIN, INT64_MAX, &value), SL_OK);
        assert_true(value == good[i].value);
    }
}

static void others_are_refused(void **state) {
    static const char *const bad[] = {
        "1.5", "9223372036854775808", "-9223372036854775809", "1e19", "1e300", "\"1\"", "true", "-",
        "+1"};
    int64_t value;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(take(bad[i], INT64_MIN, INT64_MAX, &value), SL_ERR_INPUT);
    assert_int_equal(take("8", 0, 7, &value), SL_ERR_INPUT);
    assert_int_equal(take("-1", 0, 7, &value), SL_ERR_INPUT);
}

static sl_err read_all(const char *text) {
    struct sl_json_in json;
    sl_json_read(&json, "test", text, strlen(text));
    do {
        sl_err err = sl_json_next(&json);
        if (err != SL_OK)
            return err;
    } while (json.event != SL_JSON_END);
    return SL_OK;
}

static void a_key_is_given_once(void **state) {
    static const char *const good[] = {"{\"a\": 1, \"b\": 2}",
                                       "{\"a\": {\"a\": 1}, \"b\": {\"a\": 2}}",
                                       "[{\"a\": 1}, {\"a\": 1}]", "{\"\": 1, \"a\": \"a\"}"};
    static const char *const bad[] = {
        "{\"a\": 1, \"a\": 1}", "{\"\": 1, \"\": 2}", "{\"a\": {\"x\": 1}, \"b\": 1, \"a\": 2}",
        "[[{\"k\": {\"z\": 1, \"y\": 2, \"z\": 3}}]]", "{\"a\": 1, \"\\u0061\": 2}"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(read_all(good[i]), SL_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(read_all(bad[i]), SL_ERR_INPUT);
}

static void a_number_is_kept_as_written(void **state) {
    struct sl_json_in json;
    (void)state;
    sl_json_read(&json, "test", "[2e+03]", 7);
    assert_int_equal(sl_json_next(&json), SL_OK);
    assert_int_equal(sl_json_take(&json, SL_JSON_NUMBER), SL_OK);
    assert_true(sl_str_is(json.string, "2e+03"));
}

/* Valid characters are kept, invalid bytes become U+FFFD, and a second write changes nothing. */
static void strings_are_utf8(void **state) {
    static const struct {
        const char *value, *want;
    } rows[] = {
        {"a\"\\\n\x7f", "\"a\\\"\\\\\\u000a\x7f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xff", "\"\xef\xbf\xbd\""},
        {"\xc3", "\"\xef\xbf\xbd\""},                                 /* truncated */
        {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* overlong */
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* surrogate */
        {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xe2\x82z", "\"\xef\xbf\xbd\xef\xbf\xbdz\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sl_text text = {0};
        struct sl_json_out json = {.text = &text};
        sl_json_string(&json, rows[i].value);
        assert_string_equal(text.at, rows[i].want);
        sl_text_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_exact), cmocka_unit_test(others_are_refused),
        cmocka_unit_test(a_key_is_given_once),     cmocka_unit_test(a_number_is_kept_as_written),
        cmocka_unit_test(strings_are_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
