/* The report of a skipped step names the op that produced the first non-finite value. Cases:
 * overflow in forward, in backward, in a sum of uses; damaged weights and data; healthy runs. */
#include "support/data_files.h"
#include "support/pipe_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sl_train *open_train(const struct pipe_case *c, int64_t batch, int64_t micros) {
    struct sl_train_config config = pipe_case_config(c, "adamw", batch, micros, 4);
    struct sl_train *train = NULL;
    SL_TEST_OK(sl_run_train_open(&config, &train));
    return train;
}

static struct sl_step_report step(struct sl_train *train) {
    struct sl_step_report report;
    SL_TEST_OK(sl_run_train_step(train, &report));
    return report;
}

static const struct sl_node *bad_node(const struct sl_train *train, const struct sl_bad *bad) {
    return &train->config.graph->nodes.at[bad->node];
}

/* exp overflows above 88.7; the data decide in which micro-batch it happens first. */
static void forward_op_and_micro_batch(void **state) {
    enum { BATCH = 12, MICROS = 6, EACH = BATCH / MICROS, STEPS = 8, N = 3 };
    struct pipe_case c;
    int late = 0;
    (void)state;
    pipe_case_open(&c, "model m\ninput x : float[B, 3]\ninput y : float[B, 3]\n"
                       "param w[3] ~ ones\n"
                       "h = scale(tanh(x) * w, 86)\nloss mse(scale(exp(h + h * 0.1), 1e-30), y)\n");
    struct sl_train *train = open_train(&c, BATCH, MICROS);
    train->config.base_lr = 0; /* w stays 1 */
    for (int64_t s = 0; s < STEPS; s++) {
        float x[BATCH * N];
        int64_t first = -1;
        SL_TEST_OK(sl_data_fill(c.data, SL_DATA_TRAIN, s * BATCH, BATCH, 0, x));
        for (int64_t i = 0; first < 0 && i < BATCH * N; i++)
            if (tanhf(x[i]) * 86.0F * 1.1F > 88.8F)
                first = i / N / EACH;
        struct sl_step_report report = step(train);
        assert_int_equal(report.skipped, first >= 0);
        if (first < 0)
            continue;
        late += first > 0;
        assert_int_equal(report.bad.kind, SL_BAD_OP);
        assert_string_equal(bad_node(train, &report.bad)->op->name, "exp");
        assert_int_equal(report.bad.pass, SL_PASS_F);
        assert_true(report.bad.micro == first);
    }
    assert_true(late > 0); /* else micro-batches are not tested */
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* forward 1e-38 -> 1e-18 -> 100; backward 1 -> 1e20 -> infinity */
static void backward_op(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, "model m\ninput x : float[B, 3]\n"
                       "param w[3] ~ const(1e-38)\n"
                       "inner = scale(w, 1e20)\nouter = scale(inner, 1e20)\n"
                       "loss reduce_sum(outer + x * 0)\n");
    struct sl_train *train = open_train(&c, 4, 2);
    struct sl_step_report report = step(train);
    assert_true(report.skipped);
    assert_true(isfinite(report.loss));
    assert_int_equal(report.bad.kind, SL_BAD_OP);
    assert_true(report.bad.pass != SL_PASS_F);
    int of = bad_node(train, &report.bad)->of;
    assert_true(of >= 0);
    const struct sl_node *forward = &c.graph->nodes.at[of];
    assert_string_equal(forward->op->name, "scale");
    assert_int_equal(c.graph->values.at[forward->in[0]].kind, SL_VALUE_PARAM); /* the inner op */
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* Each use has a gradient of 2e38; the maximum of a float is 3.4e38. */
static void sum_of_uses(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, "model m\ninput x : float[B, 3]\n"
                       "param w[3] ~ const(1e-38)\n"
                       "loss reduce_sum(scale(w, 2e38) + x * 0)\n"
                       "loss reduce_sum(scale(w, 2e38) + x * 0)\n");
    struct sl_train *train = open_train(&c, 1, 1);
    struct sl_step_report report = step(train);
    assert_true(report.skipped);
    assert_int_equal(report.bad.kind, SL_BAD_SUM);
    assert_string_equal(report.bad.name, "w");
    sl_run_train_close(train);
    pipe_case_close(&c);
}

