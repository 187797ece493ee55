/* Statistics of graphs small enough to count by hand. */
#include "graph/stats.h"
#include "op/registry.h"

#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static int param(struct sl_graph *graph, const char *name, int64_t rows, int64_t columns) {
    int out;
    must(sl_graph_param(graph, name, SL_SHAPE(2, 0, rows, columns), (struct sl_init){0}, &out));
    return out;
}

static int apply(struct sl_graph *graph, const char *op, int a, int b, const union sl_attr *attr) {
    int out;
    must(sl_graph_apply(graph, op, b < 0 ? 1 : 2, (int[]){a, b}, attr, &out));
    return out;
}

/* x [B,3];  h = x w, g = x u [B,10];  y = reshape(h) * reshape(g) [B,2,5];  loss = sum(y v [5,7])
 */
static struct sl_graph *gated(void) {
    struct sl_graph *graph = sl_graph_open("gated", sl_op_find);
    union sl_attr split[1] = {{.shape = SL_SHAPE(3, 1, 1, 2, 5)}};
    int x;
    must(sl_graph_input(graph, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, 3), 0, &x));
    int h = apply(graph, "matmul", x, param(graph, "w", 3, 10), NULL);
    int g = apply(graph, "matmul", x, param(graph, "u", 3, 10), NULL);
    int y = apply(graph, "mul", apply(graph, "reshape", h, -1, split),
                  apply(graph, "reshape", g, -1, split), NULL);
    int z = apply(graph, "matmul", y, param(graph, "v", 5, 7), NULL);
    must(sl_graph_loss(graph, "loss", apply(graph, "reduce_sum", z, -1, NULL), 1));
    must(sl_graph_check(graph));
    return graph;
}

static void forward_is_counted(void **state) {
    (void)state;
    struct sl_graph_stats stats;
    struct sl_graph *graph = gated();
    sl_graph_stats(graph, &stats);
    assert_int_equal(stats.parameters, 30 + 30 + 35);
    assert_int_equal(stats.states, 0);
    assert_int_equal(stats.forward_nodes, 7);
    assert_int_equal((int)stats.forward_flops, 60 + 60 + 10 + 140 + 14);
    assert_int_equal(stats.activation_bytes, 0);
    assert_int_equal(stats.input_grad_nodes + stats.weight_grad_nodes, 0);
    sl_graph_close(graph);
}

static void backward_is_counted_by_tag(void **state) {
    (void)state;
    struct sl_graph_stats stats;
    struct sl_graph *graph = gated();
    must(sl_graph_autodiff(graph));
    sl_graph_stats(graph, &stats);
    assert_int_equal(stats.forward_nodes, 7);
    /* dw = x' dh, du = x' dg, dv = y' dz; x needs no gradient. */
    assert_int_equal((int)stats.weight_grad_flops, 60 + 60 + 140);
    /* dy = dz v', dh = dy * g, dg = dy * h; the broadcast of dz may count its 14. */
    assert_true(stats.input_grad_flops >= 140 + 10 + 10 && stats.input_grad_flops <= 174);
    /* x, h and g (through their views), y; neither z nor the views themselves. */
    assert_int_equal(stats.activation_bytes, 4 * (3 + 10 + 10 + 10));
    sl_graph_close(graph);
}

/* Statistics of a channel and states: batchnorm keeps x and two vectors, its states do not count.
 */
static void states_are_no_activations(void **state) {
    (void)state;
    struct sl_graph_stats stats;
    struct sl_graph *graph = sl_graph_open("norm", sl_op_find);
    struct sl_shape channels = SL_SHAPE(1, 0, 5);
    int in[5], x, y;
    must(sl_graph_input(graph, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, 3), 0, &x));
    in[0] = apply(graph, "matmul", x, param(graph, "p", 3, 5), NULL);
    must(sl_graph_param(graph, "w", channels, (struct sl_init){0}, &in[1]));
    must(sl_graph_param(graph, "b", channels, (struct sl_init){0}, &in[2]));
    must(sl_graph_state(graph, "mean", channels, (struct sl_init){0}, &in[3]));
    must(sl_graph_state(graph, "var", channels, (struct sl_init){0}, &in[4]));
    must(sl_graph_apply(graph, "batchnorm", 5, in, NULL, &y));
    must(sl_graph_loss(graph, "loss", apply(graph, "reduce_sum", y, -1, NULL), 1));
    must(sl_graph_check(graph));
    must(sl_graph_autodiff(graph));
    sl_graph_stats(graph, &stats);
    assert_int_equal(stats.parameters, 15 + 5 + 5);
    assert_int_equal(stats.states, 10);
    assert_int_equal(stats.activation_bytes, 4 * (3 + 5 + 5 + 5));
    sl_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_counted),
        cmocka_unit_test(backward_is_counted_by_tag),
        cmocka_unit_test(states_are_no_activations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
