/* NULL, closed handles, infinities and numbers out of range: an error with a message, never a crash. */
#include "sluice.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char model[] = "model tiny\ninput x : float[B, 4]\ninput y : float[B, 1]\n"
                            "param w[1, 4] ~ normal(0.3)\nlogits = matmul(x, w, tb = 1)\n"
                            "output logits = logits\nloss mse(logits, y)\n";
static const char not_text[] = "\xff\xfe\x01";

static void refused(sl_err err) {
    if (err != SL_ERR_USAGE && err != SL_ERR_INPUT)
        fail_msg("code %d: %s", (int)err, sl_err_message());
    assert_true(*sl_err_message());
}

static struct sl_net *open_net(void) {
    struct sl_net *net;
    assert_int_equal(sl_net_read_text("tiny", model, strlen(model), NULL, &net), SL_OK);
    return net;
}

static void test_net(void **state) {
    (void)state;
    struct sl_net *net = NULL;
    int t = 0;
    refused(sl_net_open("n", NULL));
    refused(sl_net_open(NULL, &net));
    assert_null(net);
    refused(sl_net_read(NULL, NULL, NULL, &net));
    refused(sl_net_read("x.model", NULL, NULL, NULL));
    refused(sl_net_read_text(NULL, model, 3, NULL, &net));
    refused(sl_net_read_text("n", NULL, 3, NULL, &net));
    refused(sl_net_read_text("n", model, strlen(model), NULL, NULL));
    refused(sl_net_read_text("n", not_text, sizeof not_text, NULL, &net));
    assert_int_equal(sl_net_open("n", &net), SL_OK);
    refused(sl_net_input(net, "x", NULL, &t));
    refused(sl_net_input(net, "x", "float[B, 4]", NULL));
    refused(sl_net_input(net, NULL, "float[B, 4]", &t));
    refused(sl_net_input(NULL, "x", "float[B, 4]", &t));
    assert_int_equal(sl_net_input(net, "x", "float[B, 4]", &t), SL_OK);
    refused(sl_net_param(net, "w", NULL, "zeros", &t));
    refused(sl_net_param(net, "w", "[4]", NULL, &t));
    refused(sl_net_param(net, "w", "[4]", "zeros", NULL));
    refused(sl_net_param(net, "w", "[4]", "normal(inf)", &t));
    refused(sl_net_state(net, "s", NULL, NULL, NULL));
    refused(sl_net_scope(net, NULL));
    refused(sl_net_scope(NULL, "a"));
    refused(sl_net_op(net, NULL, &t, 1, NULL, &t));
    refused(sl_net_op(net, "relu", NULL, 1, NULL, &t));
    refused(sl_net_op(net, "relu", &t, 1, NULL, NULL));
    refused(sl_net_op(net, "relu", &t, INT32_MAX, NULL, &t));
    refused(sl_net_op_output(net, INT32_MIN, 0, &t));
    refused(sl_net_op_output(net, 0, 0, NULL));
    refused(sl_net_output(net, NULL, 0));
    refused(sl_net_loss(net, NULL, 0, 1));
    refused(sl_net_loss(net, "l", 0, INFINITY));
    refused(sl_net_loss(net, "l", 0, NAN));
    refused(sl_net_check(NULL));
    refused(sl_net_autodiff(NULL));
    assert_true(isnan(sl_net_stat(NULL, SL_NET_PARAMETERS)));
    assert_true(isnan(sl_net_stat(net, (enum sl_net_stat)99)));
    assert_string_equal(sl_net_shape(NULL, 0), "");
    assert_string_equal(sl_net_shape(net, -7), "");
    assert_null(sl_net_print(NULL));
    sl_net_close(net);
    sl_net_close(net);
    refused(sl_net_check(net));
    assert_null(sl_net_print(net));
}

