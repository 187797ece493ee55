/* Fusion: gradients of logits in the pass that computes the logits, sums of gradients inside the
 * layernorm gradient, and the memory of the fused programs. */
#include "pass/fused.h"
#include "support/model_text.h"
#include "support/pass_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char model[] =
    "size V = 64, T = 4, C = 8\n"
    "input tokens : int[B, T] < V\ninput targets : int[B, T] < V\n"
    "param wte[V, C] ~ normal(0.5)\n"
    "fn norm(x) {\nparam w[C] ~ ones\nparam b[C] ~ zeros\nreturn layernorm(x, w, b)\n}\n"
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nreturn matmul(x, w, tb = 1)\n}\n"
    "x = embed(wte, tokens)\n"
    "repeat i in 0..2 as h {\nx = x + linear(norm(x) as ln, C) as up\n}\n"
    "loss cross_entropy(linear(norm(x) as lnf, V) as head, targets)\n";

static bool has_both(const char *name) {
    return strcmp(name, SL_FUSED_CROSS_ENTROPY_GRAD) == 0 ||
           strcmp(name, SL_FUSED_LAYERNORM_GRAD) == 0;
}

static int count(const struct sl_program *p, const char *kernel, int begin, int end) {
    int found = 0;
    for (int i = begin; i < end; i++)
        found += strcmp(p->instrs[i].kernel, kernel) == 0;
    return found;
}

static const struct sl_instr *find(const struct sl_program *p, const char *kernel) {
    for (int i = 0; i < p->instr_count; i++)
        if (strcmp(p->instrs[i].kernel, kernel) == 0)
            return &p->instrs[i];
    return NULL;
}

static void gradient_of_logits_is_made_with_the_loss(void **state) {
    struct sl_graph *graph = model_of_text(model);
    (void)state;
    for (int split = 0; split < 2; split++) {
        struct sl_program *p = pass_build(graph, has_both, split, false);
        struct sl_program *apart = pass_build(graph, pass_has_none, split, false);
        const struct sl_instr *both = find(p, SL_FUSED_CROSS_ENTROPY_GRAD);
        assert_int_equal(count(p, SL_FUSED_CROSS_ENTROPY_GRAD, 0, p->end[SL_PHASE_F]), 1);
        assert_int_equal(count(p, "cross_entropy", 0, p->instr_count), 0);
        assert_int_equal(count(p, "cross_entropy_dx", 0, p->instr_count), 0);
        assert_int_equal(count(apart, "cross_entropy_dx", 0, apart->instr_count), 1);
        assert_int_equal(both->in[2].value, p->seeds.at[0].value);
        assert_int_equal(both->out[1].value, p->losses.at[0].value);
        assert_int_equal(both->out[0].space, SL_SPACE_SLOT); /* in place of the logits */
        assert_int_equal(both->out[0].offset, both->in[0].offset);
        assert_true(p->slot_bytes <= apart->slot_bytes); /* lse is not kept */
        assert_true(p->work_bytes <= apart->work_bytes);
        sl_pass_program_close(p);
        sl_pass_program_close(apart);
    }
    sl_graph_close(graph);
}

static void what_is_recomputed_is_fused_when_it_goes_back(void **state) {
    struct sl_graph *graph = model_of_text(model);
    struct sl_program *p = pass_build(graph, has_both, false, true);
    int end = p->end[SL_PHASE_F];
    (void)state;
    assert_int_equal(count(p, "cross_entropy", 0, end), 1);
    assert_int_equal(count(p, SL_FUSED_CROSS_ENTROPY_GRAD, 0, end), 0);
    assert_int_equal(count(p, SL_FUSED_CROSS_ENTROPY_GRAD, end, p->instr_count), 1);
    assert_int_equal(count(p, "cross_entropy", end, p->instr_count), 0);
    sl_pass_program_close(p);
    sl_graph_close(graph);
}

/* Logits with a second reader keep their memory. */
static void logits_of_two_losses_stay(void **state) {
    struct sl_graph *graph =
        model_of_text("input x : float[B, 8]\ninput t : int[B] < 8\nparam w[8, 8] ~ normal(0.3)\n"
                      "y = matmul(x, w)\nloss cross_entropy(y, t)\nloss mse(y, x)\n");
    struct sl_program *p = pass_build(graph, has_both, false, false);
    (void)state;
    assert_int_equal(count(p, "cross_entropy_dx", 0, p->instr_count), 1);
    sl_pass_program_close(p);
    sl_graph_close(graph);
}

static void sums_of_gradients_go_into_layernorm(void **state) {
    struct sl_graph *graph = model_of_text(model);
    struct sl_program *p = pass_build(graph, has_both, false, false);
    struct sl_program *apart = pass_build(graph, pass_has_none, false, false);
    struct sl_program *split = pass_build(graph, has_both, true, false);
    int with = 0, group[64], group_apart[64];
    (void)state;
    for (int i = 0; i < p->instr_count; i++)
        with +=
            strcmp(p->instrs[i].kernel, SL_FUSED_LAYERNORM_GRAD) == 0 && p->instrs[i].in_count == 6;
    assert_int_equal(with, 2); /* the last norm has no residual */
    int f = p->end[SL_PHASE_F], g = apart->end[SL_PHASE_F];
    assert_int_equal(count(apart, "add", g, apart->instr_count), 2);
    assert_int_equal(count(p, "add", f, p->instr_count), 0);
    assert_int_equal(count(split, "add", split->end[SL_PHASE_F], split->instr_count), 2);
    assert_true(graph->forward_count <= SL_COUNT(group)); /* and it glues no nodes */
    sl_pass_glue(graph, has_both, group);
    sl_pass_glue(graph, pass_has_none, group_apart);
    assert_memory_equal(group, group_apart, sizeof *group * (size_t)graph->forward_count);
    sl_pass_program_close(p);
    sl_pass_program_close(apart);
    sl_pass_program_close(split);
    sl_graph_close(graph);
}

