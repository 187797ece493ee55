/* The checkpoint interval: worked examples, and no cost above the share. */
#include "base/rng.h"
#include "plan/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void worked_examples(void **state) {
    static const struct {
        struct sl_pace pace;
        int64_t steps;
    } rows[] = {
        /* 7 + 23 = 30 ms in a thousand */
        {{.share = 0.03, .step_ns = 10, .stall_ns = 7, .cpu_ns = 23}, 100},
        /* 3 % would be every second step, but the disk needs five of them */
        {{.share = 0.03, .step_ns = 100, .stall_ns = 2, .cpu_ns = 4, .write_ns = 500}, 5},
        /* the minimum time between saves */
        {{.share = 0.03, .step_ns = 100, .stall_ns = 1, .least_ns = 1700}, 17},
        {{.share = 0.03, .step_ns = 1000000, .stall_ns = 1}, 1},
        {{.share = 0.03, .step_ns = 0, .stall_ns = 3}, 100},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(sl_plan_pace_steps(&rows[i].pace), rows[i].steps);
}

static void never_above_the_share(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        struct sl_pace pace = {.share = 0.01 + 0.1 * sl_rng_uniform(1, 0, i),
                               .least_ns = sl_rng_below(1, 1, i, 1 << 20),
                               .step_ns = 1 + sl_rng_below(1, 2, i, 1 << 12),
                               .stall_ns = sl_rng_below(1, 3, i, 1 << 16),
                               .cpu_ns = sl_rng_below(1, 4, i, 1 << 16),
                               .write_ns = sl_rng_below(1, 5, i, 1 << 20)};
        int64_t steps = sl_plan_pace_steps(&pace);
        assert_true(sl_plan_pace_cost(&pace, steps) <= pace.share * (1 + 1e-12));
        assert_true(steps * pace.step_ns >= pace.least_ns && steps * pace.step_ns >= pace.write_ns);
        /* and the interval is minimal */
        int64_t less = (steps - 1) * pace.step_ns;
        assert_true(steps == 1 || less < pace.least_ns || less < pace.write_ns ||
                    sl_plan_pace_cost(&pace, steps - 1) > pace.share * (1 - 1e-12));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worked_examples),
        cmocka_unit_test(never_above_the_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
