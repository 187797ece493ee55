/* Layouts of tensors over shards: what is divided, the checker, the traffic, and that the graphs of
 * shards compute the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op/registry.h"
#include "plan/model.h"
#include "shard/shard.h"
#include "support/model_text.h"
#include "support/pipe_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static const struct sl_shard_layout *
layout_of(const struct sl_graph *graph, const struct sl_shard_layouts *layouts, const char *param) {
    const int64_t *value = sl_map_find(&graph->names, sl_str(param));
    assert_non_null(value);
    return &layouts->at[*value];
}

static void expect(const struct sl_graph *graph, const struct sl_shard_layouts *layouts,
                   const char *param, int axis, int parts) {
    const struct sl_shard_layout *l = layout_of(graph, layouts, param);
    assert_int_equal(l->divided, axis >= 0);
    if (axis < 0)
        return;
    assert_int_equal(l->axis, axis);
    assert_int_equal(l->parts, parts);
}

/* Columns of the first product and rows of the second; packed q, k, v in three parts. */
static void test_gpt(void **state) {
    struct pipe_case c;
    struct sl_shard_layouts l;
    struct sl_arena arena = {0};
    (void)state;
    pipe_case_open_zoo(&c, "gpt2", "V=39,T=5,P=5,L=2,C=24,H=6");
    must(sl_shard_choose(&arena, c.graph, 3, &l));
    assert_int_equal(l.regions, 4);
    expect(c.graph, &l, "h.0.attn.c_attn.weight", 1, 3);
    expect(c.graph, &l, "h.0.attn.c_attn.bias", 0, 3);
    expect(c.graph, &l, "h.0.attn.c_proj.weight", 0, 1);
    expect(c.graph, &l, "h.0.attn.c_proj.bias", -1, 0);
    expect(c.graph, &l, "h.1.mlp.c_fc.weight", 1, 1);
    expect(c.graph, &l, "h.1.mlp.c_proj.weight", 0, 1);
    expect(c.graph, &l, "h.0.ln_1.weight", -1, 0);
    expect(c.graph, &l, "wte.weight", -1, 0);
    sl_arena_free(&arena);
    pipe_case_close(&c);
}

/* Sizes that do not divide: fewer key heads than shards keep attention whole, five shards divide
 * nothing. */
static void test_undivided(void **state) {
    struct pipe_case c;
    struct sl_shard_layouts l;
    struct sl_arena arena = {0};
    (void)state;
    pipe_case_open_zoo(&c, "llama", "V=41,T=6,L=2,C=24,H=12,K=2,F=36");
    must(sl_shard_choose(&arena, c.graph, 4, &l));
    assert_int_equal(l.regions, 2);
    expect(c.graph, &l, "model.layers.0.self_attn.q_proj.weight", -1, 0);
    expect(c.graph, &l, "model.layers.0.self_attn.k_proj.weight", -1, 0);
    expect(c.graph, &l, "model.layers.0.mlp.up_proj.weight", 0, 1);
    expect(c.graph, &l, "model.layers.0.mlp.down_proj.weight", 1, 1);
    must(sl_shard_choose(&arena, c.graph, 2, &l));
    assert_int_equal(l.regions, 4);
    expect(c.graph, &l, "model.layers.1.self_attn.k_proj.weight", 0, 1);
    must(sl_shard_choose(&arena, c.graph, 5, &l));
    assert_int_equal(l.regions, 0);
    sl_arena_free(&arena);
    pipe_case_close(&c);
}

