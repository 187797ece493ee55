/* Cases of attention, image ops and lstm that the op tables do not cover: ties, empty rows, single
 * elements, running statistics, shared backward nodes, flops and bytes counted by hand. */
#include "op/registry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

/* One op with inputs filled by the test: 'x' data, 'p' parameter, 's' state, 'i' ints, '-' absent.
 */
struct bench {
    struct sl_graph *graph;
    struct sl_ref_run *run;
    int in[8], count, first_out;
};

static void add(struct bench *b, char kind, struct sl_shape shape) {
    char name[24];
    struct sl_init zero = {0};
    int *out = &b->in[b->count++];
    snprintf(name, sizeof name, "v%d", b->count);
    switch (kind) {
    case 'x': must(sl_graph_input(b->graph, name, SL_FLOAT, shape, 0, out)); break;
    case 'i': must(sl_graph_input(b->graph, name, SL_INT, shape, 2, out)); break;
    case 'p': must(sl_graph_param(b->graph, name, shape, zero, out)); break;
    case 's': must(sl_graph_state(b->graph, name, shape, zero, out)); break;
    default: *out = -1;
    }
}

static void apply(struct bench *b, const char *op, const union sl_attr *attr) {
    must(sl_graph_apply(b->graph, op, b->count, b->in, attr, &b->first_out));
}

static void differentiate(struct bench *b, int value) {
    int sum;
    must(sl_graph_apply(b->graph, "reduce_sum", 1, &value, NULL, &sum));
    must(sl_graph_loss(b->graph, "loss", sum, 1));
    must(sl_graph_check(b->graph));
    must(sl_graph_autodiff(b->graph));
}

static void run(struct bench *b, int64_t batch) {
    b->run = sl_op_ref_open(b->graph, batch, 1);
    for (int i = 0; i < b->count; i++) {
        struct sl_array *a = b->in[i] < 0 ? NULL : &b->run->arrays[b->in[i]];
        for (int64_t j = 0; a && a->f && j < sl_graph_shape_numel(&a->shape, 1); j++)
            a->f[j] = sin(1.7 * (double)j + i);
    }
}

static struct sl_array *out(struct bench *b, int slot) {
    return &b->run->arrays[b->first_out + slot];
}

static struct bench open_bench(void) {
    return (struct bench){sl_graph_open("t", sl_op_find), NULL, {0}, 0, -1};
}

static void close_bench(struct bench *b) {
    sl_op_ref_close(b->run);
    sl_graph_close(b->graph);
}

static int count_op(const struct sl_graph *graph, const char *op, enum sl_graph_pass pass) {
    int count = 0;
    for (int64_t n = 0; n < graph->nodes.count; n++)
        count += strcmp(graph->nodes.at[n].op->name, op) == 0 && graph->nodes.at[n].pass == pass;
    return count;
}

/* ---- attention ---- */

static void queries_that_see_nothing_give_zero(void **state) {
    (void)state;
    struct bench b = open_bench();
    union sl_attr attr[2] = {{.i = 1}, {.f = 0}};
    add(&b, 'x', SL_SHAPE(4, 1, 1, 5, 2, 3)); /* T 5, S 3: queries 0 and 1 see no key */
    add(&b, 'x', SL_SHAPE(4, 1, 1, 3, 1, 3));
    add(&b, 'x', SL_SHAPE(4, 1, 1, 3, 1, 3));
    add(&b, 'i', SL_SHAPE(2, 1, 1, 3));
    apply(&b, "attention", attr);
    run(&b, 2);
    memcpy(b.run->arrays[b.in[3]].i, (int32_t[]){0, 1, 1, 0, 0, 1}, sizeof(int32_t[6]));
    sl_op_ref_nodes(b.run, 0, 1);
    const double *y = out(&b, 0)->f, *lse = out(&b, 1)->f, *v = b.run->arrays[b.in[2]].f;
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 5; t++)
            for (int h = 0; h < 2; h++) {
                const double *row = y + ((s * 5 + t) * 2 + h) * 3;
                int seen = s == 0 ? t - 2 : (t == 4); /* keys 1 and 2 of sample 0, key 2 of 1 */
                if (seen <= 0) {
                    assert_true(row[0] == 0 && row[1] == 0 && row[2] == 0);
                    assert_true(lse[(s * 2 + h) * 5 + t] == 0);
                } else if (seen == 1) { /* one key: its value */
                    const double *value = v + (s * 3 + (s == 0 ? 1 : 2)) * 3;
                    for (int i = 0; i < 3; i++)
                        assert_true(fabs(row[i] - value[i]) < 1e-12);
                }
            }
    close_bench(&b);
}

