/* An asynchronous run that is asked to stop ends soon, after whole steps. Its weights and reports are
 * those of a run planned with that length, bit for bit, and so is its continuation. A synchronous
 * run ends as planned. */
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

enum { STEPS = 60, REST = 5, PATIENCE = 300 };
/* Worker 0, which has 17 or 18 actions a step, waits before an action until a later step is
 * reported: first the first step, then one that had not ended at the first stop. */
static const struct { int64_t action, told; } stations[] = {{60, 0}, {200, 6}};

/* A chain: no worker gets far without worker 0. */
static const char model[] =
    "model chain\ninput x : float[B, 6]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[5, 7] ~ normal(0.4)\n"
    "param s2_w[4, 5] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(relu(matmul(relu(matmul(x, s0_w, tb = 1)), s1_w, tb = 1)), s2_w, "
    "tb = 1), label)\n";

struct desk {
    pthread_mutex_t mutex;
    pthread_cond_t heard;
    atomic_int stop;
    int64_t last; /* the last reported step */
    bool content; /* does not ask to stop */
};

/* The reporter checks for a stop request before it reports the steps that have ended. If it reports
 * a step that had not ended when the request came, it has seen the request. */
static void ask_to_stop(void *ctx, const struct sl_step_report *report) {
    struct desk *desk = ctx;
    pthread_mutex_lock(&desk->mutex);
    desk->last = report->step;
    desk->stop = !desk->content;
    pthread_cond_broadcast(&desk->heard);
    pthread_mutex_unlock(&desk->mutex);
}

static sl_err wait_for_news(void *ctx, int worker, int64_t action) {
    struct desk *desk = ctx;
    for (int i = 0; worker == 0 && i < SL_COUNT(stations); i++) {
        if (action != stations[i].action)
            continue;
        pthread_mutex_lock(&desk->mutex);
        while (desk->last <= stations[i].told)
            pthread_cond_wait(&desk->heard, &desk->mutex);
        pthread_mutex_unlock(&desk->mutex);
    }
    return SL_OK;
}

static void same_weights(const struct sl_pipe *a, const struct sl_pipe *b, const char *schedule,
                         const char *when) {
    for (int s = 0; s < sl_pipe_stage_count(a); s++) {
        const struct sl_worker *x = sl_pipe_worker(a, s), *y = sl_pipe_worker(b, s);
        size_t bytes = (size_t)x->programs[SL_WORKER_FULL]->param_bytes;
        if (memcmp(x->param[sl_pipe_newest(a, s)], y->param[sl_pipe_newest(b, s)], bytes) != 0)
            fail_msg("%s: other weights on stage %d %s", schedule, s, when);
    }
}

static void run(struct sl_pipe *pipe, int64_t steps, struct sl_step_report *reports) {
    if (sl_pipe_run(pipe, steps, reports) != SL_OK)
        fail_msg("%s", sl_err_message());
}

/* Runs a schedule until it stops; returns how many of STEPS ran. */
static int64_t try_schedule(struct sl_pipe_config config) {
    static struct sl_step_report stopped[STEPS], planned[STEPS];
    struct desk desk = {.mutex = PTHREAD_MUTEX_INITIALIZER, .heard = PTHREAD_COND_INITIALIZER};
    struct sl_pipe *a = NULL, *b = NULL;
    alarm(PATIENCE);
    assert_int_equal(sl_pipe_open(&config, &b), SL_OK);
    config.hooks = (struct sl_run_hooks){.on_step = ask_to_stop, .ctx = &desk, .stop = &desk.stop};
    config.on_action_ctx = &desk;
    config.on_action = wait_for_news;
    config.trace = true;
    assert_int_equal(sl_pipe_open(&config, &a), SL_OK);
    run(a, STEPS, stopped);
    int64_t ran = sl_pipe_ran(a);
    assert_true(ran > 0 && ran <= STEPS);
    assert_int_equal(sl_pipe_step_count(a), ran);
    assert_non_null(sl_pipe_timeline(a));
    run(b, ran, planned);
    same_weights(a, b, config.schedule, "where it stopped");
    for (int64_t i = 0; i < ran; i++) {
        assert_int_equal(stopped[i].step, i + 1);
        assert_memory_equal(&stopped[i].loss, &planned[i].loss, sizeof planned[i].loss);
        assert_memory_equal(&stopped[i].norm, &planned[i].norm, sizeof planned[i].norm);
    }
    desk.content = true;
    desk.stop = 0;
    run(a, REST, stopped);
    run(b, REST, planned);
    assert_int_equal(sl_pipe_ran(a), REST);
    same_weights(a, b, config.schedule, "behind it");
    sl_pipe_close(a);
    sl_pipe_close(b);
    alarm(0);
    return ran;
}

static void runs_stop_when_asked(void **state) {
    static const char *const schedules[] = {"2bw", "stash", "vsync", "async", "paci"};
    (void)state;
    struct pipe_case c;
    int64_t left = 0;
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "adamw", 8, 4, STEPS + REST);
    pipe_case_cut_by_name(&c, &train, 3, NULL);
    struct sl_pipe_config config = {.train = &train, .plan = c.plan, .stage_of = c.stage_of};
    for (int i = 0; i < 2 * SL_COUNT(schedules); i++) {
        config.schedule = schedules[i / 2];
        config.global_step = i % 2;
        int64_t ran = try_schedule(config);
        if (ran == STEPS)
            fail_msg("%s went to its end", config.schedule);
        left += STEPS - ran;
    }
    pipe_case_close(&c);
    printf("count: %lld steps left out in %d runs\n", (long long)left, 2 * SL_COUNT(schedules));
}

/* The stop is requested before the run begins: a synchronous or very short run ignores it. */
static void others_go_to_their_end(void **state) {
    static const struct {
        const char *schedule;
        int64_t steps;
    } cases[] = {{"1f1b", 9}, {"2bw", 1}};
    (void)state;
    struct pipe_case c;
    atomic_int stop = 1;
    struct sl_step_report reports[9];
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "adamw", 8, 4, 9);
    pipe_case_cut_by_name(&c, &train, 3, NULL);
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_pipe *pipe = NULL;
        struct sl_pipe_config config = {.train = &train,
                                        .plan = c.plan,
                                        .stage_of = c.stage_of,
                                        .schedule = cases[i].schedule,
                                        .hooks = {.stop = &stop}};
        assert_int_equal(sl_pipe_open(&config, &pipe), SL_OK);
        run(pipe, cases[i].steps, reports);
        assert_int_equal(sl_pipe_ran(pipe), cases[i].steps);
        sl_pipe_close(pipe);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs_stop_when_asked),
                                       cmocka_unit_test(others_go_to_their_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
