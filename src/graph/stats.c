/* Statistics of a model: sums over its values and nodes. */
#include "graph/stats.h"

enum { ELEMENT_BYTES = 4 };

static bool is_activation(const struct sl_graph *graph, int value) {
    const struct sl_value *v = &graph->values.at[value];
    return v->kind == SL_VALUE_INPUT ||
           (v->kind == SL_VALUE_NODE && graph->nodes.at[v->node].pass == SL_PASS_F);
}

static int64_t count_activations(const struct sl_graph *graph) {
    struct sl_arena scratch = {0};
    bool *kept = SL_NEW(&scratch, bool, graph->values.count + 1);
    const int *source = sl_graph_sources(&scratch, graph);
    int64_t elements = 0;
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        if (node->pass == SL_PASS_F)
            continue;
        for (int i = 0; i < node->in_count; i++) {
            int base = node->in[i] < 0 ? -1 : source[node->in[i]];
            if (base < 0 || kept[base] || !is_activation(graph, base))
                continue;
            kept[base] = true;
            elements += sl_graph_shape_numel(&graph->values.at[base].shape, 1);
        }
    }
    sl_arena_free(&scratch);
    return elements * ELEMENT_BYTES;
}

static int64_t count_elements(const struct sl_graph *graph, const struct sl_param *params,
                              int64_t count) {
    int64_t elements = 0;
    for (int64_t i = 0; i < count; i++)
        elements += sl_graph_shape_numel(&graph->values.at[params[i].value].shape, 1);
    return elements;
}

void sl_graph_stats(const struct sl_graph *graph, struct sl_graph_stats *stats) {
    double flops[3] = {0};
    int64_t nodes[3] = {0};
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        flops[node->pass] += sl_graph_node_flops(graph, node, 1);
        nodes[node->pass]++;
    }
    *stats = (struct sl_graph_stats){
        .parameters = count_elements(graph, graph->params.at, graph->params.count),
        .states = count_elements(graph, graph->states.at, graph->states.count),
        .forward_flops = flops[SL_PASS_F],
        .input_grad_flops = flops[SL_PASS_I],
        .weight_grad_flops = flops[SL_PASS_W],
        .activation_bytes = count_activations(graph),
        .forward_nodes = nodes[SL_PASS_F],
        .input_grad_nodes = nodes[SL_PASS_I],
        .weight_grad_nodes = nodes[SL_PASS_W],
    };
}

#define VEC_BYTES(vec) ((vec).room * (int64_t)sizeof *(vec).at)

int64_t sl_graph_bytes(const struct sl_graph *g) {
    return g->arena.used_bytes + VEC_BYTES(g->values) + VEC_BYTES(g->nodes) + VEC_BYTES(g->inputs) +
           VEC_BYTES(g->params) + VEC_BYTES(g->states) + VEC_BYTES(g->losses) +
           VEC_BYTES(g->outputs) + VEC_BYTES(g->updates) + VEC_BYTES(g->grads) +
           VEC_BYTES(g->sizes) + g->names.room * (int64_t)sizeof *g->names.slots;
}
