/* Patterns become the op that they mean: the rewritten graph has the op, not its parts, and the same
 * loss and gradients. Near misses stay as they are. */
#include "graph/model.h"
#include "op/registry.h"
#include "rewrite/rewrite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 5, D = 6, SAMPLES = 3 };

/* Values of stored states: masks [T,T] and angles [T,D]. */
static double numbers[5][T * D];
static const char *const names[] = {"causal", "window", "cosine", "sine", "turned"};

static void fill_numbers(void) {
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) {
            numbers[0][i * T + j] = j <= i ? 0 : -1e9;
            numbers[1][i * T + j] = j <= i && j > i - 2 ? 0 : -1e9;
        }
    for (int i = 0; i < T * D; i++) {
        double angle = i / D * pow(500, -2.0 * (i % D % (D / 2)) / D);
        numbers[2][i] = (double)(float)cos(angle);
        numbers[3][i] = (double)(float)sin(angle);
        numbers[4][i] = -numbers[3][i];
    }
}

static const double *values(void *ctx, const char *name) {
    (void)ctx;
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return numbers[i];
    return NULL;
}

static sl_err read_value(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)values(ctx, name)[from + i];
    return SL_OK;
}

#define HEAD                                                                                       \
    "model m \"m\"\ninput x : float[B,2,5,6]\nparam p[6] ~ normal(0.5)\nparam q[6] ~ "             \
    "normal(0.5)\n"                                                                                \
    "a = mul(x, p)\n"
#define TAIL "y2 = mul(y, y)\ny3 = mul(y2, q)\nl = reduce_mean(y3)\nloss loss = l\n"
#define MASKS "state causal[5,5] ~ stored\nstate window[5,5] ~ stored\n"
#define ANGLES                                                                                     \
    "state cosine[1,1,5,6] ~ stored\nstate sine[1,1,5,6] ~ stored\nstate turned[5,6] ~ stored\n"
#define SCORES                                                                                     \
    "k = transpose(x, perm = [0,1,3,2])\nks = scale(k, by = 0.5)\nas = scale(a, by = 0.5)\n"       \
    "s = matmul(as, ks)\n"

