/* Fusion of gated layers and of the gradients of rmsnorm: what is stored, what is computed again, and
 * which gates stay as they are. */
#include "pass/fused.h"
#include "support/model_text.h"
#include "support/pass_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HEAD                                                                                       \
    "size C = 8, F = 16\ninput x : float[B, 4, C]\ninput y : float[B, 4, C]\n"                     \
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nreturn matmul(x, w, tb = 1)\n}\n"    \
    "fn norm(x) {\nparam w[C] ~ ones\nreturn rmsnorm(x, w)\n}\n"

static const char llama[] =
    HEAD "fn gated(x) {\ngate = linear(x, F) as gate\nup = linear(x, F) as up\n"
         "return linear(silu(gate) * up, C) as down\n}\n"
         "x = linear(x, C) as first\n"
         "repeat i in 0..3 as h {\nx = x + gated(norm(x) as n) as g\n}\nloss mse(x, y)\n";

static bool has_all(const char *name) {
    static const char *const all[] = {SL_FUSED_SILU_MUL, SL_FUSED_SILU_MUL_GRAD, SL_FUSED_GELU_MUL,
                                      SL_FUSED_GELU_MUL_GRAD, SL_FUSED_RMSNORM_GRAD};
    for (int i = 0; i < SL_COUNT(all); i++)
        if (strcmp(all[i], name) == 0)
            return true;
    return false;
}

static int count(const struct sl_program *p, const char *kernel) {
    int found = 0;
    for (int i = 0; i < p->instr_count; i++)
        found += strcmp(p->instrs[i].kernel, kernel) == 0;
    return found;
}

/* Fused in every kind of program; the activation is not stored. */
static void gates_keep_no_activation(void **state) {
    struct sl_graph *graph = model_of_text(llama);
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        bool split = kind == 1, recompute = kind == 2;
        struct sl_program *p = pass_build(graph, has_all, split, recompute);
        struct sl_program *apart = pass_build(graph, pass_has_none, split, recompute);
        assert_int_equal(count(p, SL_FUSED_SILU_MUL), recompute ? 6 : 3);
        assert_int_equal(count(p, SL_FUSED_SILU_MUL_GRAD), 3);
        assert_int_equal(count(p, "silu") + count(p, "silu_dx") + count(p, "mul"), 0);
        assert_int_equal(count(apart, "mul"), recompute ? 12 : 9);
        if (!recompute) /* three times silu(gate) and its product, [3,4,16] each */
            assert_true(p->stash_bytes + 2 * 3 * 3 * 4 * 16 * 4 <= apart->stash_bytes);
        sl_pass_program_close(p);
        sl_pass_program_close(apart);
    }
    sl_graph_close(graph);
}

/* A device with only one of the two kernels, and a gate whose activation has another reader. */
static bool has_half(const char *name) { return strcmp(name, SL_FUSED_SILU_MUL) == 0; }

static void gates_are_fused_whole_or_not(void **state) {
    struct sl_graph *graph = model_of_text(llama);
    struct sl_program *p = pass_build(graph, has_half, false, false);
    (void)state;
    assert_int_equal(count(p, SL_FUSED_SILU_MUL), 0);
    sl_pass_program_close(p);
    sl_graph_close(graph);
    static const char *const others[] = {
        HEAD "s = silu(linear(x, C) as a)\nu = linear(x, C) as b\nloss mse(s * u + s, y)\n",
        HEAD "s = silu(linear(x, C) as a)\nloss mse(s * s, y)\n",
        HEAD "s = silu(linear(x, C) as a)\nparam u[C] ~ ones\nloss mse(s * u, y)\n",
    };
    for (int i = 0; i < SL_COUNT(others); i++) {
        graph = model_of_text(others[i]);
        p = pass_build(graph, has_all, false, false);
        assert_int_equal(count(p, SL_FUSED_SILU_MUL), 0);
        assert_int_equal(count(p, SL_FUSED_SILU_MUL_GRAD), 0);
        sl_pass_program_close(p);
        sl_graph_close(graph);
    }
}

/* The other factor may come first, have no gradient, or be the input of the activation. */
static void gates_of_other_forms(void **state) {
    static const struct {
        const char *text, *forward, *backward;
        int back;
    } forms[] = {
        {HEAD "u = linear(x, C) as b\ng = linear(x, C) as a\nloss mse(u * gelu(g), y)\n",
         SL_FUSED_GELU_MUL, SL_FUSED_GELU_MUL_GRAD, 1},
        {HEAD "g = linear(x, C) as a\nloss mse(silu(g) * y, y)\n", SL_FUSED_SILU_MUL,
         SL_FUSED_SILU_MUL_GRAD, 0},
        {HEAD "g = linear(x, C) as a\nloss mse(silu(g) * g, y)\n", SL_FUSED_SILU_MUL,
         SL_FUSED_SILU_MUL_GRAD, 1},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(forms); i++) {
        struct sl_graph *graph = model_of_text(forms[i].text);
        struct sl_program *p = pass_build(graph, has_all, false, false);
        assert_int_equal(count(p, forms[i].forward), 1);
        assert_int_equal(count(p, forms[i].backward), forms[i].back);
        sl_pass_program_close(p);
        sl_graph_close(graph);
    }
}

/* The two factors of a gate stay in one stage. */
static void gates_are_glued(void **state) {
    struct sl_graph *graph = model_of_text(llama);
    int group[64], silu = -1;
    (void)state;
    assert_true(graph->forward_count <= SL_COUNT(group));
    sl_pass_glue(graph, has_all, group);
    for (int n = 0; n < graph->forward_count; n++) {
        const char *name = graph->nodes.at[n].op->name;
        if (strcmp(name, "silu") == 0)
            silu = group[n];
        if (strcmp(name, "mul") == 0)
            assert_int_equal(group[n], silu);
    }
    sl_graph_close(graph);
}

/* Residuals go into the gradient; so do sums of two gradients of its output. */
static void gradients_of_rmsnorm_are_one(void **state) {
    struct sl_graph *graph = model_of_text(llama);
    struct sl_program *p = pass_build(graph, has_all, false, false);
    struct sl_program *split = pass_build(graph, has_all, true, false);
    int with = 0;
    (void)state;
    for (int i = 0; i < p->instr_count; i++)
        with +=
            strcmp(p->instrs[i].kernel, SL_FUSED_RMSNORM_GRAD) == 0 && p->instrs[i].in_count == 6;
    assert_int_equal(with, 3);
    assert_int_equal(count(p, SL_FUSED_RMSNORM_GRAD), 3);
    assert_int_equal(count(p, "rmsnorm_dx") + count(p, "rmsnorm_dw"), 0);
    assert_int_equal(count(split, SL_FUSED_RMSNORM_GRAD), 0);
    assert_int_equal(count(split, "rmsnorm_dx"), 3);
    sl_pass_program_close(p);
    sl_pass_program_close(split);
    sl_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gates_keep_no_activation),
        cmocka_unit_test(gates_are_fused_whole_or_not),
        cmocka_unit_test(gates_of_other_forms),
        cmocka_unit_test(gates_are_glued),
        cmocka_unit_test(gradients_of_rmsnorm_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
