/* forecast.json: round trip, and refused files. */
#include "report/forecast.h"
#include "support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const char good[] = "{\n"
                           "  \"cost\": \"a \\\"b\\\".cost\",\n"
                           "  \"step_ns\": 1200,\n"
                           "  \"low_ns\": 1000,\n"
                           "  \"high_ns\": 1500,\n"
                           "  \"bubble\": 0.25,\n"
                           "  \"costs\": \"s0:F=1,B=2\",\n"
                           "  \"cold\": \"F=4,B=9,after=50\",\n"
                           "  \"links\": \"latency=9ns\"\n"
                           "}\n";

static sl_err reads(struct sl_arena *arena, const char *text) {
    const struct sl_forecast *out;
    return sl_report_forecast_read(arena, "t", text, strlen(text), &out);
}

static void round_trip(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_forecast *f;
    assert_int_equal(sl_report_forecast_read(&arena, "t", good, strlen(good), &f), SL_OK);
    assert_string_equal(f->cost, "a \"b\".cost");
    assert_string_equal(f->costs, "s0:F=1,B=2");
    assert_string_equal(f->links, "latency=9ns");
    assert_string_equal(f->cold, "F=4,B=9,after=50");
    assert_true(f->low_ns == 1000 && f->high_ns == 1500);
    assert_true(f->step_ns == 1200 && f->bubble == 0.25);
    sl_report_forecast_write(f, &text);
    assert_string_equal(text.at, good);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* Tables without that line, and files of earlier versions. */
static void without_cold(void **state) {
    (void)state;
    static const char plain[] = "{\n"
                                "  \"cost\": \"x.cost\",\n"
                                "  \"step_ns\": 1,\n"
                                "  \"bubble\": 0.0,\n"
                                "  \"costs\": \"F=1\",\n"
                                "  \"links\": \"\"\n"
                                "}\n";
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_forecast *f;
    assert_int_equal(sl_report_forecast_read(&arena, "t", plain, strlen(plain), &f), SL_OK);
    assert_null(f->cold);
    sl_report_forecast_write(f, &text);
    assert_null(strstr(text.at, "cold"));
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void sabotage(void **state) {
    (void)state;
    static const struct sabotage rows[] = {
        {"\"cost\"", "\"cast\"", "has cost, costs and links"},
        {"\"costs\": \"s0:F=1,B=2\"", "\"costs\": 3", "t:7"},
        {"\"cold\": \"F=4,B=9,after=50\"", "\"cold\": null", "t:8"},
        {"1200", "0", "step_ns is not positive"},
        {"1200", "-7", "t:3"},
        {"\"low_ns\": 1000", "\"low_ns\": 1300", "not between low_ns and high_ns"},
        {"1500", "1100", "not between low_ns and high_ns"},
        {"0.25", "1.5", "bubble is not in"},
        {"0.25", "null", "t:6"},
        {"}", "", "t:"},
        {"}", "} 1", "t:"},
    };
    sabotage_text(good, rows, SL_COUNT(rows), reads);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(without_cold),
                                       cmocka_unit_test(sabotage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
