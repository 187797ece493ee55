/* Scaled losses. Powers of two are exact: a scaled run has the bits of an unscaled one, on one
 * worker and in pipelines. If the scale makes a gradient overflow, all workers skip the same steps
 * and choose the same scales. */
#include "pipe/check.h"
#include "sched/lag.h"
#include "schedules/schedule.h"
#include "support/data_files.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { STEPS = 16 };

static void set_scale(struct sl_train_config *config, const char *text) {
    SL_TEST_OK(sl_optim_loss_scale_parse(text, &config->loss_scale));
}

static struct sl_train *run_one(const struct sl_train_config *config,
                                struct sl_step_report *reports) {
    struct sl_train *train = NULL;
    SL_TEST_OK(sl_run_train_open(config, &train));
    for (int i = 0; i < STEPS; i++)
        SL_TEST_OK(sl_run_train_step(train, &reports[i]));
    return train;
}

static void assert_same(const struct sl_train *a, const struct sl_train *b) {
    size_t bytes = (size_t)a->worker->programs[SL_WORKER_FULL]->param_bytes;
    assert_memory_equal(a->worker->param[0], b->worker->param[0], bytes);
    for (int s = 0; s < a->worker->state_count; s++)
        assert_memory_equal(a->worker->opt[s], b->worker->opt[s], bytes);
}

/* Clipping in effect, every optimizer: weights, state, norms and losses. */
static void same_bits(void **state) {
    static const char *const optimizers[] = {"adamw", "momentum", "muon", "lion"};
    static const char *const scales[] = {"4096", "dynamic:start=256,every=2"};
    struct sl_step_report plain[STEPS], scaled[STEPS];
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    for (int o = 0; o < SL_COUNT(optimizers); o++)
        for (int k = 0; k < SL_COUNT(scales); k++) {
            struct sl_train_config config = pipe_case_config(&c, optimizers[o], 6, 3, STEPS);
            config.clip = o % 2 ? 0 : 0.05;
            struct sl_train *a = run_one(&config, plain);
            set_scale(&config, scales[k]);
            struct sl_train *b = run_one(&config, scaled);
            assert_same(a, b);
            for (int i = 0; i < STEPS; i++) {
                double told = k == 0 ? 4096 : 256.0 * (double)(1 << i / 2);
                assert_true(plain[i].loss == scaled[i].loss && plain[i].norm == scaled[i].norm);
                assert_true(plain[i].loss_scale == 0 && scaled[i].loss_scale == told);
            }
            sl_run_train_close(a);
            sl_run_train_close(b);
        }
    pipe_case_close(&c);
}

static void check(const struct pipe_case *c, const struct sl_train_config *config,
                  const char *schedule) {
    struct sl_check_report report;
    struct sl_check_config check = {
        .pipe = {.train = config, .plan = c->plan, .stage_of = c->stage_of, .schedule = schedule}};
    SL_TEST_OK(sl_pipe_check(&check, &report));
    if (report.kind != SL_CHECK_SAME)
        fail_msg("%s: %s of stage %d differs in step %lld", schedule, report.tensor, report.stage,
                 (long long)report.step);
}

static void pipelines(void **state) {
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1"};
    static const int width[] = {2, 1, 3}, seats[3][3] = {{0, 1}, {2}, {3, 4, 5}};
    static const int *const workers[] = {seats[0], seats[1], seats[2]};
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 6, 3, 5);
    config.clip = 0.05;
    set_scale(&config, "dynamic:start=256,every=2");
    pipe_case_cut(&c, &config, 3, NULL);
    for (int i = 0; i < SL_COUNT(schedules); i++)
        check(&c, &config, schedules[i]);
    struct pipe_layout layout = {
        .stages = 3, .workers = 6, .width_of = width, .workers_of = workers};
    pipe_case_lay_out(&c, &config, &layout);
    check(&c, &config, "1f1b");
    pipe_case_close(&c);
}

/* The gradient of s0_w is 1e35 times the scale (two samples in a micro-batch): infinite from 4096
 * on. Nothing else overflows. */
static const char steep[] = "model steep\ninput x : float[B, 3]\n"
                            "param s0_w[3] ~ const(1e-38)\nparam s1_w[3] ~ ones\n"
                            "a = scale(s0_w, 5e34) + x * 0\n"
                            "loss reduce_sum(a * s1_w)\n";
enum { TOO_MUCH = 4096 };

static void check_steep(const struct sl_step_report *reports, int lag, const char *what) {
    struct sl_loss_scale rule = {true, 65536, 3};
    double value[STEPS + 1] = {65536};
    int64_t good = 0;
    int skips = 0, doubled = 0;
    for (int i = 0; i < STEPS; i++) {
        double used = value[i > lag ? i - lag : 0], next = value[i];
        bool skipped = used >= TOO_MUCH;
        if (reports[i].loss_scale != used || reports[i].skipped != skipped)
            fail_msg("%s: step %d has scale %g and is %sskipped; expected %g", what, i + 1,
                     reports[i].loss_scale, reports[i].skipped ? "" : "not ", used);
        if (skipped)
            assert_int_equal(reports[i].bad.kind, SL_BAD_SCALE);
        else
            assert_true(isfinite(reports[i].norm));
        if (skipped && used <= next) {
            next = used / 2;
            good = 0;
        } else if (!skipped && used == next && ++good == rule.every) {
            next = 2 * next;
            good = 0;
            doubled++;
        }
        value[i + 1] = next;
        skips += skipped;
    }
    assert_true(skips >= 6 && doubled >= 1);
}

