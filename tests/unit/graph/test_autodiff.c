/* Autodiff as a graph transformation: emitted nodes, their order and their tags. The values are
 * tested by tests/table/test_op_grad.c. */
#include "op/registry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <setjmp.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static struct sl_graph *open_graph(void) { return sl_graph_open("test", sl_op_find); }

static int input(struct sl_graph *g, const char *name, struct sl_shape shape) {
    int out;
    must(sl_graph_input(g, name, SL_FLOAT, shape, 0, &out));
    return out;
}

static int param(struct sl_graph *g, const char *name, struct sl_shape shape) {
    int out;
    must(sl_graph_param(g, name, shape, (struct sl_init){SL_INIT_NORMAL, 0.5, 0.1}, &out));
    return out;
}

static int apply(struct sl_graph *g, const char *op, int a, int b) {
    int in[2] = {a, b}, out;
    must(sl_graph_apply(g, op, b < 0 ? 1 : 2, in, NULL, &out));
    return out;
}

/* Sum of everything as a loss. */
static void add_loss(struct sl_graph *g, const char *name, int value, double weight) {
    if (sl_graph_value(g, value)->shape.rank)
        value = apply(g, "reduce_sum", value, -1);
    must(sl_graph_loss(g, name, value, weight));
}

/* Differentiate; then the invariants of every differentiated graph. */
static void differentiate(struct sl_graph *g) {
    must(sl_graph_check(g));
    must(sl_graph_autodiff(g));
    for (int64_t n = 0; n < g->nodes.count; n++) {
        const struct sl_node *node = &g->nodes.at[n];
        bool backward = n >= g->forward_count;
        assert_true(backward == (node->pass != SL_PASS_F));
        assert_true(backward ? node->of >= 0 && node->of < g->forward_count : node->of == -1);
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0 && sl_graph_value(g, node->in[i])->kind == SL_VALUE_NODE)
                assert_true(sl_graph_value(g, node->in[i])->node < n);
    }
    for (int64_t i = 1; i < g->grads.count; i++) {
        const struct sl_param_grad *a = &g->grads.at[i - 1], *b = &g->grads.at[i];
        assert_true(a->param < b->param ||
                    (a->param == b->param &&
                     (a->node < b->node || (a->node == b->node && a->input < b->input))));
    }
}

static const struct sl_node *maker(const struct sl_graph *g, int value) {
    const struct sl_value *v = sl_graph_value(g, value);
    assert_int_equal(v->kind, SL_VALUE_NODE);
    return &g->nodes.at[v->node];
}

static int count_nodes(const struct sl_graph *g, const char *op, enum sl_graph_pass pass) {
    int count = 0;
    for (int64_t n = 0; n < g->nodes.count; n++)
        count += g->nodes.at[n].pass == pass && (!op || strcmp(g->nodes.at[n].op->name, op) == 0);
    return count;
}

/* ---- uses of parameters ---- */

static void tied_parameters_keep_one_gradient_per_use(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int x = input(g, "x", SL_SHAPE(2, 1, 1, 3)), v = param(g, "v", SL_SHAPE(1, 0, 3));
    int w = param(g, "w", SL_SHAPE(2, 0, 3, 3));
    int h = apply(g, "matmul", x, w); /* node 0 */
    h = apply(g, "add", h, v);        /* node 1 */
    h = apply(g, "matmul", h, w);     /* node 2 */
    h = apply(g, "mul", h, v);        /* node 3 */
    h = apply(g, "matmul", h, w);     /* node 4 */
    add_loss(g, "loss", h, 1);
    differentiate(g);
    const int want[][3] = {{0, 1, 1}, {0, 3, 1}, {1, 0, 1}, {1, 2, 1}, {1, 4, 1}};
    assert_int_equal(g->grads.count, SL_COUNT(want));
    for (int i = 0; i < SL_COUNT(want); i++) {
        assert_int_equal(g->grads.at[i].param, want[i][0]);
        assert_int_equal(g->grads.at[i].node, want[i][1]);
        assert_int_equal(g->grads.at[i].input, want[i][2]);
        assert_int_equal(maker(g, g->grads.at[i].value)->pass, SL_PASS_W);
        assert_int_equal(maker(g, g->grads.at[i].value)->of, want[i][1]);
    }
    assert_int_equal(count_nodes(g, "add", SL_PASS_W), 0); /* uses are not added here */
    sl_graph_close(g);
}

static void one_node_may_use_a_parameter_twice(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int w = param(g, "w", SL_SHAPE(1, 0, 3));
    add_loss(g, "loss", apply(g, "mul", w, w), 1);
    differentiate(g);
    assert_int_equal(g->grads.count, 2);
    assert_int_equal(g->grads.at[0].input, 0);
    assert_int_equal(g->grads.at[1].input, 1);
    assert_int_equal(g->grads.at[0].value, g->grads.at[1].value); /* equal nodes, emitted once */
    sl_graph_close(g);
}

/* ---- nodes that are not emitted ---- */

