/* Pipelines whose workers run on different kinds of device, and on a device whose memory the host
 * cannot read (support/apart.h, computes like the CPU): the bits of one worker. Sums that threads
 * cannot compute are refused. */
#include "pipe/check.h"
#include "support/apart.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static sl_err check(struct pipe_case *c, struct sl_train_config *config, const char *schedule) {
    struct sl_check_report report;
    struct sl_check_config check_config = {
        .pipe = {.train = config, .plan = c->plan, .stage_of = c->stage_of, .schedule = schedule}};
    SL_TRY(sl_pipe_check(&check_config, &report));
    if (report.kind != SL_CHECK_SAME)
        fail_msg("%s: %s differs after step %lld on stage %d", schedule, report.tensor,
                 (long long)report.step, report.stage);
    return SL_OK;
}

static struct sl_train_config config_of(const struct pipe_case *c) {
    struct sl_train_config config = pipe_case_config(c, "adamw", 11, 4, 5);
    config.clip = 0.5;
    return config;
}

/* Every other worker on the apart device; a graph of stages, split backward passes. */
static void test_mixed(void **state) {
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-graph"};
    (void)state;
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct pipe_case c;
        pipe_case_open(&c, pipe_model_diamond);
        struct sl_train_config config = config_of(&c);
        config.kinds[0] = sl_device_find("cpu");
        config.kinds[1] = apart_row();
        config.kind_count = 2;
        c.split = i == 2;
        pipe_case_cut_by_name(&c, &config, 5, NULL);
        if (check(&c, &config, schedules[i]) != SL_OK)
            fail_msg("%s: %s", schedules[i], sl_err_message());
        pipe_case_close(&c);
    }
}

/* All workers on the apart device: ties, dropout, statistics, replicas. */
static void test_apart(void **state) {
    static const int width[] = {2, 2}, at[][2] = {{0, 1}, {2, 3}};
    static const int *const workers[] = {at[0], at[1]};
    static const char *const models[] = {pipe_model_gpt, pipe_model_image};
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct pipe_case c;
        pipe_case_open(&c, models[i]);
        struct sl_train_config config = config_of(&c);
        config.device = apart_row();
        pipe_case_cut(&c, &config, 3, NULL);
        if (check(&c, &config, "1f1b") != SL_OK)
            fail_msg("%s", sl_err_message());
        struct pipe_layout layout = {
            .stages = 2, .workers = 4, .width_of = width, .workers_of = workers};
        pipe_case_cut(&c, &config, 2, NULL);
        pipe_case_lay_out(&c, &config, &layout);
        if (check(&c, &config, "1f1b") != SL_OK)
            fail_msg("replicas: %s", sl_err_message());
        pipe_case_close(&c);
    }
}

/* The embedding and the head tied to it are on different kinds of device. */
static void test_refused(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = config_of(&c);
    config.kinds[0] = sl_device_find("cpu");
    config.kinds[1] = apart_row();
    config.kind_count = 2;
    pipe_case_cut(&c, &config, 2, NULL);
    assert_int_equal(check(&c, &config, "1f1b"), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "devices 'cpu' and 'apart' share tied weights"));
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mixed), cmocka_unit_test(test_apart),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
