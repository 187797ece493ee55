/* The current speed of a run. */
#include "job/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void step(struct sl_job_stats *stats, int64_t samples, int64_t ns) {
    struct sl_step_report report = {.samples = samples, .dur_ns = ns};
    sl_job_stats_step(stats, &report);
}

static void an_even_pace_is_known_at_once(void **state) {
    (void)state;
    struct sl_job_stats stats = {0};
    for (int i = 0; i < 30; i++) {
        step(&stats, 8, 2000000000);
        assert_float_equal(sl_job_stats_rate(&stats), 4, 1e-9);
        assert_in_range(sl_job_stats_left_ns(&stats, 3), 5999999999, 6000000001);
    }
}

/* A pipeline without flushes ends its last steps almost at once. */
static void a_burst_of_ends_is_no_speed(void **state) {
    (void)state;
    struct sl_job_stats stats = {0};
    for (int i = 0; i < 10; i++)
        step(&stats, 8, 2000000000);
    step(&stats, 8, 1000);
    step(&stats, 8, 1000);
    assert_true(sl_job_stats_rate(&stats) > 4 && sl_job_stats_rate(&stats) < 6);
}

static void another_pace_is_noticed(void **state) {
    (void)state;
    struct sl_job_stats stats = {0};
    step(&stats, 8, 60000000000); /* warm-up */
    for (int i = 0; i < 60; i++)
        step(&stats, 8, 1000000000);
    assert_float_equal(sl_job_stats_rate(&stats), 8, 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_even_pace_is_known_at_once),
        cmocka_unit_test(a_burst_of_ends_is_no_speed),
        cmocka_unit_test(another_pace_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