/* Every layout changed on its own, every sum dropped or added: the checker says no. */
static void test_sabotage(void **state) {
    struct pipe_case c;
    struct sl_shard_layouts l;
    struct sl_arena arena = {0};
    int tried = 0;
    (void)state;
    pipe_case_open_zoo(&c, "llama", "V=41,T=6,L=2,C=24,H=12,K=6,F=36");
    must(sl_shard_choose(&arena, c.graph, 2, &l));
    must(sl_shard_check(c.graph, &l));
    for (int n = 0; n < c.graph->forward_count; n++) {
        l.sums[n] = !l.sums[n];
        assert_int_equal(sl_shard_check(c.graph, &l), SL_ERR_INPUT);
        l.sums[n] = !l.sums[n];
        tried++;
    }
    for (int64_t v = 0; v < c.graph->values.count; v++) {
        struct sl_shard_layout *at = &l.at[v], was = *at;
        const struct sl_value *value = &c.graph->values.at[v];
        bool forward = value->kind == SL_VALUE_PARAM ||
                       (value->kind == SL_VALUE_NODE && value->node < c.graph->forward_count);
        if (!forward || value->shape.rank == 0)
            continue;
        *at = (struct sl_shard_layout){!was.divided, value->shape.rank - 1, 1};
        assert_int_equal(sl_shard_check(c.graph, &l), SL_ERR_INPUT);
        *at = was;
        tried++;
        if (!was.divided || value->shape.rank < 2)
            continue;
        at->axis = was.axis ? 0 : 1;
        assert_int_equal(sl_shard_check(c.graph, &l), SL_ERR_INPUT);
        *at = was;
    }
    must(sl_shard_check(c.graph, &l));
    assert_true(tried > 80);
    sl_arena_free(&arena);
    pipe_case_close(&c);
}

/* ---- the graphs compute the model ---- */

/* The value of a shard of a parameter, from the whole one. */
static void copy_params(const struct sl_ref_run *whole, struct sl_ref_run *run) {
    for (int64_t i = 0; i < run->graph->params.count; i++) {
        const struct sl_param *p = &run->graph->params.at[i];
        const struct sl_part_of *part = p->part_of;
        const int64_t *from =
            sl_map_find(&whole->graph->names, sl_str(part ? part->name : p->name));
        struct sl_array *to = &run->arrays[p->value];
        const struct sl_array *all = &whole->arrays[*from];
        int64_t count = sl_graph_shape_numel(&to->shape, 1), inner = 1;
        int64_t size = part ? part->shape.dim[part->axis] / part->parts : 1;
        for (int k = part ? part->axis + 1 : 0; part && k < part->shape.rank; k++)
            inner *= part->shape.dim[k];
        int64_t run_size = part ? size * inner / part->shards : 1;
        for (int64_t e = 0; e < count; e++) {
            int64_t at =
                part ? e / run_size * size * inner + part->shard * run_size + e % run_size : e;
            to->f[e] = all->f[at];
        }
    }
}

static void copy_inputs(const struct sl_ref_run *whole, struct sl_ref_run *run) {
    for (int64_t i = 0; i < whole->graph->inputs.count; i++) {
        const struct sl_array *from = &whole->arrays[whole->graph->inputs.at[i].value];
        struct sl_array *to = &run->arrays[run->graph->inputs.at[i].value];
        int64_t count = sl_graph_shape_numel(&from->shape, 1);
        for (int64_t e = 0; e < count; e++) {
            if (from->i)
                to->i[e] = from->i[e] = (int32_t)((e * 7 + i) % whole->graph->inputs.at[i].below);
            else
                to->f[e] = from->f[e] = sin((double)(e + i));
        }
    }
}