static void dead_gradients_are_not_emitted(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int x = input(g, "x", SL_SHAPE(2, 1, 1, 5)), w = param(g, "w", SL_SHAPE(2, 0, 5, 3));
    int h = apply(g, "tanh", x, -1); /* of data: needs no gradient */
    int y = apply(g, "matmul", h, w);
    int aside = apply(g, "tanh", y, -1); /* reaches no loss */
    must(sl_graph_output(g, "aside", apply(g, "tanh", aside, -1)));
    add_loss(g, "loss", y, 1);
    differentiate(g);
    assert_int_equal(count_nodes(g, "tanh_dx", SL_PASS_I), 0);
    assert_int_equal(count_nodes(g, "tanh_dx", SL_PASS_W), 0);
    assert_int_equal(count_nodes(g, "matmul", SL_PASS_I), 0); /* no dx */
    assert_int_equal(count_nodes(g, "matmul", SL_PASS_W), 1); /* dw */
    assert_int_equal(count_nodes(g, "matmul", SL_PASS_F), 1);
    sl_graph_close(g);
}

/* ---- tags ---- */

static void weights_are_split_from_activations(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int x = input(g, "x", SL_SHAPE(3, 1, 1, 2, 5)), w1 = param(g, "w1", SL_SHAPE(2, 0, 5, 3));
    int w2 = param(g, "w2", SL_SHAPE(1, 0, 21)), b = param(g, "b", SL_SHAPE(1, 0, 7));
    union sl_attr shape[1] = {{.shape = SL_SHAPE(2, 0, 3, 7)}};
    int view, y;
    must(sl_graph_apply(g, "reshape", 1, &w2, shape, &view));
    int h = apply(g, "matmul", x, w1);
    must(sl_graph_apply(g, "matmul", 3, (int[]){h, view, b}, NULL, &y));
    add_loss(g, "loss", y, 1);
    differentiate(g);
    assert_int_equal(g->grads.count, 3);
    for (int64_t i = 0; i < g->grads.count; i++)
        assert_int_equal(maker(g, g->grads.at[i].value)->pass, SL_PASS_W);
    /* I: the broadcast of the loss and one dx. The rest is W, also through the view of w2. */
    assert_int_equal(count_nodes(g, "matmul", SL_PASS_I), 1);
    assert_int_equal(count_nodes(g, "matmul", SL_PASS_W), 2);
    assert_int_equal(count_nodes(g, "sum_to", SL_PASS_W), 1);
    assert_int_equal(count_nodes(g, NULL, SL_PASS_I),
                     1 + count_nodes(g, "broadcast_to", SL_PASS_I) +
                         count_nodes(g, "reshape", SL_PASS_I));
    sl_graph_close(g);
}

/* ---- several readers, several losses ---- */

static void readers_are_added_last_first(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int w = param(g, "w", SL_SHAPE(1, 0, 3)), d = input(g, "d", SL_SHAPE(2, 1, 1, 3));
    int x = apply(g, "mul", d, w);
    int a = apply(g, "exp", x, -1), b = apply(g, "tanh", x, -1), c = apply(g, "sigmoid", x, -1);
    int first = sl_graph_value(g, a)->node;
    add_loss(g, "loss", apply(g, "add", apply(g, "mul", a, b), c), 1);
    differentiate(g);
    /* dx = (c2 + c1) + c0 */
    const struct sl_node *outer = NULL;
    for (int64_t n = g->forward_count; n < g->nodes.count; n++)
        if (g->nodes.at[n].sums == x)
            outer = &g->nodes.at[n];
    assert_non_null(outer);
    const struct sl_node *inner = maker(g, outer->in[0]);
    assert_string_equal(outer->op->name, "add");
    assert_string_equal(inner->op->name, "add");
    assert_int_equal(inner->sums, x);
    assert_int_equal(maker(g, inner->in[0])->of, first + 2);
    assert_int_equal(maker(g, inner->in[1])->of, first + 1);
    assert_int_equal(maker(g, outer->in[1])->of, first);
    assert_int_equal(inner->of, first + 1); /* each reader adds its own contribution */
    assert_int_equal(outer->of, first);
    assert_int_equal(outer->pass, SL_PASS_I);
    sl_graph_close(g);
}

/* d (2 a(w) + 0.5 b(w)) / dw by the seeds' weights, and loss by loss by setting the seeds. */
static void losses_have_a_seed_each(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int w = param(g, "w", (struct sl_shape){0});
    int h = apply(g, "tanh", w, -1);
    add_loss(g, "a", apply(g, "exp", h, -1), 2);
    add_loss(g, "b", apply(g, "sigmoid", h, -1), 0.5);
    differentiate(g);
    struct sl_ref_run *run = sl_op_ref_open(g, 1, 7);
    double x = run->arrays[w].f[0], t = tanh(x), s = 1 / (1 + exp(-t));
    double da = exp(t) * (1 - t * t), db = s * (1 - s) * (1 - t * t);
    assert_int_equal(g->grads.count, 1);
    const double *got = run->arrays[g->grads.at[0].value].f;
    sl_op_ref_nodes(run, 0, g->nodes.count);
    assert_true(fabs(sl_op_ref_loss(run) - (2 * exp(t) + 0.5 * s)) < 1e-12);
    assert_true(fabs(got[0] - (2 * da + 0.5 * db)) < 1e-12);
    run->arrays[g->losses.at[0].seed].f[0] = 0;
    run->arrays[g->losses.at[1].seed].f[0] = 1;
    sl_op_ref_nodes(run, 0, g->nodes.count);
    assert_true(fabs(got[0] - db) < 1e-12);
    sl_op_ref_close(run);
    sl_graph_close(g);
}