static void test_pipeline(void **state) {
    (void)state;
    struct sl_pipeline *p = NULL;
    refused(sl_pipeline_chain(4, NULL));
    refused(sl_pipeline_chain(-1, &p));
    refused(sl_pipeline_chain(INT32_MAX, &p));
    refused(sl_pipeline_dag(NULL, &p));
    refused(sl_pipeline_dag("a>b", NULL));
    refused(sl_pipeline_read(NULL, &p));
    refused(sl_pipeline_read("x.plan", NULL));
    refused(sl_pipeline_read_text(NULL, "", 0, &p));
    refused(sl_pipeline_read_text("x.plan", NULL, 0, &p));
    refused(sl_pipeline_read_text("x.plan", "", 0, NULL));
    assert_null(p);
    assert_int_equal(sl_pipeline_chain(3, &p), SL_OK);
    refused(sl_pipeline_costs(p, NULL));
    refused(sl_pipeline_costs(p, "F=inf"));
    refused(sl_pipeline_schedule(p, NULL, 4, 1));
    refused(sl_pipeline_schedule(p, "1f1b", INT64_MAX, 1));
    refused(sl_pipeline_schedule(p, "1f1b", 4, INT64_MIN));
    refused(sl_pipeline_verify(NULL));
    refused(sl_pipeline_simulate(p, NULL));
    assert_int_equal(sl_pipeline_schedule(p, "1f1b", 4, 1), SL_OK);
    refused(sl_pipeline_simulate(p, "latency=inf"));
    assert_true(isnan(sl_pipeline_stat(p, (enum sl_pipeline_stat)99, 0)));
    assert_true(isnan(sl_pipeline_stat(p, SL_PIPELINE_BUBBLE, INT32_MAX)));
    assert_true(isnan(sl_pipeline_stat(p, SL_PIPELINE_BUBBLE, -1)));
    assert_true(isnan(sl_pipeline_stat(NULL, SL_PIPELINE_STAGES, 0)));
    assert_null(sl_pipeline_text(p, NULL));
    assert_null(sl_pipeline_text(p, "pdf"));
    assert_null(sl_pipeline_text(NULL, "plan"));
    sl_pipeline_close(p);
    sl_pipeline_close(p);
    refused(sl_pipeline_verify(p));
}

static void test_requests(void **state) {
    (void)state;
    struct sl_net *net = open_net();
    struct sl_pipeline *p = NULL;
    double loss = 0;
    struct sl_plan_request plan = {.size = sizeof plan, .seconds = INFINITY};
    struct sl_train_request train = {.size = sizeof train, .steps = 1, .lr = INFINITY};
    assert_int_equal(sl_net_autodiff(net), SL_OK);
    refused(sl_pipeline_plan(net, NULL, &p));
    refused(sl_pipeline_plan(NULL, &plan, &p));
    refused(sl_pipeline_plan(net, &plan, NULL));
    refused(sl_pipeline_plan(net, &plan, &p));
    plan.seconds = NAN;
    refused(sl_pipeline_plan(net, &plan, &p));
    plan.seconds = 0;
    plan.memory_bytes = -5;
    refused(sl_pipeline_plan(net, &plan, &p));
    plan.memory_bytes = 0;
    plan.batch = INT64_MIN;
    refused(sl_pipeline_plan(net, &plan, &p));
    refused(sl_train_net(NULL, &train, NULL, NULL, &loss));
    refused(sl_train_net(net, NULL, NULL, NULL, &loss));
    refused(sl_train_net(net, &train, NULL, NULL, NULL));
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
    train.lr = NAN;
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
    train.lr = 0;
    train.clip = INFINITY;
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
    train.clip = NAN;
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
    train.clip = 0;
    train.pipeline = (const struct sl_pipeline *)(const void *)&loss;
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
    sl_net_close(net);
    refused(sl_train_net(net, &train, NULL, NULL, &loss));
}