/* Norms after sums, as in BERT: dy is a sum and is fused. Split programs keep it separate. */
static void sums_that_come_to_layernorm_go_into_it(void **state) {
    struct sl_graph *graph =
        model_of_text("size C = 8\ninput x : float[B, 4, C]\ninput y : float[B, 4, C]\n"
                      "fn norm(x) {\nparam w[C] ~ ones\nparam b[C] ~ zeros\n"
                      "return layernorm(x, w, b)\n}\n"
                      "fn linear(x) {\nparam w[C, C] ~ normal(0.3)\nreturn matmul(x, w)\n}\n"
                      "x = norm(x) as first\n"
                      "repeat i in 0..3 as h {\nx = norm(x + linear(x) as up) as ln\n}\n"
                      "loss mse(x, y)\n");
    struct sl_program *p = pass_build(graph, has_both, false, false);
    struct sl_program *split = pass_build(graph, has_both, true, false);
    int with = 0;
    (void)state;
    for (int i = 0; i < p->instr_count; i++)
        with +=
            strcmp(p->instrs[i].kernel, SL_FUSED_LAYERNORM_GRAD) == 0 && p->instrs[i].in_count == 7;
    assert_int_equal(with, 2); /* the last dy is no sum; the first norm has no gradient of x */
    assert_int_equal(count(p, "add", p->end[SL_PHASE_F], p->instr_count), 1);
    assert_int_equal(count(split, "add", split->end[SL_PHASE_F], split->instr_count), 3);
    sl_pass_program_close(p);
    sl_pass_program_close(split);
    sl_graph_close(graph);
}

static bool has_batchnorms(const char *name) { return strncmp(name, "batchnorm_", 10) == 0; }

/* Blocks of a residual network: the add is fused into the last batchnorm before it. */
static void batchnorms_take_what_surrounds_them(void **state) {
    struct sl_graph *graph = model_of_text(
        "input image : float[B, 8, 4, 4]\ninput label : int[B] < 5\n"
        "fn conv(x) {\nparam w[8, 8, 3, 3] ~ normal(0.3)\nreturn conv2d(x, w, stride = "
        "1, pad = 1)\n}\n"
        "fn bn(x) {\nparam w[8] ~ ones\nparam b[8] ~ zeros\nstate mean[8] ~ zeros\n"
        "state var[8] ~ ones\nreturn batchnorm(x, w, b, mean, var)\n}\n"
        "x = relu(bn(conv(image) as c0) as b0)\n"
        "y = bn(conv(x) as c1) as b1\nx = relu(y + x)\n"
        "y = bn(conv(x) as c2) as b2\nx = relu(y + bn(conv(x) as c3) as b3)\n"
        "param wl[5, 8] ~ normal(0.4)\n"
        "loss cross_entropy(matmul(global_avgpool(x), wl, tb = 1), label)\n");
    (void)state;
    for (int recompute = 0; recompute < 2; recompute++) {
        struct sl_program *p = pass_build(graph, has_batchnorms, false, recompute);
        struct sl_program *apart = pass_build(graph, pass_has_none, false, recompute);
        int sums = 0, f = p->end[SL_PHASE_F];
        for (int i = 0; i < f; i++)
            sums += strcmp(p->instrs[i].kernel, SL_FUSED_BATCHNORM_RELU) == 0 &&
                    p->instrs[i].in_count == 6;
        assert_int_equal(sums, 2);
        assert_int_equal(count(p, SL_FUSED_BATCHNORM_RELU, 0, f), 3);
        assert_int_equal(count(p, "batchnorm", 0, f), 1); /* b2, which waits for b3 */
        assert_int_equal(count(p, "relu", 0, p->instr_count), 0);
        assert_int_equal(count(p, "add", 0, f), 0);
        assert_int_equal(count(p, SL_FUSED_BATCHNORM_GRAD, f, p->instr_count), 3);
        assert_int_equal(count(p, SL_FUSED_BATCHNORM_RELU_GRAD, f, p->instr_count), 1); /* b0 */
        assert_int_equal(count(p, "relu_dx", f, p->instr_count), 2);
        assert_int_equal(count(p, "batchnorm_dw", 0, p->instr_count), 0);
        assert_int_equal(count(p, "sum_to", 0, p->instr_count), 0);
        assert_true(p->slot_bytes <= apart->slot_bytes);
        sl_pass_program_close(p);
        sl_pass_program_close(apart);
    }
    sl_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_of_logits_is_made_with_the_loss),
        cmocka_unit_test(what_is_recomputed_is_fused_when_it_goes_back),
        cmocka_unit_test(logits_of_two_losses_stay),
        cmocka_unit_test(sums_of_gradients_go_into_layernorm),
        cmocka_unit_test(sums_that_come_to_layernorm_go_into_it),
        cmocka_unit_test(batchnorms_take_what_surrounds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