static void attention_has_one_backward_node(void **state) {
    (void)state;
    struct bench b = open_bench();
    add(&b, 'p', SL_SHAPE(4, 0, 2, 3, 2, 5)); /* a learned query */
    add(&b, 'p', SL_SHAPE(4, 0, 2, 7, 2, 5));
    add(&b, 'p', SL_SHAPE(4, 0, 2, 7, 2, 5));
    apply(&b, "attention", NULL);
    differentiate(&b, b.first_out);
    assert_int_equal(count_op(b.graph, "attention_dqkv", SL_PASS_W), 1); /* only parameters */
    close_bench(&b);

    b = open_bench();
    int x, w;
    struct sl_shape shape = SL_SHAPE(4, 0, 2, 7, 2, 5);
    must(sl_graph_input(b.graph, "x", SL_FLOAT, shape, 0, &x));
    must(sl_graph_param(b.graph, "w", shape, (struct sl_init){0}, &w));
    add(&b, 'p', SL_SHAPE(4, 0, 2, 3, 2, 5));
    must(sl_graph_apply(b.graph, "mul", 2, (int[]){x, w}, NULL, &b.in[b.count++]));
    b.in[b.count] = b.in[b.count - 1];
    b.count++;
    apply(&b, "attention", NULL);
    differentiate(&b, b.first_out);
    assert_int_equal(count_op(b.graph, "attention_dqkv", SL_PASS_I), 1); /* shared: I */
    assert_int_equal(count_op(b.graph, "attention_dqkv", SL_PASS_W), 0);
    close_bench(&b);
}

static void kept_values_have_no_gradient(void **state) {
    (void)state;
    struct bench b = open_bench();
    int sum;
    for (int i = 0; i < 3; i++)
        add(&b, 'p', SL_SHAPE(4, 0, 2, 3, 2, 5));
    apply(&b, "attention", NULL);
    int lse = b.first_out + 1;
    must(sl_graph_apply(b.graph, "reduce_sum", 1, &lse, NULL, &sum));
    must(sl_graph_loss(b.graph, "loss", sum, 1));
    must(sl_graph_check(b.graph));
    assert_int_equal(sl_graph_autodiff(b.graph), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "attention"));
    assert_non_null(strstr(sl_err_message(), "output 1"));
    close_bench(&b);
}

static double flops_of(const struct bench *b) {
    return sl_graph_node_flops(b->graph, &b->graph->nodes.at[0], 3);
}

static void attention_counts_visible_pairs(void **state) {
    (void)state;
    static const struct {
        int64_t t, s, causal, pairs;
    } rows[] = {{5, 5, 0, 25}, {5, 5, 1, 15}, {3, 7, 0, 21}, {3, 7, 1, 18}, {7, 3, 1, 6}};
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct bench b = open_bench();
        union sl_attr attr[2] = {{.i = rows[i].causal}, {.f = 0}};
        add(&b, 'x', SL_SHAPE(4, 1, 1, rows[i].t, 4, 11));
        add(&b, 'x', SL_SHAPE(4, 1, 1, rows[i].s, 2, 11));
        add(&b, 'x', SL_SHAPE(4, 1, 1, rows[i].s, 2, 11));
        apply(&b, "attention", attr);
        assert_true(flops_of(&b) == (double)(3 * 4 * rows[i].pairs * (4 * 11 + 5)));
        assert_true(b.graph->nodes.at[0].attr[1].f == 1 / sqrt(11.0));
        close_bench(&b);
    }
}

/* ---- images ---- */

