#include "support/pipe_case.h"

#include "graph/model.h"
#include "op/registry.h"
#include "plan/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <string.h>

static void open_data(struct pipe_case *c) {
    const struct sl_graph *graph = c->graph;
    assert_true(graph->inputs.count <= SL_COUNT(c->inputs));
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(graph, graph->inputs.at[i].value);
        c->inputs[i] = (struct sl_data_input){
            .name = graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .rank = v->shape.rank - 1,
            .below = graph->inputs.at[i].below,
        };
        for (int k = 1; k < v->shape.rank; k++)
            c->inputs[i].dim[k - 1] = v->shape.dim[k];
    }
    struct sl_data_spec spec = {.source = "synthetic",
                                .inputs = c->inputs,
                                .input_count = (int)graph->inputs.count,
                                .seed = 3,
                                .validation = 0.1,
                                .threads = 1};
    if (sl_data_open(&spec, &c->data) != SL_OK)
        fail_msg("%s", sl_err_message());
}

void pipe_case_open(struct pipe_case *c, const char *model) {
    struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    *c = (struct pipe_case){0};
    if (sl_model_read("test.model", model, strlen(model), &options, &c->graph) != SL_OK ||
        sl_graph_autodiff(c->graph) != SL_OK)
        fail_msg("%s", sl_err_message());
    open_data(c);
}

void pipe_case_close(struct pipe_case *c) {
    sl_data_close(c->data);
    sl_graph_close(c->graph);
    sl_arena_free(&c->arena);
}

struct sl_train_config pipe_case_config(const struct pipe_case *c, const char *optimizer,
                                        int64_t batch, int64_t micros, int64_t steps) {
    struct sl_train_config config = {
        .graph = c->graph,
        .data = c->data,
        .device = sl_device_find("cpu"),
        .threads = 1,
        .base_lr = 0.01,
        .batch = batch,
        .micros = micros,
        .steps = steps,
        .seed = 5,
    };
    assert_int_equal(sl_optim_parse(optimizer, &config.optim), SL_OK);
    assert_int_equal(sl_lr_parse("cosine:warmup=2", steps + 2, &config.lr), SL_OK);
    return config;
}

static void make_plan(struct pipe_case *c, const struct sl_train_config *config, int stages,
                      const int *worker_of) {
    int *own = SL_NEW(&c->arena, int, stages), workers = 0;
    for (int s = 0; s < stages; s++) {
        own[s] = worker_of ? worker_of[s] : s;
        workers = own[s] >= workers ? own[s] + 1 : workers;
    }
    struct sl_model_plan_spec spec = {
        .graph = c->graph,
        .stage_of = c->stage_of,
        .stage_count = stages,
        .micro_size = sl_train_full_samples(config->batch, config->micros),
        .recompute = config->recompute,
        .optim = &config->optim,
        .worker_count = workers,
        .worker_of = own,
        .has_kernel = config->device->has_kernel,
    };
    if (sl_plan_from_model(&c->arena, &spec, &c->plan) != SL_OK)
        fail_msg("%d stages: %s", stages, sl_err_message());
}

void pipe_case_cut(struct pipe_case *c, const struct sl_train_config *config, int stages,
                   const int *worker_of) {
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, c->graph->forward_count);
    if (sl_plan_cut_even(c->graph, config->device->has_kernel, stages, c->stage_of) != SL_OK)
        fail_msg("%d stages: %s", stages, sl_err_message());
    make_plan(c, config, stages, worker_of);
}

static int stage_by_name(const struct sl_graph *graph, const struct sl_node *node,
                         const int *stage_of) {
    int low = INT_MAX, high = 0;
    for (int i = 0; i < node->in_count; i++) {
        const struct sl_value *v = node->in[i] < 0 ? NULL : sl_graph_value(graph, node->in[i]);
        if (v && v->kind == SL_VALUE_PARAM)
            return graph->params.at[v->index].name[1] - '0';
        if (!v || v->kind != SL_VALUE_NODE)
            continue;
        low = stage_of[v->node] < low ? stage_of[v->node] : low;
        high = stage_of[v->node] > high ? stage_of[v->node] : high;
    }
    return low < high ? high + 1 : high;
}

void pipe_case_cut_by_name(struct pipe_case *c, const struct sl_train_config *config, int stages,
                           const int *worker_of) {
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, c->graph->forward_count);
    for (int64_t n = 0; n < c->graph->forward_count; n++)
        c->stage_of[n] = stage_by_name(c->graph, &c->graph->nodes.at[n], c->stage_of);
    make_plan(c, config, stages, worker_of);
}
