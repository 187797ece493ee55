/* The reference interpreter: runs a graph node by node in double precision, as an oracle for
 * tests. */
#include "base/rng.h"
#include "op/common.h"
#include "op/registry.h"

#include <math.h>
#include <stdlib.h>

double sl_op_init_value(const struct sl_init *init, uint64_t seed, uint64_t stream, int64_t index) {
    switch (init->kind) {
    case SL_INIT_NORMAL: return init->b + init->a * sl_rng_normal(seed, stream, (uint64_t)index);
    case SL_INIT_UNIFORM:
        return init->a + (init->b - init->a) * sl_rng_uniform(seed, stream, (uint64_t)index);
    case SL_INIT_STORED: return NAN; /* NaN until the caller reads the stored value */
    default: return init->a;
    }
}

static void fill_params(struct sl_ref_run *run, const struct sl_param *params, int64_t count,
                        uint64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        struct sl_array *array = &run->arrays[params[i].value];
        uint64_t stream = sl_rng_stream(params[i].name);
        for (int64_t j = 0; j < sl_op_numel(&array->shape); j++)
            array->f[j] = sl_op_init_value(&params[i].init, seed, stream, j);
        const struct sl_stored_values *stored = &run->graph->stored;
        float value;
        for (int64_t j = 0; params[i].init.kind == SL_INIT_STORED && stored->read &&
                            j < sl_op_numel(&array->shape);
             j++)
            if (stored->read(stored->ctx, params[i].name, j, 1, &value) == SL_OK)
                array->f[j] = value;
    }
}

struct sl_ref_run *sl_op_ref_open(const struct sl_graph *graph, int64_t batch, uint64_t seed) {
    struct sl_ref_run *run = calloc(1, sizeof *run);
    if (!run)
        sl_out_of_memory(sizeof *run);
    run->graph = graph;
    run->batch = batch;
    run->seed = seed;
    run->arrays = SL_NEW(&run->arena, struct sl_array, graph->values.count);
    for (int64_t v = 0; v < graph->values.count; v++) {
        struct sl_array *array = &run->arrays[v];
        array->shape = sl_graph_shape_at(&graph->values.at[v].shape, batch);
        int64_t count = sl_op_numel(&array->shape);
        if (graph->values.at[v].dtype == SL_INT)
            array->i = SL_NEW(&run->arena, int32_t, count);
        else
            array->f = SL_NEW(&run->arena, double, count);
        if (graph->values.at[v].kind == SL_VALUE_SEED)
            array->f[0] = graph->losses.at[graph->values.at[v].index].weight;
    }
    fill_params(run, graph->params.at, graph->params.count, seed);
    fill_params(run, graph->states.at, graph->states.count, seed);
    return run;
}

void sl_op_ref_close(struct sl_ref_run *run) {
    if (!run)
        return;
    sl_arena_free(&run->arena);
    free(run);
}

void sl_op_ref_nodes(struct sl_ref_run *run, int64_t from, int64_t to) {
    for (int64_t n = from; n < to; n++) {
        const struct sl_node *node = &run->graph->nodes.at[n];
        struct sl_ref call = {
            .attr = node->attr,
            .in_count = node->in_count,
            .out_count = node->out_count,
            .seed = run->seed,
            .first_sample = run->first_sample,
            .samples = run->batch,
        };
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                call.in[i] = run->arrays[node->in[i]];
        for (int i = 0; i < node->out_count; i++)
            call.out[i] = run->arrays[node->out[i]];
        node->op->ref(&call);
    }
}

double sl_op_ref_loss(const struct sl_ref_run *run) {
    double total = 0;
    for (int64_t i = 0; i < run->graph->losses.count; i++)
        total += run->graph->losses.at[i].weight * run->arrays[run->graph->losses.at[i].value].f[0];
    return total;
}
