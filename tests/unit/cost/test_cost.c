/* Cost tables: text round trip, interpolation, wrong files. */
#include "cost/cost.h"
#include "support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const char good[] =
    "sluice-cost 1\n"
    "measured \"gpt\" on \"cpu\" threads 1 busy 2\n"
    "step bandwidth 2.1e+03\n"
    "version bandwidth 6.5e+03\n"
    "link bandwidth 5.2e+03 latency 900\n"
    "action 350\n"
    "again 910000\n"
    "cold f 40 b 90 after 5000\n"
    "tempo 1000000 998000 1250000\n"
    "tempo 1400000 0 1000000000\n"
    "unit \"00000000000000a1\" micro 2 f 100 i 200 w 300 spread 0.02 seen 18 \"h.0.mlp\"\n"
    "unit \"00000000000000a1\" micro 4 f 180 i 380 w 560 spread 0.02 seen 18 \"h.0.mlp\"\n"
    "unit \"00000000000000b2\" micro 4 f 7 i 11 w 13 spread 0 seen 1 \"loss\"\n";

static sl_err read_text(struct sl_arena *arena, const char *text, const struct sl_cost **out) {
    return sl_cost_read(arena, "t", text, strlen(text), out);
}

static void round_trip(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_cost *c;
    assert_int_equal(read_text(&arena, good, &c), SL_OK);
    assert_true(c->tempo.workers == 2 && c->tempo.passes == 3);
    assert_int_equal(sl_tempo_at(&c->tempo, 3, 3), 1400000); /* both wrap around */
    sl_cost_write(c, &text);
    assert_string_equal(text.at, good);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void look_up(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_cost *c;
    struct sl_cost_row row;
    assert_int_equal(read_text(&arena, good, &c), SL_OK);
    assert_true(sl_cost_find(c, 0xa1, 2, &row) && row.f == 100 && row.i == 200 && row.w == 300);
    assert_true(sl_cost_find(c, 0xa1, 4, &row) && row.f == 180);
    assert_true(sl_cost_find(c, 0xa1, 3, &row) && row.f == 140 && row.i == 290 && row.w == 430);
    assert_true(sl_cost_find(c, 0xa1, 8, &row) && row.f == 340); /* last slope */
    assert_true(sl_cost_find(c, 0xa1, 1, &row) && row.f == 60);
    assert_true(sl_cost_find(c, 0xb2, 8, &row) && row.f == 14); /* one size: proportional */
    assert_false(sl_cost_find(c, 0xa2, 2, &row));
    sl_arena_free(&arena);
}

static sl_err reads(struct sl_arena *arena, const char *text) {
    const struct sl_cost *out;
    return read_text(arena, text, &out);
}

static void sabotage(void **state) {
    (void)state;
    static const struct sabotage rows[] = {
        {"sluice-cost 1", "sluice-cost 3", "format 3"},
        {"threads 1", "threads 0", "threads is not in"},
        {"00000000000000b2", "b2", "sixteen"},
        {"version bandwidth 6.5e+03", "version bandwidth -1", "out of range"},
        {"version bandwidth", "version width", "expected 'bandwidth'"},
        {"again 910000", "again -1", "again is in millionths"},
        {"again 910000", "again 1000000001", "again is in millionths"},
        {"cold f 40", "cold f -4", "cold of the cost table"},
        {"after 5000", "after 5000000000", "cold of the cost table"},
        {"b 90 after", "b 90 before", "expected 'after'"},
        {"tempo 1000000 ", "tempo ", "as many for every worker"},
        {"tempo 1400000 0 1000000000", "tempo", "1 to 4096 passes"},
        {"tempo 1000000", "tempo -1", "1 to 4096 passes"},
        {"0 1000000000", "0 1000000001", "millionths"},
        {"998000", "0.998", "end of the line"},
        {"micro 2", "micro 0", "micro is not in"},
        {"micro 2", "micro 4", "twice"},
        {"seen 1 ", "seen 0 ", "number of measurements"},
        {"f 7", "f 9223372036854775807", "out of range"},
        {"bandwidth 2.1e+03", "bandwidth 1e300", "out of range"},
        {"\"cpu\"", "\"\"", "names a model and a device"},
        {"unit", "unitt", "expected measured"},
    };
    sabotage_text(good, rows, SL_COUNT(rows), reads);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip), cmocka_unit_test(look_up),
                                       cmocka_unit_test(sabotage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
