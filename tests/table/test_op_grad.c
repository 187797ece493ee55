/* Every op of the registry against central differences in double, over its cases; and that the
 * cases leave no differentiable op, no attribute and no choice of an attribute untried. */
#include "op_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

/* Why 1e-7: see difference() in op_cases.c. */
static const double tolerance = 1e-7;

static void must(sl_err err, const struct sl_op_case *the) {
    if (err != SL_OK)
        fail_msg("%s.%s: %s", the->op, the->label, sl_err_message());
}

/* Visit every case of every group. */
static void each_case(void (*visit)(const struct sl_op_case *the, void *ctx), void *ctx) {
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            visit(&sl_op_groups[g]->cases[i], ctx);
}

struct summary {
    int cases;
    double worst;
    const struct sl_op_case *where;
};

static void check_costs(const struct sl_trial *t, int64_t batch) {
    for (int64_t n = 0; n < t->graph->nodes.count; n++) {
        const struct sl_node *node = &t->graph->nodes.at[n];
        struct sl_op_view view;
        sl_graph_view(t->graph, node, batch, &view);
        double flops = sl_graph_node_flops(t->graph, node, batch);
        double bytes = node->op->bytes ? node->op->bytes(&view) : 1;
        if (!isfinite(flops) || flops < 0 || !isfinite(bytes) || bytes <= 0)
            fail_msg("%s: flops %g, bytes %g", node->op->name, flops, bytes);
    }
}

static void check_gradients(const struct sl_op_case *the, void *ctx) {
    struct summary *summary = ctx;
    for (int64_t batch = 2; batch <= 3; batch++) {
        struct sl_trial trial;
        double worst;
        must(sl_trial_open(&trial, the, batch, sl_op_find), the);
        must(sl_trial_check(&trial, &worst), the);
        must(sl_trial_check_tags(&trial), the);
        check_costs(&trial, batch);
        sl_trial_close(&trial);
        if (!(worst <= tolerance))
            fail_msg("%s.%s at B=%d: gradient is off by %.3g", the->op, the->label, (int)batch,
                     worst);
        if (worst > summary->worst || !summary->where)
            summary->worst = worst, summary->where = the;
    }
    summary->cases++;
}

static void gradients_agree_with_differences(void **state) {
    (void)state;
    struct summary summary = {0};
    each_case(check_gradients, &summary);
    print_message("%d cases, worst relative error %.2g (%s.%s)\n", summary.cases, summary.worst,
                  summary.where->op, summary.where->label);
}

/* ---- the registry loop ---- */

struct coverage {
    const struct sl_op *op;
    int cases;
    bool other[SL_MAX_ATTR];      /* tried with a value that is not the default */
    unsigned chosen[SL_MAX_ATTR]; /* enums and bools: bits of the values tried */
};

static void cover(const struct sl_op_case *the, void *ctx) {
    struct coverage *c = ctx;
    union sl_attr attr[SL_MAX_ATTR] = {{0}}, fallback;
    if (strcmp(the->op, c->op->name) != 0)
        return;
    c->cases++;
    must(sl_case_attrs(c->op, the->attrs, attr), the);
    for (int i = 0; i < sl_graph_op_attr_count(c->op); i++) {
        struct sl_op only = {.name = c->op->name, .attrs = &c->op->attrs[i]};
        union sl_attr rest[SL_MAX_ATTR] = {{0}};
        unsigned given = ~1u;
        bool must_give = !c->op->attrs[i].fallback;
        if (!must_give)
            must(sl_graph_op_defaults(&only, given, rest), the);
        fallback = rest[0];
        c->other[i] |= must_give || !sl_graph_attr_equal(&c->op->attrs[i], &attr[i], &fallback);
        if (c->op->attrs[i].kind == SL_ATTR_ENUM || c->op->attrs[i].kind == SL_ATTR_BOOL)
            c->chosen[i] |= 1u << attr[i].i;
    }
}