static void a_loss_may_be_read_by_another(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int w = param(g, "w", (struct sl_shape){0});
    int a = apply(g, "exp", w, -1);
    add_loss(g, "a", a, 1);
    add_loss(g, "b", apply(g, "mul", a, a), 1);
    differentiate(g);
    struct sl_ref_run *run = sl_op_ref_open(g, 1, 7);
    sl_op_ref_nodes(run, 0, g->nodes.count);
    double e = exp(run->arrays[w].f[0]);
    assert_true(fabs(run->arrays[g->grads.at[0].value].f[0] - (e + 2 * e * e)) < 1e-12);
    sl_op_ref_close(run);
    sl_graph_close(g);
}

static void a_value_is_a_loss_once(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int a = apply(g, "exp", param(g, "w", (struct sl_shape){0}), -1);
    add_loss(g, "a", a, 1);
    add_loss(g, "b", a, 1);
    must(sl_graph_check(g));
    assert_int_equal(sl_graph_autodiff(g), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "same value"));
    sl_graph_close(g);
}

/* ---- sabotage and time ---- */

static sl_err infer_wide(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(1, 0, 5);
    return SL_OK;
}

static int grad_of_wrong_shape(struct sl_grad *g, int i) {
    (void)i;
    return g->dout[0];
}

static const struct sl_op wide = {.name = "wide",
                                  .inputs = "x",
                                  .outputs = "y",
                                  .infer = infer_wide,
                                  .grad = grad_of_wrong_shape};

static void gradients_of_a_wrong_shape_are_refused(void **state) {
    (void)state;
    struct sl_graph *g = open_graph();
    int w = param(g, "w", SL_SHAPE(1, 0, 3)), y;
    must(sl_graph_node(g, &(struct sl_node_spec){.op = &wide, .in_count = 1, .in = &w}, &y));
    add_loss(g, "loss", y, 1);
    must(sl_graph_check(g));
    assert_int_equal(sl_graph_autodiff(g), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "[5]"));
    assert_non_null(strstr(sl_err_message(), "[3]"));
    sl_graph_close(g);
}

/* A chain in which every value has two readers and every node a parameter. */
static double time_chain(int length, int64_t *nodes) {
    clock_t start = clock(); /* CPU time: independent of other load */
    struct sl_graph *g = open_graph();
    int x = input(g, "x", SL_SHAPE(2, 1, 1, 3));
    for (int i = 0; i < length; i++) {
        char name[32];
        snprintf(name, sizeof name, "w%d", i);
        int w = param(g, name, SL_SHAPE(1, 0, 3));
        x = apply(g, "add", apply(g, "mul", x, w), x);
    }
    add_loss(g, "loss", x, 1);
    must(sl_graph_check(g));
    must(sl_graph_autodiff(g));
    *nodes = g->nodes.count;
    sl_graph_close(g);
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static void time_and_nodes_grow_linearly(void **state) {
    (void)state;
    enum { FEW = 2000, MANY = 64000 }; /* 32 times as many; quadratic would be 1,024 times */
    int64_t few, many;
    double few_s = 1e9, many_s = 1e9;
    for (int i = 0; i < 3; i++) { /* the best of three: caches are shared */
        few_s = fmin(few_s, time_chain(FEW, &few));
        many_s = fmin(many_s, time_chain(MANY, &many));
    }
    print_message("%lld nodes in %.1f ms, %lld in %.1f ms\n", (long long)few, few_s * 1e3,
                  (long long)many, many_s * 1e3);
    /* Constant part: the loss, and the first layer, whose input needs no gradient. */
    int64_t each = (many - few) / (MANY - FEW);
    assert_true(many - few == each * (MANY - FEW) && each <= 8);
    assert_true(many_s < 8 * (MANY / FEW) * few_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tied_parameters_keep_one_gradient_per_use),
        cmocka_unit_test(one_node_may_use_a_parameter_twice),
        cmocka_unit_test(dead_gradients_are_not_emitted),
        cmocka_unit_test(weights_are_split_from_activations),
        cmocka_unit_test(readers_are_added_last_first),
        cmocka_unit_test(losses_have_a_seed_each),
        cmocka_unit_test(a_loss_may_be_read_by_another),
        cmocka_unit_test(a_value_is_a_loss_once),
        cmocka_unit_test(gradients_of_a_wrong_shape_are_refused),
        cmocka_unit_test(time_and_nodes_grow_linearly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
