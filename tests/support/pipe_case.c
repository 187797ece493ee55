#include "support/pipe_case.h"

#include "base/rng.h"
#include "graph/model.h"
#include "op/registry.h"
#include "pass/program.h"
#include "plan/model.h"
#include "support/apart.h"
#include "support/model_text.h"
#include "tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void open_data(struct pipe_case *c) {
    const struct sl_graph *graph = c->graph;
    assert_true(graph->inputs.count <= SL_COUNT(c->inputs));
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(graph, graph->inputs.at[i].value);
        c->inputs[i] = (struct sl_data_input){
            .name = graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .below = graph->inputs.at[i].below,
        };
        for (int k = 0; k < v->shape.rank; k++)
            if (k > 0 || v->shape.dim[0] != 1) /* B itself is no size of a sample, but B*G has G */
                c->inputs[i].dim[c->inputs[i].rank++] = v->shape.dim[k];
        for (int64_t l = 0; l < graph->losses.count; l++)
            if (graph->losses.at[l].count_input == i && graph->losses.at[l].ignore != INT64_MIN) {
                c->inputs[i].has_ignore = true;
                c->inputs[i].ignore = graph->losses.at[l].ignore;
            }
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
    *c = (struct pipe_case){.graph = model_of_text(model)};
    open_data(c);
}

void pipe_case_open_zoo(struct pipe_case *c, const char *name, const char *sets) {
    pipe_case_open_frozen(c, name, sets, "");
}

void pipe_case_open_frozen(struct pipe_case *c, const char *name, const char *sets,
                           const char *freeze) {
    static const char *const dirs[] = {SL_MODELS_SRC_DIR, NULL};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs};
    struct sl_arena arena = {0};
    const char *file = sl_arena_printf(&arena, "%s/%s.model", SL_MODELS_SRC_DIR, name);
    struct sl_tune tune;
    *c = (struct pipe_case){0};
    if (sl_graph_model_parse_sets(sets, &arena, &options) != SL_OK ||
        sl_graph_model_read_file(file, &options, &c->graph) != SL_OK ||
        sl_tune_open(&arena, freeze, "", &tune) != SL_OK ||
        sl_tune_finish(&tune, c->graph) != SL_OK || sl_graph_autodiff(c->graph) != SL_OK)
        fail_msg("%s --set %s: %s", name, sets, sl_err_message());
    options.eval = true;
    if (sl_graph_model_read_file(file, &options, &c->eval_graph) != SL_OK ||
        sl_tune_finish(&tune, c->eval_graph) != SL_OK)
        fail_msg("%s --set %s, evaluation: %s", name, sets, sl_err_message());
    sl_arena_free(&arena);
    open_data(c);
}

void pipe_case_close(struct pipe_case *c) {
    sl_data_close(c->data);
    sl_graph_close(c->graph);
    sl_graph_close(c->eval_graph);
    sl_arena_free(&c->arena);
}

const struct sl_device_row *pipe_case_device(void) {
    const char *name = getenv("SL_TEST_DEVICE");
    const struct sl_device_row *row = sl_device_find(name ? name : "cpu");
    if (name && strcmp(name, "apart") == 0)
        row = apart_row();
    if (!row || row->missing())
        fail_msg("SL_TEST_DEVICE=%s: %s", name, row ? row->missing() : "there is none");
    return row;
}

struct sl_train_config pipe_case_config(const struct pipe_case *c, const char *optimizer,
                                        int64_t batch, int64_t micros, int64_t steps) {
    struct sl_train_config config = {
        .graph = c->graph,
        .data = c->data,
        .device = pipe_case_device(),
        .threads = 1,
        .base_lr = 0.01,
        .batch = batch,
        .micros = micros,
        .steps = steps,
        .seed = 5,
    };
    assert_int_equal(sl_optim_parse(optimizer, &config.optim), SL_OK);
    assert_int_equal(sl_optim_lr_parse("cosine:warmup=2", steps + 2, &config.lr), SL_OK);
    return config;
}

void pipe_case_plan(struct pipe_case *c, const struct sl_train_config *config, int stages,
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
        .micro_size = sl_run_train_full_samples(config->batch, config->micros),
        .split = c->split,
        .recompute = config->recompute,
        .optim = &config->optim,
        .policy = &config->policy,
        .worker_count = workers,
        .worker_of = own,
        .has_kernel = config->device->has_kernel,
        .dtype = config->dtype,
        .extra_bytes = config->device->extra_bytes,
        .threads = config->threads,
    };
    if (sl_plan_from_model(&c->arena, &spec, &c->plan) != SL_OK)
        fail_msg("%d stages: %s", stages, sl_err_message());
}

