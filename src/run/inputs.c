/* Describes the inputs of a model for the data component. */
#include "run/inputs.h"

/* Describes one input of the graph by the shape of one sample, without B. */
static sl_err describe_input(const struct sl_graph *graph, int index, struct sl_data_input *out) {
    const struct sl_input *input = &graph->inputs.at[index];
    const struct sl_value *value = sl_graph_value(graph, input->value);
    const struct sl_shape *shape = &value->shape;
    char text[SL_SHAPE_TEXT];
    if (shape->rank == 0 || !(shape->batch & 1))
        return sl_fail(SL_ERR_INPUT, "input '%s' has shape %s; its first size must be B",
                       input->name, sl_graph_shape_text(shape, text));
    *out = (struct sl_data_input){
        .name = input->name,
        .dtype = value->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
        .below = input->below,
    };
    for (int i = 0; i < shape->rank; i++)
        if (i > 0 || shape->dim[0] != 1)
            out->dim[out->rank++] = shape->dim[i];
    for (int64_t l = 0; l < graph->losses.count; l++)
        if (graph->losses.at[l].count_input == index && graph->losses.at[l].ignore != INT64_MIN) {
            out->has_ignore = true;
            out->ignore = graph->losses.at[l].ignore;
        }
    return SL_OK;
}

sl_err sl_run_describe_inputs(struct sl_arena *arena, const struct sl_graph *graph,
                              struct sl_data_input **out) {
    *out = SL_NEW(arena, struct sl_data_input, graph->inputs.count);
    for (int64_t i = 0; i < graph->inputs.count; i++)
        SL_TRY(describe_input(graph, (int)i, &(*out)[i]));
    return SL_OK;
}
