/* A pipeline without flushes reports its steps while it is full: the first one early, all of them
 * in order, and with the numbers of the final reports. */
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 12, RUNS = 2, NCCL_LINK = 60, PATIENCE = 300 };

/* Two losses, on stages that do not wait for each other. */
static const char model[] =
    "model branches\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[4, 7] ~ normal(0.4)\n"
    "param s2_w[4, 5] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(relu(matmul(x, s0_w, tb = 1)), s1_w, tb = 1), label) weight 0.6\n"
    "loss cross_entropy(matmul(y, s2_w, tb = 1), label) weight 0.4\n";

struct ear {
    pthread_mutex_t mutex;
    pthread_cond_t heard;
    struct sl_step_report told[RUNS * STEPS];
    int count, run; /* reported steps; the run in progress */
};

static void listen(void *ctx, const struct sl_step_report *report) {
    struct ear *ear = ctx;
    pthread_mutex_lock(&ear->mutex);
    if (ear->count < RUNS * STEPS)
        ear->told[ear->count++] = *report;
    pthread_cond_broadcast(&ear->heard);
    pthread_mutex_unlock(&ear->mutex);
}

/* In the middle of a run, worker 0 waits until one of its steps has been reported. */
static sl_err wait_for_word(void *ctx, int worker, int64_t action) {
    struct ear *ear = ctx;
    if (worker != 0 || action != NCCL_LINK)
        return SL_OK;
    pthread_mutex_lock(&ear->mutex);
    while (!ear->count || ear->told[ear->count - 1].step <= (int64_t)ear->run * STEPS)
        pthread_cond_wait(&ear->heard, &ear->mutex);
    pthread_mutex_unlock(&ear->mutex);
    return SL_OK;
}

static void same(double a, double b, const char *schedule, const char *what) {
    if (memcmp(&a, &b, sizeof a) != 0)
        fail_msg("%s: the %s that was told is %.17g, at the end it is %.17g", schedule, what, a, b);
}

static int try_schedule(struct sl_pipe_config config) {
    struct sl_step_report reports[RUNS * STEPS];
    struct ear ear = {.mutex = PTHREAD_MUTEX_INITIALIZER, .heard = PTHREAD_COND_INITIALIZER};
    struct sl_pipe *pipe = NULL;
    config.hooks = (struct sl_run_hooks){.on_step = listen, .ctx = &ear};
    config.on_action_ctx = &ear;
    alarm(PATIENCE);
    assert_int_equal(sl_pipe_open(&config, &pipe), SL_OK);
    for (; ear.run < RUNS; ear.run++)
        if (sl_pipe_run(pipe, STEPS, reports + (ptrdiff_t)ear.run * STEPS) != SL_OK)
            fail_msg("%s: %s", config.schedule, sl_err_message());
    sl_pipe_close(pipe);
    alarm(0);
    for (int i = 0; i < ear.count; i++) {
        const struct sl_step_report *told = &ear.told[i], *end = &reports[told->step - 1];
        assert_true(told->step >= 1 && told->step <= RUNS * STEPS);
        assert_true(i == 0 || told->step > ear.told[i - 1].step);
        assert_int_equal(told->step, end->step);
        assert_int_equal(told->samples, end->samples);
        assert_int_equal(told->dur_ns, end->dur_ns);
        same(told->loss, end->loss, config.schedule, "loss");
        same(told->norm, end->norm, config.schedule, "norm");
        same(told->lr, end->lr, config.schedule, "rate");
    }
    /* With a global norm, 2bw ends its last two steps together; each is reported with half the
     * time. */
    bool late = config.global_step && strcmp(config.schedule, "2bw") == 0;
    if (late)
        assert_int_equal(reports[RUNS * STEPS - 1].dur_ns, reports[RUNS * STEPS - 2].dur_ns);
    return ear.count;
}

static void steps_are_told_while_the_pipeline_is_full(void **state) {
    static const char *const schedules[] = {"2bw", "stash", "async"};
    (void)state;
    struct pipe_case c;
    int count = 0;
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "adamw", 8, 4, RUNS * STEPS);
    pipe_case_cut_by_name(&c, &train, 3, NULL);
    struct sl_pipe_config config = {
        .train = &train, .plan = c.plan, .stage_of = c.stage_of, .on_action = wait_for_word};
    for (int i = 0; i < 2 * SL_COUNT(schedules); i++) {
        config.schedule = schedules[i / 2];
        config.global_step = i % 2;
        count += try_schedule(config);
    }
    config.on_action = NULL;
    config.schedule = "1f1b";
    assert_int_equal(try_schedule(config), 0); /* every step is reported before the run ends */
    pipe_case_close(&c);
    printf("count: %d steps told early\n", count);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps_are_told_while_the_pipeline_is_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