static void spoilt_weight(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open_zoo(&c, "gpt-nano", "V=37,T=12,P=12,L=2,C=20,H=5");
    struct sl_train *train = open_train(&c, 4, 2);
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    int victim = p->param_count / 2;
    float *weights = sl_run_worker_weight(train->worker, 0, victim);
    assert_false(step(train).skipped);
    weights[p->params[victim].numel - 1] = NAN;
    struct sl_step_report report = step(train);
    assert_true(report.skipped);
    assert_int_equal(report.bad.kind, SL_BAD_WEIGHT);
    assert_string_equal(report.bad.name, c.graph->params.at[p->params[victim].param].name);
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* Data sets refuse such values, but a device's copy may still be damaged. */
static void spoilt_input(void **state) {
    struct pipe_case c;
    struct sl_bad bad = {0};
    struct sl_worker_pass pass = {0};
    static const float x[4] = {1, 2, 3, INFINITY}, y[4] = {0};
    (void)state;
    pipe_case_open(&c, "model m\ninput x : float[B, 1]\ninput y : float[B, 1]\n"
                       "param w[1, 1] ~ ones\nloss mse(matmul(x, w), y)\n");
    struct sl_train *train = open_train(&c, 4, 1);
    const struct sl_ports *inputs = &train->worker->programs[SL_WORKER_FULL]->inputs;
    for (int i = 0; i < inputs->count; i++)
        SL_TEST_OK(
            sl_run_worker_put(train->worker, 0, &inputs->at[i], inputs->at[i].index ? y : x));
    SL_TEST_OK(sl_run_finite_inputs(train->worker, &pass, &bad));
    assert_int_equal(bad.kind, SL_BAD_INPUT);
    assert_string_equal(bad.name, "x");
    sl_run_train_close(train);
    pipe_case_close(&c);
}

/* The search finds and changes nothing in healthy steps. */
static void healthy_steps(void **state) {
    static const char *const models[][2] = {
        {"gpt-nano", "V=37,T=12,P=12,L=2,C=20,H=5,drop=0.1"},
        {"resnet18", "cifar=1,S=9,W=2,N1=1,N2=1,N3=1,N4=0,classes=3"},
        {"residual-lstm", "V=37,T=6,L=2,C=12,classes=0"},
        {"bert-base", "V=11,T=5,P=7,L=4,C=8,H=2"},
        {"clip", "G=2,S=8,patch=4,VC=8,VL=2,VH=2,V=11,T=5,TC=8,TL=2,TH=2,E=5"},
        {"dlrm", "dense_branches=2,sparse_branches=2,L=2,W=6,N=3,rows=7,E=4,bag=3,top=2"},
        {"mmt", "branches=4,T=4,L=2,C=8,H=2,F=8,classes=3"},
        {"u-net", "S=8,L=2,W=2"},
        {"snn", "N=7,L=3,W=5,classes=3"},
        {"inception-v4", "S=75,W=1,A=1,M=1,C=1,classes=3"},
        {"vgg16", "S=32,W=1,hidden=5,classes=3"},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct pipe_case c;
        struct sl_step_report a, b;
        struct sl_bad bad;
        pipe_case_open_zoo(&c, models[i][0], models[i][1]);
        struct sl_train *plain = open_train(&c, 3, 2), *looked = open_train(&c, 3, 2);
        for (int s = 0; s < 2; s++) {
            struct sl_data_cursor cursor = looked->cursor;
            struct sl_data_range range;
            SL_TEST_OK(sl_data_next(c.data, SL_DATA_TRAIN, SL_DATA_WRAP, 3, &cursor, &range));
            a = step(plain);
            b = step(looked);
            SL_TEST_OK(sl_run_train_find_bad(looked, looked->step - 1, &range, &bad));
            if (bad.kind != SL_BAD_NONE)
                fail_msg("%s: %s (%s) is called bad", models[i][0], bad.name, bad.op ? bad.op : "");
            assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
            assert_memory_equal(&a.norm, &b.norm, sizeof a.norm);
        }
        const struct sl_program *p = plain->worker->programs[SL_WORKER_FULL];
        assert_memory_equal(plain->worker->state, looked->worker->state, (size_t)p->state_bytes);
        sl_run_train_close(plain);
        sl_run_train_close(looked);
        pipe_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_op_and_micro_batch),
        cmocka_unit_test(backward_op),
        cmocka_unit_test(sum_of_uses),
        cmocka_unit_test(spoilt_weight),
        cmocka_unit_test(spoilt_input),
        cmocka_unit_test(healthy_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