static unsigned all_choices(const struct sl_attr_desc *desc) {
    unsigned count = desc->kind == SL_ATTR_BOOL ? 2 : 1;
    for (const char *at = desc->choices; at && *at; at++)
        count += *at == '|';
    return (1u << count) - 1;
}

/* An op without attributes needs no case of its own: each input is [B,5,7]. */
static void try_default(const struct sl_op *op) {
    struct sl_op_case the = {.op = op->name, .label = "default"};
    struct summary summary = {0};
    int least, max;
    sl_graph_op_arity(op, &least, &max);
    if (sl_graph_op_attr_count(op) || least > SL_CASE_MAX_IN)
        fail_msg("op '%s' has no case: add one to tests/table/op_cases_*.c", op->name);
    for (int i = 0; i < least; i++)
        the.in[i] = (struct sl_case_input)SL_X("B,5,7");
    check_gradients(&the, &summary);
}

static void nothing_is_left_untried(void **state) {
    (void)state;
    for (int i = 0; i < sl_op_count; i++) {
        struct coverage c = {.op = sl_op_rows[i]};
        if (c.op->internal || c.op->plan_only || !(c.op->grad || c.op->expand))
            continue;
        each_case(cover, &c);
        if (!c.cases)
            try_default(c.op);
        for (int a = 0; a < sl_graph_op_attr_count(c.op); a++) {
            const struct sl_attr_desc *desc = &c.op->attrs[a];
            if (!c.other[a])
                fail_msg("%s: no case gives '%s' another value than its default", c.op->name,
                         desc->name);
            if (c.chosen[a] && c.chosen[a] != all_choices(desc))
                fail_msg("%s: not every choice of '%s' has a case", c.op->name, desc->name);
        }
    }
}

static void registry_is_in_order(void **state) {
    (void)state;
    for (int i = 0; i < sl_op_count; i++) {
        const struct sl_op *op = sl_op_rows[i];
        assert_true(i == 0 || strcmp(sl_op_rows[i - 1]->name, op->name) < 0);
        assert_ptr_equal(sl_op_find(sl_str(op->name)), op);
        assert_true(op->brief && op->inputs && op->outputs && op->infer);
        assert_true(op->expand || (op->flops && (op->plan_only ? !op->ref : op->ref != NULL)));
        /* a backward node needs no gradient; shard/ adds its nodes to the forward pass */
        assert_true(!op->internal || !op->grad || strncmp(op->name, "shard_", 6) == 0);
        assert_true(!op->eval_op || sl_op_find(sl_str(op->eval_op)));
        assert_true(!op->is_loss || op->count_input >= -1);
    }
}

static void evaluate(const struct sl_op_case *the, void *ctx) {
    (void)ctx;
    const struct sl_op *op = sl_op_find(sl_str(the->op));
    if (!op->eval_op)
        return;
    struct sl_graph *graph = sl_graph_open("eval", sl_op_find);
    graph->eval = true;
    must(sl_case_apply(graph, op, the->in, the->attrs), the);
    assert_string_equal(graph->nodes.at[0].op->name, op->eval_op);
    sl_graph_close(graph);
}

static void evaluation_graphs_build(void **state) {
    (void)state;
    each_case(evaluate, NULL);
}

/* A loss through every output: those with a gradient have a case, the others are refused. */
struct outputs {
    const struct sl_op *op;
    int max;
};

static void try_outputs(const struct sl_op_case *the, void *ctx) {
    struct outputs *o = ctx;
    if (strcmp(the->op, o->op->name) != 0)
        return;
    o->max = the->outputs > o->max ? the->outputs : o->max;
    int flow = o->op->grad_outputs ? o->op->grad_outputs : 1;
    for (int i = flow; i < sl_graph_op_output_count(o->op); i++) {
        struct sl_op_case more = *the;
        struct sl_trial trial;
        more.outputs = i + 1;
        sl_err err = sl_trial_open(&trial, &more, 2, sl_op_find);
        if (err != SL_ERR_INPUT ||
            !(strstr(sl_err_message(), "has no gradient") || strstr(sl_err_message(), "it is int")))
            fail_msg("%s.%s: a loss may depend on output %d", the->op, the->label, i);
        sl_trial_close(&trial);
    }
}