static void first_of_equal_elements_wins(void **state) {
    (void)state;
    struct bench b = open_bench();
    union sl_attr attr[3] = {{.ints = {1, {2}}}, {.ints = {1, {0}}}, {.ints = {1, {0}}}};
    add(&b, 'p', SL_SHAPE(4, 0, 1, 1, 2, 8));
    apply(&b, "maxpool", attr);
    differentiate(&b, b.first_out);
    run(&b, 1);
    double x[16] = {7, 7, 1, 2, 5, NAN, -INFINITY, -INFINITY,
                    7, 7, 2, 1, 9, 9,   -INFINITY, -INFINITY};
    memcpy(b.run->arrays[b.in[0]].f, x, sizeof x);
    sl_op_ref_nodes(b.run, 0, b.graph->nodes.count);
    assert_memory_equal(out(&b, 1)->i, ((int32_t[]){0, 3, 5, 6}), sizeof(int32_t[4]));
    assert_true(out(&b, 0)->f[0] == 7 && out(&b, 0)->f[1] == 2 && isnan(out(&b, 0)->f[2]) &&
                out(&b, 0)->f[3] == -INFINITY);
    const double *dx = b.run->arrays[b.graph->grads.at[0].value].f;
    for (int i = 0; i < 16; i++)
        assert_true(dx[i] == (i == 0 || i == 3 || i == 5 || i == 6));
    assert_int_equal(b.graph->nodes.at[0].attr[1].ints.at[1], 2); /* stride: the kernel */
    close_bench(&b);
}

static void open_batchnorm(struct bench *b, struct sl_shape x, const char *op) {
    *b = open_bench();
    add(b, 'x', x);
    add(b, 'p', SL_SHAPE(1, 0, x.dim[1]));
    add(b, 'p', SL_SHAPE(1, 0, x.dim[1]));
    add(b, 's', SL_SHAPE(1, 0, x.dim[1]));
    add(b, 's', SL_SHAPE(1, 0, x.dim[1]));
    apply(b, op, (union sl_attr[]){{.f = 1e-5}, {.f = 0.25}});
}

static void running_statistics_are_unbiased(void **state) {
    (void)state;
    struct bench b;
    open_batchnorm(&b, SL_SHAPE(2, 1, 1, 1), "batchnorm");
    assert_int_equal(b.graph->updates.count, 2);
    assert_int_equal(b.graph->updates.at[0].value, b.first_out + 3);
    assert_int_equal(b.graph->updates.at[1].value, b.first_out + 4);
    assert_int_equal(b.graph->updates.at[1].state, 1);
    run(&b, 3);
    memcpy(b.run->arrays[b.in[0]].f, (double[]){1, 2, 6}, sizeof(double[3]));
    b.run->arrays[b.in[3]].f[0] = 5;
    b.run->arrays[b.in[4]].f[0] = 11;
    sl_op_ref_nodes(b.run, 0, 1);
    assert_true(fabs(out(&b, 1)->f[0] - 3) < 1e-12);
    assert_true(fabs(out(&b, 2)->f[0] - 1 / sqrt(14.0 / 3 + 1e-5)) < 1e-12); /* biased */
    assert_true(fabs(out(&b, 3)->f[0] - (0.75 * 5 + 0.25 * 3)) < 1e-12);
    assert_true(fabs(out(&b, 4)->f[0] - (0.75 * 11 + 0.25 * 7)) < 1e-12); /* unbiased */
    close_bench(&b);
}

static void one_element_keeps_the_running_variance(void **state) {
    (void)state;
    struct bench b;
    open_batchnorm(&b, SL_SHAPE(4, 1, 1, 2, 1, 1), "batchnorm");
    run(&b, 1);
    sl_op_ref_nodes(b.run, 0, 1);
    for (int c = 0; c < 2; c++) {
        assert_true(out(&b, 0)->f[c] == b.run->arrays[b.in[2]].f[c]); /* the shift */
        assert_true(isfinite(out(&b, 2)->f[c]));
        assert_true(fabs(out(&b, 4)->f[c] - b.run->arrays[b.in[4]].f[c]) < 1e-15);
    }
    close_bench(&b);
}

