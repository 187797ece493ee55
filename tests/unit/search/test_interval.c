/* The 90 % interval of a forecast covers 90 % of runs whose passes and model errors vary as stated. */
#include "base/rng.h"
#include "search/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const double pi = 3.14159265358979323846;

/* A normal number by Box and Muller. */
static double normal(uint64_t at) {
    double u = (double)(sl_rng_below(7, 1, 2 * at, 1 << 30) + 1) / (1 << 30);
    double v = (double)sl_rng_below(7, 1, 2 * at + 1, 1 << 30) / (1 << 30);
    return sqrt(-2 * log(u)) * cos(2 * pi * v);
}

static double covered(double spread) {
    enum { RUNS = 4000 };
    const struct sl_cost_row rows[] = {{.f = 100, .i = 50, .w = 50, .spread = spread}};
    const struct sl_cost cost = {.rows = rows, .row_count = 1};
    const int64_t step = 1000000;
    struct sl_forecast_interval in = sl_search_forecast_interval(&cost, step, 0);
    int inside = 0;
    for (uint64_t r = 0; r < RUNS; r++) {
        double model = log(1.15) / 1.645 * normal(2 * r);   /* 90 % within 15 % */
        double passes = spread / 2.563 * normal(2 * r + 1); /* p90 - p10 = spread */
        double ns = (double)step * exp(model + passes);
        inside += ns >= (double)in.low_ns && ns <= (double)in.high_ns;
    }
    return (double)inside / RUNS;
}

static void coverage(void **state) {
    (void)state;
    const double spreads[] = {0, 0.05, 0.2, 0.4};
    for (int i = 0; i < SL_COUNT(spreads); i++) {
        double share = covered(spreads[i]);
        if (!(share > 0.87 && share < 0.93))
            fail_msg("spread %g: %g of the runs", spreads[i], share);
    }
}

/* Rows count by their time; the upper end begins at the step of shared cores. */
static void ends(void **state) {
    (void)state;
    const struct sl_cost_row rows[] = {{.f = 900, .spread = 0.1}, {.f = 100, .spread = 2}};
    const struct sl_cost cost = {.rows = rows, .row_count = 2}, none = {0};
    struct sl_forecast_interval in = sl_search_forecast_interval(&cost, 1000, 0);
    double width = exp(sqrt(log(1.15) * log(1.15) + 0.64 * 0.29 * 0.64 * 0.29));
    assert_int_equal(in.low_ns, llround(1000 / width));
    assert_int_equal(in.high_ns, llround(1000 * width));
    in = sl_search_forecast_interval(&none, 1000, 3000);
    assert_int_equal(in.low_ns, llround(1000 / 1.15));
    assert_int_equal(in.high_ns, 3450);
    in = sl_search_forecast_interval(&none, INT64_MAX, 0);
    assert_true(in.high_ns == INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(coverage), cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