static void kept_outputs_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < sl_op_count; i++) {
        struct outputs o = {.op = sl_op_rows[i], .max = 1};
        each_case(try_outputs, &o);
        if (o.op->grad_outputs > 1 && o.max != o.op->grad_outputs)
            fail_msg("%s: no case has a loss through its %d outputs", o.op->name,
                     o.op->grad_outputs);
    }
}

/* ---- sabotage: the bench catches wrong gradients ---- */

static sl_err infer_square(struct sl_infer *c) {
    c->out[0] = c->in[0];
    return SL_OK;
}

static void ref_square(const struct sl_ref *r) {
    for (int64_t i = 0; i < sl_graph_shape_numel(&r->out[0].shape, 1); i++)
        r->out[0].f[i] = r->in[0].f[i] * r->in[0].f[i];
}

/* dx = 1.9999 x dy instead of 2 x dy. */
static int grad_wrong_factor(struct sl_grad *g, int input) {
    union sl_attr by[1] = {{.f = 1.9999}};
    int dx = sl_graph_grad_emit(g, "mul", 2, (int[]){g->dout[0], g->in[input]}, NULL);
    return sl_graph_grad_emit(g, "scale", 1, &dx, by);
}

/* 2 x dy, but of the second sample in the place of the first: sums over the batch are right. */
static int grad_wrong_sample(struct sl_grad *g, int input) {
    union sl_attr by[1] = {{.f = 2}};
    int dx = sl_graph_grad_emit(g, "mul", 2, (int[]){g->dout[0], g->in[input]}, NULL);
    dx = sl_graph_grad_emit(g, "scale", 1, &dx, by);
    return sl_graph_grad_emit(g, "swap_samples", 1, &dx, NULL);
}

static int grad_none(struct sl_grad *g, int input) {
    (void)g;
    (void)input;
    return -1;
}

static void ref_swap(const struct sl_ref *r) {
    int64_t count = sl_graph_shape_numel(&r->out[0].shape, 1), half = count / 2;
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = r->in[0].f[i < half ? i + half : i - half];
}

#define SQUARE(name_, grad_)                                                                       \
    {                                                                                              \
        .name = name_, .inputs = "x", .outputs = "y", .infer = infer_square, .grad = grad_,        \
        .ref = ref_square                                                                          \
    }

static const struct sl_op sabotaged[] = {
    SQUARE("square_factor", grad_wrong_factor),
    SQUARE("square_none", grad_none),
    SQUARE("square_sample", grad_wrong_sample),
    {.name = "swap_samples", .inputs = "x", .outputs = "y", .infer = infer_square, .ref = ref_swap},
};

static const struct sl_op *find_sabotaged(struct sl_str name) {
    for (int i = 0; i < SL_COUNT(sabotaged); i++)
        if (sl_str_is(name, sabotaged[i].name))
            return &sabotaged[i];
    return sl_op_find(name);
}

static void wrong_gradients_are_caught(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct sl_op_case the = {sabotaged[i].name, "sabotage", {SL_X("B,3,5")}, NULL, 0};
        struct sl_trial trial;
        double worst = 0;
        must(sl_trial_open(&trial, &the, 2, find_sabotaged), &the);
        sl_err err = sl_trial_check(&trial, &worst);
        assert_true(sabotaged[i].grad == grad_none ? err == SL_ERR_REFUSED
                                                   : worst > 100 * tolerance);
        sl_trial_close(&trial);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registry_is_in_order),
        cmocka_unit_test(gradients_agree_with_differences),
        cmocka_unit_test(nothing_is_left_untried),
        cmocka_unit_test(evaluation_graphs_build),
        cmocka_unit_test(kept_outputs_are_refused),
        cmocka_unit_test(wrong_gradients_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