static void evaluation_uses_the_states(void **state) {
    (void)state;
    struct bench b;
    open_batchnorm(&b, SL_SHAPE(3, 1, 1, 2, 2), "batchnorm_eval");
    assert_int_equal(b.graph->updates.count, 0);
    run(&b, 1);
    double *const *f = (double *const[]){b.run->arrays[b.in[0]].f, b.run->arrays[b.in[1]].f,
                                         b.run->arrays[b.in[2]].f, b.run->arrays[b.in[3]].f,
                                         b.run->arrays[b.in[4]].f};
    f[4][0] = 0.5, f[4][1] = 2;
    sl_op_ref_nodes(b.run, 0, 1);
    for (int i = 0; i < 4; i++) {
        int c = i / 2;
        double want = (f[0][i] - f[3][c]) / sqrt(f[4][c] + 1e-5) * f[1][c] + f[2][c];
        assert_true(fabs(out(&b, 0)->f[i] - want) < 1e-12);
    }
    close_bench(&b);
}

static void convolution_is_counted(void **state) {
    (void)state;
    struct bench b = open_bench();
    union sl_attr attr[4] = {
        {.ints = {1, {2}}}, {.ints = {2, {1, 3}}}, {.ints = {1, {1}}}, {.i = 2}};
    add(&b, 'x', SL_SHAPE(4, 1, 1, 4, 9, 7));
    add(&b, 'p', SL_SHAPE(4, 0, 6, 2, 3, 5));
    apply(&b, "conv2d", attr);
    const struct sl_shape want = SL_SHAPE(4, 1, 1, 6, 5, 5);
    assert_true(sl_graph_shape_equal(&sl_graph_value(b.graph, b.first_out)->shape, &want));
    assert_true(flops_of(&b) == 2.0 * 3 * (6 * 5 * 5) * (2 * 3 * 5));
    differentiate(&b, b.first_out);
    assert_int_equal(count_op(b.graph, "conv2d_dw", SL_PASS_W), 1);
    assert_int_equal(count_op(b.graph, "conv2d_dx", SL_PASS_I), 0); /* x needs no gradient */
    close_bench(&b);
}

/* ---- lstm ---- */

static void time_runs_backwards_once(void **state) {
    (void)state;
    struct bench b = open_bench();
    int x, w;
    struct sl_shape shape = SL_SHAPE(3, 1, 1, 5, 3);
    must(sl_graph_input(b.graph, "x", SL_FLOAT, shape, 0, &x));
    must(sl_graph_param(b.graph, "w", SL_SHAPE(1, 0, 3), (struct sl_init){0}, &w));
    must(sl_graph_apply(b.graph, "mul", 2, (int[]){x, w}, NULL, &b.in[b.count++]));
    add(&b, 'p', SL_SHAPE(2, 0, 8, 3));
    add(&b, 'p', SL_SHAPE(2, 0, 8, 2));
    add(&b, 'p', SL_SHAPE(1, 0, 8));
    add(&b, 'p', SL_SHAPE(1, 0, 8));
    apply(&b, "lstm", NULL);
    differentiate(&b, b.first_out);
    assert_int_equal(count_op(b.graph, "lstm_dgates", SL_PASS_I), 1);
    assert_int_equal(count_op(b.graph, "lstm_dgates", SL_PASS_W), 0);
    assert_int_equal(count_op(b.graph, "lstm_hprev", SL_PASS_W), 1);
    assert_int_equal(count_op(b.graph, "matmul", SL_PASS_I), 1);
    assert_int_equal(count_op(b.graph, "matmul", SL_PASS_W), 2);
    assert_int_equal(count_op(b.graph, "sum_to", SL_PASS_W), 2); /* shared by both biases; w */
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_that_see_nothing_give_zero),
        cmocka_unit_test(attention_has_one_backward_node),
        cmocka_unit_test(kept_values_have_no_gradient),
        cmocka_unit_test(attention_counts_visible_pairs),
        cmocka_unit_test(first_of_equal_elements_wins),
        cmocka_unit_test(running_statistics_are_unbiased),
        cmocka_unit_test(one_element_keeps_the_running_variance),
        cmocka_unit_test(evaluation_uses_the_states),
        cmocka_unit_test(convolution_is_counted),
        cmocka_unit_test(time_runs_backwards_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