void pipe_case_lay_out(struct pipe_case *c, const struct sl_train_config *config,
                       const struct pipe_layout *layout) {
    struct sl_model_plan_spec spec = {
        .graph = c->graph,
        .stage_of = c->stage_of,
        .stage_count = layout->stages,
        .micro_size = sl_run_train_full_samples(config->batch, config->micros),
        .recompute = layout->recompute,
        .optim = &config->optim,
        .worker_count = layout->workers,
        .width_of = layout->width_of,
        .workers_of = layout->workers_of,
        .micro_of = layout->micro_of,
        .has_kernel = config->device->has_kernel,
    };
    if (sl_plan_from_model(&c->arena, &spec, &c->plan) != SL_OK)
        fail_msg("%d stages: %s", layout->stages, sl_err_message());
}

bool pipe_case_try_cut(struct pipe_case *c, const struct sl_train_config *config, int stages,
                       const int *worker_of) {
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, c->graph->forward_count);
    if (sl_plan_cut_even(c->graph, config->device->has_kernel, stages, c->stage_of) != SL_OK)
        return false;
    pipe_case_plan(c, config, stages, worker_of);
    return true;
}

void pipe_case_cut(struct pipe_case *c, const struct sl_train_config *config, int stages,
                   const int *worker_of) {
    if (!pipe_case_try_cut(c, config, stages, worker_of))
        fail_msg("%d stages: %s", stages, sl_err_message());
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
    pipe_case_plan(c, config, stages, worker_of);
}

bool pipe_case_cut_branches(struct pipe_case *c, const struct sl_train_config *config, int stages,
                            int workers) {
    int count = 0;
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, c->graph->forward_count);
    if (sl_plan_cut_branches(c->graph, config->device->has_kernel, stages, c->stage_of, &count) !=
            SL_OK ||
        count < workers)
        return false;
    int *worker_of = SL_NEW(&c->arena, int, count);
    sl_plan_spread(c->graph, c->stage_of, count, workers, worker_of);
    pipe_case_plan(c, config, count, worker_of);
    return true;
}

/* Groups of fused nodes whose producers are all placed, in a random order. */
struct shuffle {
    const struct sl_graph *graph;
    int *group, *place; /* place[group]: when, -1: not yet */
    int placed;
    uint64_t seed, drawn;
};

static bool is_ready(const struct shuffle *s, int group) {
    for (int n = group; n < s->graph->forward_count; n++) {
        const struct sl_node *node = &s->graph->nodes.at[n];
        for (int i = 0; s->group[n] == group && i < node->in_count; i++) {
            const struct sl_value *v =
                node->in[i] < 0 ? NULL : sl_graph_value(s->graph, node->in[i]);
            if (v && v->kind == SL_VALUE_NODE && s->group[v->node] != group &&
                s->place[s->group[v->node]] < 0)
                return false;
        }
    }
    return true;
}

static int draw(struct shuffle *s, int below) {
    return (int)sl_rng_below(s->seed, 1, s->drawn++, below);
}

static bool place_groups(struct shuffle *s) {
    int groups = 0;
    for (int n = 0; n < s->graph->forward_count; n++)
        groups += s->group[n] == n;
    while (s->placed < groups) {
        int found = -1, seen = 0;
        for (int n = 0; n < s->graph->forward_count; n++)
            if (s->group[n] == n && s->place[n] < 0 && is_ready(s, n) && draw(s, ++seen) == 0)
                found = n;
        if (found < 0)
            return false;
        s->place[found] = s->placed++;
    }
    return true;
}

bool pipe_case_cut_random(struct pipe_case *c, const struct sl_train_config *config, int stages,
                          const int *worker_of, uint64_t seed) {
    int nodes = c->graph->forward_count;
    sl_arena_free(&c->arena);
    c->stage_of = SL_NEW(&c->arena, int, nodes);
    struct shuffle s = {
        c->graph, SL_NEW(&c->arena, int, nodes + 1), SL_NEW(&c->arena, int, nodes + 1), 0, seed, 0};
    sl_pass_glue(c->graph, config->device->has_kernel, s.group);
    for (int n = 0; n < nodes; n++)
        s.place[n] = -1;
    if (!place_groups(&s) || s.placed < stages)
        return false;
    bool *begins = SL_NEW(&c->arena, bool, s.placed + 1);
    for (int left = stages - 1; left > 0;) {
        int at = 1 + draw(&s, s.placed - 1);
        left -= !begins[at];
        begins[at] = true;
    }
    for (int n = 0; n < nodes; n++)
        for (int i = 1; i <= s.place[s.group[n]]; i++)
            c->stage_of[n] += begins[i];
    pipe_case_plan(c, config, stages, worker_of);
    return true;
}
