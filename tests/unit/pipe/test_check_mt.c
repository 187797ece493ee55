/* sl_pipe_check confirms that a pipeline equals one worker's run; of a sabotaged one it names step,
 * stage and tensor. */
#include "pipe/check.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 6, STAGES = 4 };

static const char model[] =
    "model image\nsize N = 4\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\ne = mix(d) as m5\n"
    "param wl[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label)\n";

/* Changes the first value that `stage` holds, from the stage's thread, before action number `when`.
 * Actions are counted over all runs of a pipeline: one run and single steps hit the same place. */
struct saboteur {
    struct sl_pipe *pipe;
    int stage;
    enum sl_check_kind what;
    int64_t when, seen;
};

static void opened(void *ctx, struct sl_pipe *pipe) {
    struct saboteur *s = ctx;
    s->pipe = pipe;
    s->seen = 0;
}

static sl_err before_action(void *ctx, int worker, int64_t action) {
    struct saboteur *s = ctx;
    (void)action;
    if (worker != s->stage || s->seen++ != s->when)
        return SL_OK;
    const struct sl_worker *w = sl_pipe_worker(s->pipe, s->stage);
    float *at = s->what == SL_CHECK_STATE   ? w->state
                : s->what == SL_CHECK_OPTIM ? w->opt[1]
                                            : w->param[0];
    at[0] += 0x1p-7F; /* not the last bit, which the next step may round away */
    return SL_OK;
}

static struct sl_check_report check(const struct pipe_case *c, const struct sl_train_config *train,
                                    const char *schedule, struct saboteur *saboteur) {
    struct sl_check_report report;
    struct sl_check_config config = {.pipe = {.train = train,
                                              .plan = c->plan,
                                              .stage_of = c->stage_of,
                                              .schedule = schedule,
                                              .on_action = before_action,
                                              .on_action_ctx = saboteur},
                                     .opened = opened,
                                     .ctx = saboteur};
    if (sl_pipe_check(&config, &report) != SL_OK)
        fail_msg("%s", sl_err_message());
    return report;
}

static void test_check(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "graph"};
    static const enum sl_check_kind kinds[] = {SL_CHECK_WEIGHT, SL_CHECK_STATE, SL_CHECK_OPTIM};
    struct pipe_case c;
    int found = 0;
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "adamw", 7, 4, STEPS);
    pipe_case_cut(&c, &train, STAGES, NULL);
    for (int s = 0; s < SL_COUNT(schedules); s++)
        for (int stage = 0; stage < STAGES; stage++) {
            struct saboteur none = {.stage = stage, .when = -1};
            struct sl_check_report report = check(&c, &train, schedules[s], &none);
            int64_t per_step = none.seen / STEPS;
            assert_int_equal(report.kind, SL_CHECK_SAME);
            assert_true(report.tensors >= 3 * 16 && report.elements > 0);
            for (int step = 0; step < STEPS; step += 2) {
                struct saboteur one = {
                    .stage = stage, .what = kinds[(stage + step / 2) % 3], .when = step * per_step};
                report = check(&c, &train, schedules[s], &one);
                if (report.kind == SL_CHECK_SAME)
                    fail_msg("%s, stage %d, step %d: not noticed", schedules[s], stage, step + 1);
                assert_int_equal(report.step, step + 1);
                assert_true(report.stage >= -1 && report.stage <= stage && report.tensor);
                found++;
            }
        }
    pipe_case_close(&c);
    printf("count: %d changed values found in their step\n", found);
}

/* At a rate of 0 no step changes a weight, so the sabotaged tensor is the first one that
 * differs. */
static void test_names_the_tensor(void **state) {
    (void)state;
    struct pipe_case c;
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "sgd", 4, 2, STEPS);
    train.base_lr = 0;
    pipe_case_cut(&c, &train, STAGES, NULL);
    for (int stage = 0; stage < STAGES; stage++) {
        struct saboteur one = {.stage = stage, .what = SL_CHECK_WEIGHT, .when = 0};
        struct sl_check_report report = check(&c, &train, "1f1b", &one);
        const struct sl_graph *graph = c.graph;
        int first = -1;
        for (int64_t g = 0; g < graph->grads.count && first < 0; g++)
            if (c.stage_of[graph->grads.at[g].node] == stage)
                first = graph->grads.at[g].param;
        assert_int_equal(report.kind, SL_CHECK_WEIGHT);
        assert_int_equal(report.step, 1);
        assert_int_equal(report.stage, stage);
        assert_int_equal(report.element, 0);
        assert_string_equal(report.tensor, graph->params.at[first].name);
        assert_true(report.pipe != report.one);
    }
    pipe_case_close(&c);
}