static const struct {
    const char *name, *text, *op, *part; /* `part` is gone; NULL op: nothing is fused to it */
} cases[] = {
    {"silu", "g = sigmoid(a)\ny = mul(a, g)\n", "silu", "sigmoid"},
    {"gate of another tensor", "g = sigmoid(x)\ny = mul(a, g)\n", NULL, "silu"},
    {"gelu, erf",
     "s = scale(a, by = 0.70710678118)\ne = erf(s)\no = offset(e, by = 1)\nm = mul(a, o)\n"
     "y = scale(m, by = 0.5)\n",
     "gelu", "erf"},
    {"gelu, erf of another argument",
     "s = scale(a, by = 0.7)\ne = erf(s)\no = offset(e, by = 1)\nm = mul(a, o)\n"
     "y = scale(m, by = 0.5)\n",
     NULL, "gelu"},
    {"gelu, tanh",
     "c = power(a, by = 3)\nd = scale(c, by = 0.044715)\ns = add(a, d)\n"
     "t = scale(s, by = 0.7978845608028654)\ne = tanh(t)\no = offset(e, by = 1)\n"
     "h = scale(a, by = 0.5)\ny = mul(h, o)\n",
     "gelu", "tanh"},
    {"layernorm",
     "param w[6] ~ normal(1)\nparam b[6] ~ normal(1)\nm = reduce_mean(a, axes = [-1], keep = 1)\n"
     "c = sub(a, m)\ns = mul(c, c)\nv = reduce_mean(s, axes = [3], keep = 1)\n"
     "o = offset(v, by = 1e-3)\nr = sqrt(o)\nn = div(c, r)\nnw = mul(n, w)\ny = add(nw, b)\n",
     "layernorm", "sub"},
    {"a norm over another axis",
     "param w[6] ~ normal(1)\nparam b[6] ~ normal(1)\nm = reduce_mean(a, axes = [2], keep = 1)\n"
     "c = sub(a, m)\ns = mul(c, c)\nv = reduce_mean(s, axes = [2], keep = 1)\n"
     "o = offset(v, by = 1e-3)\nr = sqrt(o)\nn = div(c, r)\nnw = mul(n, w)\ny = add(nw, b)\n",
     NULL, "layernorm"},
    {"rmsnorm",
     "param w[6] ~ normal(1)\ns = power(a, by = 2)\nv = reduce_mean(s, axes = [-1], keep = 1)\n"
     "o = offset(v, by = 1e-3)\nr = sqrt(o)\ni = power(r, by = -1)\nn = mul(a, i)\n"
     "y = mul(w, n)\n",
     "rmsnorm", "sqrt"},
    {"rmsnorm, rsqrt",
     "param w[6] ~ normal(1)\ns = mul(a, a)\nv = reduce_mean(s, axes = [-1], keep = 1)\n"
     "o = offset(v, by = 1e-3)\nr = rsqrt(o)\nn = mul(a, r)\ny = mul(n, w)\n",
     "rmsnorm", "rsqrt"},
    {"groupnorm",
     "state one[30] ~ ones\nparam w[2] ~ normal(1)\nparam b[2] ~ normal(1)\n"
     "r = reshape(a, shape = [B,2,30])\nn = layernorm(r, one)\nz = reshape(n, shape = [B,2,5,6])\n"
     "w2 = reshape(w, shape = [2,1,1])\nb2 = reshape(b, shape = [2,1,1])\nm = mul(z, w2)\n"
     "y = add(m, b2)\n",
     "groupnorm", "layernorm"},
    {"attention", SCORES "p2 = softmax(s)\ny = matmul(p2, x)\n", "attention", "softmax"},
    {"attention, causal", MASKS SCORES "s2 = add(s, causal)\np2 = softmax(s2)\ny = matmul(p2, x)\n",
     "attention", "softmax"},
    {"attention, in a window",
     MASKS SCORES "s2 = add(s, window)\np2 = softmax(s2)\ny = matmul(p2, x)\n", NULL, "attention"},
    {"attention, padded",
     "input mask : int[B,5] < 2\nstate zero[1] ~ zeros\nstate low[1] ~ const(-1e9)\n" SCORES
     "c = reshape(mask, shape = [B,1,1,5])\nw = where(c, zero, low)\ns2 = add(s, w)\n"
     "p2 = softmax(s2)\ny = matmul(p2, x)\n",
     "attention", "softmax"},
    {"attention, values of another shape",
     "k = transpose(x, perm = [0,1,3,2])\ns = matmul(a, k)\np2 = softmax(s)\n"
     "v = transpose(x, perm = [0,1,3,2])\nv2 = reshape(v, shape = [B,2,5,6])\ny = matmul(p2, v2)\n",
     "attention", "softmax"},
    {"rope",
     ANGLES "l1 = slice(a, axis = 3, to = 3)\nh1 = slice(a, axis = 3, from = 3)\nn = neg(h1)\n"
            "r = concat(n, l1, axis = 3)\nc = mul(a, cosine)\ns = mul(r, sine)\ny = add(c, s)\n",
     "rope", "concat"},
    {"rope, turned the other way",
     ANGLES "l1 = slice(a, axis = 3, to = 3)\nh1 = slice(a, axis = 3, from = 3)\nn = neg(h1)\n"
            "r = concat(n, l1, axis = 3)\nc = mul(a, cosine)\ns = mul(r, turned)\ny = add(c, s)\n",
     NULL, "rope"},
    {"transposes that cancel",
     "t = transpose(a, perm = [0,2,3,1])\ny = transpose(t, perm = [0,3,1,2])\n", "mul",
     "transpose"},
    {"a transpose of merged axes",
     "r = reshape(a, shape = [B*2,5,6])\nt = transpose(r, perm = [0,2,1])\n"
     "u = reshape(t, shape = [B,2,6,5])\ny = transpose(u, perm = [0,1,3,2])\n",
     "mul", "reshape"},
    {"a repeat that the sum makes itself",
     "w = broadcast_to(p, shape = [B,2,5,6])\ny = add(a, w)\n", "add", "broadcast_to"},
    {"heads in one axis",
     "r = reshape(a, shape = [B*2,5,6])\nk = transpose(x, perm = [0,1,3,2])\n"
     "k2 = reshape(k, shape = [B*2,6,5])\nm = matmul(r, k2)\nm2 = reshape(m, shape = [B,2,5,5])\n"
     "p2 = softmax(m2)\ny = matmul(p2, x)\n",
     "attention", "softmax"},
};