/* In double precision, loss and gradients of the graph of all shards are those of the model. */
static void test_together(void **state) {
    static const struct {
        const char *name, *sets;
        int shards;
    } cases[] = {
        {"gpt2", "V=39,T=5,P=5,L=2,C=24,H=12", 2},
        {"gpt2", "V=39,T=5,P=5,L=2,C=24,H=12,tied=0", 3},
        {"llama", "V=41,T=6,L=2,C=24,H=12,K=4,F=36", 4},
        {"transformer-classifier", "V=43,T=5,L=2,C=24,H=12,F=36,drop=0", 6},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct pipe_case c;
        struct sl_shard_layouts l;
        struct sl_arena arena = {0};
        struct sl_graph *graph;
        pipe_case_open_zoo(&c, cases[i].name, cases[i].sets);
        must(sl_shard_choose(&arena, c.graph, cases[i].shards, &l));
        must(sl_shard_rewrite(c.graph, &l, SL_SHARD_TOGETHER, &graph, NULL));
        must(sl_graph_autodiff(graph));
        struct sl_ref_run *whole = sl_op_ref_open(c.graph, 3, 7);
        struct sl_ref_run *run = sl_op_ref_open(graph, 3, 7);
        copy_inputs(whole, run);
        copy_params(whole, run);
        sl_op_ref_nodes(whole, 0, c.graph->nodes.count);
        sl_op_ref_nodes(run, 0, graph->nodes.count);
        assert_float_equal(sl_op_ref_loss(whole), sl_op_ref_loss(run), 1e-12);
        double norms[2] = {0};
        for (int k = 0; k < 2; k++) {
            const struct sl_ref_run *r = k ? run : whole;
            for (int64_t g = 0; g < r->graph->grads.count; g++) {
                const struct sl_array *grad = &r->arrays[r->graph->grads.at[g].value];
                for (int64_t e = 0; e < sl_graph_shape_numel(&grad->shape, 1); e++)
                    norms[k] += grad->f[e] * grad->f[e];
            }
        }
        assert_true(fabs(norms[0] - norms[1]) < 1e-10 * norms[0]);
        sl_op_ref_close(whole);
        sl_op_ref_close(run);
        sl_graph_close(graph);
        sl_arena_free(&arena);
        pipe_case_close(&c);
    }
}

/* ---- traffic ---- */

/* Megatron (Shoeybi et al. 2019, section 3): two all-reduces of [b,s,h] forward and two backward per
 * layer, 2 (t-1)/t of the tensor each on a ring. */
static void test_megatron_bytes(void **state) {
    (void)state;
    for (int t = 2; t <= 4; t++)
        for (int layers = 1; layers <= 3; layers++) {
            enum { WIDTH = 24, TOKENS = 5 };
            struct pipe_case c;
            struct sl_shard_layouts l;
            struct sl_arena arena = {0};
            struct sl_graph *graph;
            struct sl_shard_node *nodes;
            const struct sl_plan *plan;
            char sets[64];
            snprintf(sets, sizeof sets, "V=39,T=%d,P=5,L=%d,C=%d,H=12", TOKENS, layers, WIDTH);
            pipe_case_open_zoo(&c, "gpt2", sets);
            must(sl_shard_choose(&arena, c.graph, t, &l));
            must(sl_shard_rewrite(c.graph, &l, SL_SHARD_APART, &graph, &nodes));
            must(sl_graph_autodiff(graph));
            int *stage_of = SL_NEW(&arena, int, graph->forward_count);
            int *worker_of = SL_NEW(&arena, int, t);
            for (int n = 0; n < graph->forward_count; n++)
                stage_of[n] = nodes[n].shard;
            for (int k = 0; k < t; k++)
                worker_of[k] = k;
            struct sl_model_plan_spec spec = {.graph = graph,
                                              .stage_of = stage_of,
                                              .stage_count = t,
                                              .parts = t,
                                              .micro_size = 2,
                                              .worker_count = t,
                                              .worker_of = worker_of,
                                              .threads = 1};
            must(sl_plan_from_model(&arena, &spec, &plan));
            const struct sl_stage *stage = &plan->stages[0];
            int64_t passes[SL_COLLECTIVE_PASSES] = {0};
            for (int i = 0; i < stage->collective_count; i++)
                passes[stage->collectives[i].pass] +=
                    stage->collectives[i].count *
                    sl_plan_collective_traffic(stage->collectives[i].kind, t,
                                               stage->collectives[i].sample_bytes);
            int64_t tensor = 4 * TOKENS * WIDTH; /* divisible by t */
            assert_int_equal(passes[SL_COLLECTIVE_F], layers * 2 * 2 * (t - 1) * tensor / t);
            assert_int_equal(passes[SL_COLLECTIVE_B], layers * 2 * 2 * (t - 1) * tensor / t);
            assert_int_equal(passes[SL_COLLECTIVE_W], 0);
            sl_graph_close(graph);
            sl_arena_free(&arena);
            pipe_case_close(&c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_undivided),
        cmocka_unit_test(test_sabotage),
        cmocka_unit_test(test_together),
        cmocka_unit_test(test_megatron_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
