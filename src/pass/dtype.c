/* Decides which values of a bf16 or fp16 program stay fp32.
 *
 * Activations and their gradients have 16 bits. These stay fp32:
 *   - values that the host writes or reads: inputs, seeds, losses, outputs of an evaluation
 *   - statistics that later kernels divide by or exponentiate
 *   - gradients of parameters
 *   - all values of an lstm, whose state accumulates over the steps
 * A view has the dtype of its source. */
#include "pass/build.h"

static bool is_exact_output(const struct sl_node *node, int slot) {
    return node->op->exact_out >> slot & 1;
}

/* Returns the value whose memory `value` views, in the whole graph. */
static int source_of(const struct sl_graph *graph, int value) {
    const struct sl_value *v = &graph->values.at[value];
    while (v->kind == SL_VALUE_NODE && v->slot == 0 && graph->nodes.at[v->node].op->is_view) {
        value = graph->nodes.at[v->node].in[0];
        v = &graph->values.at[value];
    }
    return value;
}

/* Is the value a loss, or an output of an evaluation? */
static bool is_read_by_host(const struct sl_graph *graph, int source) {
    for (int64_t i = 0; i < graph->losses.count; i++)
        if (source_of(graph, graph->losses.at[i].value) == source)
            return true;
    for (int64_t i = 0; i < graph->outputs.count && !graph->differentiated; i++)
        if (source_of(graph, graph->outputs.at[i].value) == source)
            return true;
    return false;
}

enum sl_dtype sl_pass_build_dtype(const struct sl_build *b, int value) {
    const struct sl_graph *graph = b->graph;
    int source = source_of(graph, b->root[value]);
    const struct sl_value *v = &graph->values.at[source];
    if (!sl_dtype_is_half(b->spec->dtype) || v->dtype != SL_FLOAT || v->kind != SL_VALUE_NODE)
        return v->dtype;
    const struct sl_node *node = &graph->nodes.at[v->node];
    if (node->pass == SL_PASS_W || v->shape.rank == 0 || is_exact_output(node, v->slot) ||
        is_read_by_host(graph, source))
        return SL_FLOAT;
    return b->spec->dtype;
}

int64_t sl_pass_dtype_bytes(enum sl_dtype dtype) { return sl_dtype_is_half(dtype) ? 2 : 4; }

int64_t sl_pass_operand_bytes(const struct sl_operand *operand) {
    return operand->numel * sl_pass_dtype_bytes(operand->dtype);
}