/* The places of an error, from the one that found it. */
static void test_trail(void **state) {
    (void)state;
    struct sl_net *net;
    assert_int_equal(sl_net_read_text("n", "input", 5, NULL, &net), SL_ERR_INPUT);
    assert_int_equal(sl_err_code(), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_trail(0), "src/graph/"));
    int last = 0;
    while (sl_err_trail(last + 1))
        last++;
    assert_non_null(strstr(sl_err_trail(last), "src/api/net.c:"));
    assert_null(sl_err_trail(-1));
    assert_int_equal(sl_net_check(NULL), SL_ERR_USAGE); /* a new error has a new trail */
    assert_non_null(strstr(sl_err_trail(0), "src/api/handles.c:"));
    assert_null(strstr(sl_err_trail(1), "src/graph/"));
}

/* ---- trainers ---- */

enum { SAMPLES = 40 };
static float x[SAMPLES][4], y[SAMPLES];
static const struct sl_sample_array arrays[] = {
    {"x", SL_ARRAY_F32, x, SAMPLES, 4, 0},
    {"y", SL_ARRAY_F32, y, SAMPLES, 1, 0},
};
static const struct sl_samples in_memory = {
    .size = sizeof in_memory, .arrays = arrays, .array_count = 2};

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void refused_as(sl_err err, sl_err code, const char *part) {
    assert_int_equal(err, code);
    if (!strstr(sl_err_message(), part))
        fail_msg("'%s' does not contain '%s'", sl_err_message(), part);
    assert_int_equal(sl_err_code(), code);
    assert_non_null(sl_err_trail(0));
}

static struct sl_trainer *start_trainer(const struct sl_samples *samples) {
    struct sl_trainer *t;
    struct sl_net *net = open_net();
    must(sl_trainer_new(&t));
    must(sl_trainer_use_net(t, net));
    must(sl_trainer_use_samples(t, samples));
    must(sl_trainer_set(t, "steps", "3"));
    must(sl_trainer_set(t, "validation", "16"));
    sl_net_close(net);
    return t;
}

static int no_data(void *ctx, int64_t sample, const char *input, void *out, int64_t values) {
    (void)ctx, (void)sample, (void)input, (void)out, (void)values;
    return 5;
}

