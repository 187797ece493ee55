/* Inputs for which the textbook formula overflows or divides by zero: outputs and gradients stay
 * finite and have their limits. */
#include "op/registry.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { N = 4 };

struct trial {
    struct sl_graph *graph;
    struct sl_ref_run *run;
    int x, y;
};

/* x (parameter [N], set to `values`) -> op -> sum. */
static void run_op(struct trial *t, const char *op, const double values[N]) {
    int loss;
    t->graph = sl_graph_open(op, sl_op_find);
    assert_int_equal(sl_graph_param(t->graph, "x", SL_SHAPE(1, 0, N), (struct sl_init){0}, &t->x),
                     SL_OK);
    assert_int_equal(sl_graph_apply(t->graph, op, 1, &t->x, NULL, &t->y), SL_OK);
    assert_int_equal(sl_graph_apply(t->graph, "reduce_sum", 1, &t->y, NULL, &loss), SL_OK);
    assert_int_equal(sl_graph_loss(t->graph, "loss", loss, 1), SL_OK);
    assert_int_equal(sl_graph_check(t->graph), SL_OK);
    assert_int_equal(sl_graph_autodiff(t->graph), SL_OK);
    t->run = sl_op_ref_open(t->graph, 1, 1);
    memcpy(t->run->arrays[t->x].f, values, N * sizeof *values);
    sl_op_ref_nodes(t->run, 0, t->graph->nodes.count);
}

static void close_op(struct trial *t) {
    sl_op_ref_close(t->run);
    sl_graph_close(t->graph);
}

static void near(double got, double want) {
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want))))
        fail_msg("%.17g is not %.17g", got, want);
}

static void activations_reach_their_limits(void **state) {
    (void)state;
    const double at[N] = {-1e4, -40, 0, 1e4};
    static const struct {
        const char *op;
        double y[N], dx[N];
    } rows[] = {
        {"gelu", {0, 0, 0, 1e4}, {0, 0, 0.5, 1}},
        {"relu", {0, 0, 0, 1e4}, {0, 0, 0, 1}},
        {"selu",
         {-1.7580993408473766, -1.7580993408473766, 0, 1.0507009873554805e4},
         {0, 7.469e-18, 1.7580993408473766, 1.0507009873554805}},
        {"sigmoid", {0, 4.248354255291589e-18, 0.5, 1}, {0, 4.248354255291589e-18, 0.25, 0}},
        {"silu", {0, -1.6993417021166355e-16, 0, 1e4}, {0, -1.656858159e-16, 0.5, 1}},
        {"tanh", {-1, -1, 0, 1}, {0, 0, 1, 0}},
    };
    for (int r = 0; r < SL_COUNT(rows); r++) {
        struct trial t;
        run_op(&t, rows[r].op, at);
        const double *dx = t.run->arrays[t.graph->grads.at[0].value].f;
        for (int i = 0; i < N; i++) {
            near(t.run->arrays[t.y].f[i], rows[r].y[i]);
            near(dx[i], rows[r].dx[i]);
        }
        close_op(&t);
    }
}

static void softmax_of_large_numbers(void **state) {
    (void)state;
    const double at[N] = {0, 1e5, -1e5, 1e5};
    struct trial t;
    run_op(&t, "softmax", at);
    const double want[N] = {0, 0.5, 0, 0.5};
    for (int i = 0; i < N; i++)
        near(t.run->arrays[t.y].f[i], want[i]);
    close_op(&t);
    run_op(&t, "log_softmax", at);
    const double want_log[N] = {-1e5 - log(2), -log(2), -2e5 - log(2), -log(2)};
    for (int i = 0; i < N; i++)
        near(t.run->arrays[t.y].f[i], want_log[i]);
    close_op(&t);
}

/* The loss of parameter x [2,N] against an input; returns the loss and fills dx. */
static double run_loss(const char *op, const double x[2 * N], const void *targets, double *dx) {
    struct trial t;
    int in[2], loss;
    bool classes = strcmp(op, "cross_entropy") == 0;
    struct sl_shape shape = SL_SHAPE(2, 0, 2, N), rows = SL_SHAPE(1, 0, 2);
    t.graph = sl_graph_open(op, sl_op_find);
    assert_int_equal(sl_graph_param(t.graph, "x", shape, (struct sl_init){0}, &in[0]), SL_OK);
    assert_int_equal(sl_graph_input(t.graph, "t", classes ? SL_INT : SL_FLOAT,
                                    classes ? rows : shape, 0, &in[1]),
                     SL_OK);
    assert_int_equal(sl_graph_apply(t.graph, op, 2, in, NULL, &loss), SL_OK);
    assert_int_equal(sl_graph_loss(t.graph, "loss", loss, 1), SL_OK);
    assert_int_equal(t.graph->losses.at[0].count_input, classes ? 0 : -1);
    assert_int_equal(t.graph->losses.at[0].ignore, classes ? -100 : INT64_MIN);
    assert_int_equal(sl_graph_check(t.graph), SL_OK);
    assert_int_equal(sl_graph_autodiff(t.graph), SL_OK);
    t.run = sl_op_ref_open(t.graph, 1, 1);
    memcpy(t.run->arrays[in[0]].f, x, 2 * N * sizeof *x);
    if (classes)
        memcpy(t.run->arrays[in[1]].i, targets, 2 * sizeof(int32_t));
    else
        memcpy(t.run->arrays[in[1]].f, targets, 2 * N * sizeof(double));
    sl_op_ref_nodes(t.run, 0, t.graph->nodes.count);
    memcpy(dx, t.run->arrays[t.graph->grads.at[0].value].f, 2 * N * sizeof *dx);
    double value = t.run->arrays[loss].f[0];
    close_op(&t);
    return value;
}

static void cross_entropy_of_large_logits(void **state) {
    (void)state;
    const double x[2 * N] = {0, 1e5, 0, -1e5, -1e5, -1e5, 0, 1e5};
    double dx[2 * N];
    const int32_t right[2] = {1, 3}, wrong[2] = {3, 0}, none[2] = {-100, -100}, one[2] = {-100, 0};
    near(run_loss("cross_entropy", x, right, dx), 0);
    near(run_loss("cross_entropy", x, wrong, dx), 2e5);
    near(dx[1], 0.5);
    near(dx[3], -0.5);
    near(run_loss("cross_entropy", x, one, dx), 2e5);
    near(dx[1], 0); /* ignored */
    near(dx[4], -1);
    near(dx[7], 1);
    near(run_loss("cross_entropy", x, none, dx), 0);
    for (int i = 0; i < 2 * N; i++)
        near(dx[i], 0);
}

static void bce_of_large_logits(void **state) {
    (void)state;
    const double x[2 * N] = {1e5, -1e5, 1e5, -1e5, 0, 0, 1e5, -1e5};
    const double targets[2 * N] = {1, 0, 0, 1, 0, 1, 0.5, 0.5};
    const double want_dx[2 * N] = {0, 0, 1, -1, 0.5, -0.5, 0.5, -0.5};
    double dx[2 * N];
    double want = 1e5 + 1e5 + 2 * log(2) + 0.5e5 + 0.5e5;
    near(run_loss("bce_with_logits", x, targets, dx), want / (2 * N));
    for (int i = 0; i < 2 * N; i++)
        near(dx[i], want_dx[i] / (2 * N));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_reach_their_limits),
        cmocka_unit_test(softmax_of_large_numbers),
        cmocka_unit_test(cross_entropy_of_large_logits),
        cmocka_unit_test(bce_of_large_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
