/* The checker of graphs: checks order, types, losses, and that every parameter reaches a loss. */
#include "graph/graph.h"

static sl_err check_node(const struct sl_graph *graph, int index) {
    const struct sl_node *node = &graph->nodes.at[index];
    for (int i = 0; i < node->in_count; i++) {
        if (node->in[i] < 0)
            continue;
        if (node->in[i] >= graph->values.count)
            return sl_fail(SL_ERR_INPUT, "node %d (%s) reads a value that does not exist", index,
                           node->op->name);
        const struct sl_value *value = &graph->values.at[node->in[i]];
        if (value->kind == SL_VALUE_NODE && value->node >= index)
            return sl_fail(SL_ERR_INPUT,
                           "node %d (%s) reads node %d, which does not come before it", index,
                           node->op->name, value->node);
    }
    for (int i = 0; i < node->out_count; i++) {
        int out = node->out[i];
        if (out < 0 || out >= graph->values.count || graph->values.at[out].node != index ||
            graph->values.at[out].slot != i)
            return sl_fail(SL_ERR_INPUT, "node %d (%s) does not own its output %d", index,
                           node->op->name, i);
    }
    return SL_OK;
}

/* Marks all values that the losses depend on, in one backward walk. */
static void mark_reached(const struct sl_graph *graph, bool *reached) {
    for (int64_t i = 0; i < graph->losses.count; i++)
        reached[graph->losses.at[i].value] = true;
    for (int64_t n = graph->nodes.count - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        bool any = false;
        for (int i = 0; i < node->out_count; i++)
            any |= reached[node->out[i]];
        for (int i = 0; any && i < node->in_count; i++)
            if (node->in[i] >= 0)
                reached[node->in[i]] = true;
    }
}

static sl_err check_params(const struct sl_graph *graph) {
    bool *reached = calloc((size_t)graph->values.count + 1, sizeof *reached);
    if (!reached)
        sl_out_of_memory((size_t)graph->values.count);
    mark_reached(graph, reached);
    sl_err err = SL_OK;
    for (int64_t i = 0; i < graph->params.count && err == SL_OK; i++)
        if (!reached[graph->params.at[i].value])
            err =
                sl_fail(SL_ERR_INPUT,
                        "parameter '%s' reaches no loss; use it or remove it (an unused parameter "
                        "would never train)",
                        graph->params.at[i].name);
    free(reached);
    return err;
}

sl_err sl_graph_check(struct sl_graph *graph) {
    for (int64_t i = 0; i < graph->values.count; i++)
        SL_TRY(sl_graph_shape_check(&graph->values.at[i].shape));
    for (int64_t i = 0; i < graph->nodes.count; i++)
        SL_TRY(check_node(graph, (int)i));
    if (graph->losses.count == 0)
        return sl_fail(SL_ERR_INPUT, "the model has no loss; add a line 'loss EXPRESSION'");
    for (int64_t i = 0; i < graph->losses.count; i++)
        if (graph->values.at[graph->losses.at[i].value].shape.rank != 0)
            return sl_fail(SL_ERR_INPUT, "loss '%s' is not a scalar", graph->losses.at[i].name);
    SL_TRY(check_params(graph));
    graph->checked = true;
    return SL_OK;
}