static void overflow(void **state) {
    static const char *const schedules[] = {"1f1b", "zb-h1", "2bw", "stash", "vsync", "async"};
    struct sl_step_report one[STEPS], reports[STEPS];
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, steep);
    struct sl_train_config config = pipe_case_config(&c, "sgd", 4, 2, STEPS);
    config.clip = 1;
    set_scale(&config, "dynamic:every=3");
    struct sl_train *train = run_one(&config, one);
    check_steep(one, 0, "one worker");
    for (int s = 0; s < SL_COUNT(schedules); s++) {
        struct sl_pipe *pipe;
        struct sl_arena arena = {0};
        const struct sl_sched *sched;
        pipe_case_cut_by_name(&c, &config, 2, NULL);
        struct sl_pipe_config pc = {.train = &config,
                                    .plan = c.plan,
                                    .stage_of = c.stage_of,
                                    .schedule = schedules[s],
                                    .global_step = true};
        struct sl_schedule_opts opts = {
            .schedule = schedules[s], .batch = 4, .iters = STEPS, .global_step = true};
        SL_TEST_OK(sl_schedules_build(&arena, c.plan, &opts, &sched));
        int lag = sl_sched_decision_lag(sched);
        assert_int_equal(lag > 0, s >= 2);
        SL_TEST_OK(sl_pipe_open(&pc, &pipe));
        SL_TEST_OK(sl_pipe_run(pipe, STEPS, reports));
        check_steep(reports, lag, schedules[s]);
        for (int i = 0; lag == 0 && i < STEPS; i++)
            assert_true(one[i].skipped || one[i].norm == reports[i].norm);
        sl_pipe_close(pipe);
        sl_arena_free(&arena);
    }
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* The op is searched for if the loss itself is not finite or no smaller scale exists. */
static void other_reasons(void **state) {
    struct sl_step_report report;
    struct sl_train *train;
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, steep);
    struct sl_train_config config = pipe_case_config(&c, "sgd", 4, 2, STEPS);
    set_scale(&config, "65536"); /* a fixed scale is reported like a dynamic one */
    SL_TEST_OK(sl_run_train_open(&config, &train));
    SL_TEST_OK(sl_run_train_step(train, &report));
    assert_true(report.skipped && report.loss_scale == 65536 && train->scale.value == 65536);
    assert_int_equal(report.bad.kind, SL_BAD_OP);
    sl_run_train_close(train);
    set_scale(&config, "dynamic:start=2");
    SL_TEST_OK(sl_run_train_open(&config, &train));
    float *weights = sl_run_worker_weight(train->worker, 0, 0);
    weights[0] = NAN;
    SL_TEST_OK(sl_run_train_step(train, &report));
    assert_true(report.skipped && train->scale.value == 1); /* halved nevertheless */
    assert_int_equal(report.bad.kind, SL_BAD_WEIGHT);
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* A dynamic scale needs one skip decision for all stages; without it only a fixed scale works. */
static void alone(void **state) {
    struct sl_step_report plain[STEPS], scaled[STEPS];
    struct sl_pipe *pipe[2];
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 4, 2, STEPS);
    pipe_case_cut(&c, &config, 3, NULL);
    struct sl_pipe_config pc = {
        .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = "stash"};
    SL_TEST_OK(sl_pipe_open(&pc, &pipe[0]));
    SL_TEST_OK(sl_pipe_run(pipe[0], STEPS, plain));
    set_scale(&config, "1024");
    SL_TEST_OK(sl_pipe_open(&pc, &pipe[1]));
    SL_TEST_OK(sl_pipe_run(pipe[1], STEPS, scaled));
    for (int s = 0; s < 3; s++) {
        const struct sl_worker *a = sl_pipe_worker(pipe[0], s), *b = sl_pipe_worker(pipe[1], s);
        assert_memory_equal(a->param[sl_pipe_newest(pipe[0], s)],
                            b->param[sl_pipe_newest(pipe[1], s)],
                            (size_t)a->programs[SL_WORKER_FULL]->param_bytes);
    }
    sl_pipe_close(pipe[0]);
    sl_pipe_close(pipe[1]);
    set_scale(&config, "dynamic");
    assert_int_equal(sl_pipe_open(&pc, &pipe[0]), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "`clip_scope` global"));
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(pipelines),     cmocka_unit_test(overflow),
        cmocka_unit_test(alone),     cmocka_unit_test(other_reasons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