/* A stage without parameters; also with more workers than micro-batches. */
static void test_bare_stage(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "kfkb", "graph", "zb-graph"};
    static const char bare[] =
        "model bare\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
        "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 5] ~ normal(0.4)\n"
        "param s3_w[4, 13] ~ normal(0.4)\n"
        "j = concat([matmul(x, s0_w, tb = 1), matmul(y, s1_w, tb = 1)], axis = 1)\n"
        "loss cross_entropy(matmul(dropout(j, 0.2), s3_w, tb = 1), label)\n";
    struct pipe_case c;
    struct saboteur none = {.when = -1};
    pipe_case_open(&c, bare);
    for (int64_t m = 1; m <= 5; m += 2) {
        struct sl_train_config train = pipe_case_config(&c, "momentum", 5, m, STEPS);
        train.clip = 0.1;
        pipe_case_cut_by_name(&c, &train, STAGES, NULL);
        for (int s = 0; s < SL_COUNT(schedules); s++) {
            struct sl_check_report r = check(&c, &train, schedules[s], &none);
            if (r.kind != SL_CHECK_SAME)
                fail_msg("%s, m = %d: kind %d, %s, step %d, stage %d, element %d: %.9g, not %.9g",
                         schedules[s], (int)m, (int)r.kind, r.tensor, (int)r.step, r.stage,
                         (int)r.element, r.pipe, r.one);
        }
    }
    pipe_case_close(&c);
}

/* One kernel computes the gradients of gelu and of the matmul that reads it. */
static void test_refuses_cut_kernel(void **state) {
    (void)state;
    static const char glued[] =
        "model glued\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
        "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 5] ~ normal(0.4)\n"
        "param s3_w[4, 13] ~ normal(0.4)\n"
        "j = concat([matmul(x, s0_w, tb = 1), matmul(y, s1_w, tb = 1)], axis = 1)\n"
        "loss cross_entropy(matmul(gelu(j), s3_w, tb = 1), label)\n";
    struct pipe_case c;
    struct sl_check_report report;
    pipe_case_open(&c, glued);
    struct sl_train_config train = pipe_case_config(&c, "sgd", 4, 2, STEPS);
    pipe_case_cut_by_name(&c, &train, STAGES, NULL);
    struct sl_check_config config = {
        .pipe = {.train = &train, .plan = c.plan, .stage_of = c.stage_of, .schedule = "1f1b"}};
    assert_int_equal(sl_pipe_check(&config, &report), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "one kernel computes both"));
    pipe_case_close(&c);
}

/* The reference of an asynchronous schedule is one process that keeps all weight versions. */
static void test_asynchronous(void **state) {
    (void)state;
    static const char *const schedules[] = {"2bw", "async", "paci", "stash", "vsync"};
    struct pipe_case c;
    int found = 0;
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "adamw", 7, 4, STEPS);
    pipe_case_cut(&c, &train, STAGES, NULL);
    for (int s = 0; s < SL_COUNT(schedules); s++) {
        struct saboteur none = {.when = -1};
        struct sl_check_report report = check(&c, &train, schedules[s], &none);
        if (report.kind != SL_CHECK_SAME)
            fail_msg("%s: '%s' differs", schedules[s], report.tensor);
        assert_true(report.stale && !report.ordered);
        assert_true(report.tensors >= 3 * 16 && report.elements > 0);
        struct saboteur one = {.what = SL_CHECK_OPTIM, .when = none.seen / 2};
        report = check(&c, &train, schedules[s], &one);
        if (report.kind == SL_CHECK_SAME)
            fail_msg("%s: not noticed", schedules[s]);
        assert_int_equal(report.step, 0); /* not step by step */
        found++;
    }
    assert_int_equal(sl_optim_policy_parse("spectrain", &train.policy), SL_OK);
    struct sl_check_config config = {
        .pipe = {.train = &train, .plan = c.plan, .stage_of = c.stage_of, .schedule = "async"}};
    struct sl_check_report report;
    assert_int_equal(sl_pipe_check(&config, &report), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "'spectrain'"));
    pipe_case_close(&c);
    printf("count: %d changed values found in asynchronous runs\n", found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check), cmocka_unit_test(test_names_the_tensor),
        cmocka_unit_test(test_bare_stage), cmocka_unit_test(test_refuses_cut_kernel),
        cmocka_unit_test(test_asynchronous)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