static void test_wrong_use(void **state) {
    (void)state;
    struct sl_trainer *t = start_trainer(&in_memory);
    struct sl_predictor *p = NULL;
    struct sl_evaluation eval = {.size = 8};
    float v[4];
    refused_as(sl_trainer_new(NULL), SL_ERR_USAGE, "out is NULL");
    refused_as(sl_trainer_set(NULL, "a", "b"), SL_ERR_USAGE, "is NULL");
    refused_as(sl_trainer_set(t, NULL, "b"), SL_ERR_USAGE, "key is NULL");
    refused_as(sl_trainer_set(t, "lr", "inf"), SL_ERR_USAGE, "`lr`");
    refused_as(sl_trainer_set(t, "lr", "nan"), SL_ERR_USAGE, "`lr`");
    refused_as(sl_trainer_set(t, "batsh", "8"), SL_ERR_USAGE, "unknown field");
    refused_as(sl_trainer_read(t, "/nonexistent.toml"), SL_ERR_INPUT, "nonexistent");
    refused_as(sl_trainer_use_net(t, NULL), SL_ERR_USAGE, "net is NULL");
    refused_as(sl_trainer_use_net(t, (const struct sl_net *)(const void *)t), SL_ERR_USAGE,
               "no open net");
    refused_as(sl_trainer_use_samples(t, NULL), SL_ERR_USAGE, "already");
    refused_as(sl_trainer_run(t, 1), SL_ERR_USAGE, "not open yet");
    refused_as(sl_trainer_evaluate(t, NULL), SL_ERR_USAGE, "not open yet");
    assert_int_equal(sl_trainer_step(t), -1);
    assert_null(sl_trainer_report(t));
    must(sl_trainer_open(t));
    refused_as(sl_trainer_open(t), SL_ERR_USAGE, "open already");
    refused_as(sl_trainer_set(t, "batch", "8"), SL_ERR_USAGE, "open already");
    refused_as(sl_trainer_run(t, -1), SL_ERR_USAGE, "-1 steps");
    refused_as(sl_trainer_evaluate(t, NULL), SL_ERR_USAGE, "NULL");
    refused_as(sl_trainer_evaluate(t, &eval), SL_ERR_USAGE, "size is 8");
    refused_as(sl_trainer_save(t), SL_ERR_USAGE, "no directory");
    refused_as(sl_trainer_get_tensor(t, NULL, v, 4), SL_ERR_USAGE, "name is NULL");
    refused_as(sl_trainer_get_tensor(t, "w", NULL, 4), SL_ERR_USAGE, "values is NULL");
    assert_null(sl_trainer_get(t, "batsh"));
    must(sl_trainer_predictor(t, &p));
    refused_as(sl_predictor_run(p, arrays, 2, "logitz", v, 4), SL_ERR_USAGE, "no output 'logitz'");
    refused_as(sl_predictor_run(p, arrays, 0, "logits", v, 4), SL_ERR_USAGE, "0 inputs");
    refused_as(sl_predictor_run(p, arrays, 1, "logits", v, 4), SL_ERR_USAGE, "room for 4");
    refused_as(sl_predictor_write(p, "a", &(struct sl_writing){.size = sizeof(struct sl_writing)},
                                  NULL, NULL),
               SL_ERR_USAGE, "callback is NULL");
    sl_trainer_close(t);
    refused_as(sl_predictor_run(p, arrays, 1, "logits", v, 4), SL_ERR_USAGE, "of this predictor");
    sl_trainer_close(t); /* twice */
    assert_non_null(strstr(sl_err_message(), "closed before"));
    refused_as(sl_trainer_run(t, 1), SL_ERR_USAGE, "closed before");
    sl_predictor_close(p);
    sl_predictor_close(p);
    sl_predictor_close(NULL);
    refused_as(sl_predictor_open("/nonexistent", NULL, NULL, &p), SL_ERR_INPUT, "nonexistent");
    assert_null(p);
}

static void test_bad_samples(void **state) {
    (void)state;
    struct sl_samples none = {.size = sizeof none};
    struct sl_sample_array wrong[] = {arrays[0], arrays[1]};
    struct sl_samples bad = {.size = sizeof bad, .arrays = wrong, .array_count = 2};
    struct sl_samples failing = {.size = sizeof failing, .count = 40, .fill = no_data};
    struct sl_trainer *t;
    must(sl_trainer_new(&t));
    refused_as(sl_trainer_use_samples(t, NULL), SL_ERR_USAGE, "NULL");
    refused_as(sl_trainer_use_samples(t, &none), SL_ERR_USAGE, "neither arrays nor fill");
    wrong[1].samples = 7;
    refused_as(sl_trainer_use_samples(t, &bad), SL_ERR_USAGE, "7 samples");
    wrong[1] = arrays[1];
    wrong[0].type = (enum sl_array_type)99;
    refused_as(sl_trainer_use_samples(t, &bad), SL_ERR_USAGE, "no type 99");
    sl_trainer_close(t);
    wrong[0] = arrays[0];
    wrong[0].values = 3;
    t = start_trainer(&bad);
    refused_as(sl_trainer_open(t), SL_ERR_INPUT, "3 values a sample");
    sl_trainer_close(t);
    bad.array_count = 1;
    wrong[0] = arrays[0];
    t = start_trainer(&bad);
    refused_as(sl_trainer_open(t), SL_ERR_INPUT, "'y'");
    sl_trainer_close(t);
    t = start_trainer(&failing);
    must(sl_trainer_open(t));
    refused_as(sl_trainer_run(t, 0), SL_ERR_INPUT, "returned 5");
    sl_trainer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_net),       cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_requests),  cmocka_unit_test(test_trail),
        cmocka_unit_test(test_wrong_use), cmocka_unit_test(test_bad_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