static int count_of(const struct sl_graph *graph, const char *op) {
    int count = 0;
    for (int64_t n = 0; n < graph->nodes.count; n++)
        count += strcmp(graph->nodes.at[n].op->name, op) == 0;
    return count;
}

static struct sl_graph *read_case(int at) {
    char text[4096];
    const struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    struct sl_graph *graph;
    snprintf(text, sizeof text, "%s%s%s", HEAD, cases[at].text, TAIL);
    if (sl_graph_model_read(cases[at].name, text, strlen(text), &options, &graph) != SL_OK)
        fail_msg("%s: %s", cases[at].name, sl_err_message());
    return graph;
}

/* Loss and the sum of squares of each parameter's gradient. */
static void measure(struct sl_graph *graph, double *out) {
    graph->stored = (struct sl_stored_values){.read = read_value};
    assert_int_equal(sl_graph_check(graph), SL_OK);
    assert_int_equal(sl_graph_autodiff(graph), SL_OK);
    struct sl_ref_run *run = sl_op_ref_open(graph, SAMPLES, 7);
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        struct sl_array *array = &run->arrays[graph->inputs.at[i].value];
        int64_t count = sl_graph_shape_numel(&array->shape, 1);
        for (int64_t k = 0; k < count; k++) {
            if (array->f)
                array->f[k] = sin((double)k * 1.7 + 0.3);
            else
                array->i[k] = k % 5 == 0 || k % 3 != 0;
        }
    }
    sl_op_ref_nodes(run, 0, graph->nodes.count);
    out[0] = sl_op_ref_loss(run);
    for (int64_t g = 0; g < graph->grads.count; g++) {
        const struct sl_array *array = &run->arrays[graph->grads.at[g].value];
        for (int64_t k = 0; k < sl_graph_shape_numel(&array->shape, 1); k++)
            out[1 + graph->grads.at[g].param] += array->f[k] * sin((double)k + 1);
    }
    sl_op_ref_close(run);
}

static void patterns_become_ops(void **state) {
    const struct sl_rewrite_constants constants = {NULL, values};
    (void)state;
    fill_numbers();
    for (int i = 0; i < SL_COUNT(cases); i++) {
        double before[8] = {0}, after[8] = {0};
        struct sl_graph *graph = read_case(i), *plain = read_case(i);
        if (sl_rewrite_fuse(&graph, true, &constants) != SL_OK)
            fail_msg("%s: %s", cases[i].name, sl_err_message());
        if (cases[i].op && count_of(graph, cases[i].op) == 0)
            fail_msg("%s: there is no %s", cases[i].name, cases[i].op);
        if (count_of(graph, cases[i].part))
            fail_msg("%s: there is a %s", cases[i].name, cases[i].part);
        measure(plain, before);
        measure(graph, after);
        for (int k = 0; k < 8; k++)
            if (fabs(before[k] - after[k]) > 1e-6 * (1 + fabs(before[k])))
                fail_msg("%s: number %d is %.9g, was %.9g", cases[i].name, k, after[k], before[k]);
        sl_graph_close(graph);
        sl_graph_close(plain);
    }
    printf("count: %d patterns\n", (int)SL_COUNT(cases));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(patterns_become_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
