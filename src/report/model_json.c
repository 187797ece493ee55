/* Report of a model as JSON; docs/formats.md lists the keys. */
#include "base/json.h"
#include "graph/branch.h"
#include "graph/stats.h"
#include "report/model.h"

#include <math.h>

static const char *loss_op(const struct sl_graph *graph, const struct sl_loss *loss) {
    const struct sl_value *v = sl_graph_value(graph, loss->value);
    return v->kind == SL_VALUE_NODE ? graph->nodes.at[v->node].op->name : "";
}

static void json_shape(struct sl_json_out *json, const struct sl_shape *shape) {
    char text[SL_SHAPE_TEXT];
    sl_json_put_string(json, "shape", sl_graph_shape_text(shape, text));
}

static void json_sizes(struct sl_json_out *json, const struct sl_graph *graph) {
    sl_json_key(json, "sizes");
    sl_json_open(json, '{');
    for (int64_t i = 0; i < graph->sizes.count; i++) {
        double value = graph->sizes.at[i].value;
        if (value == floor(value))
            sl_json_put_int(json, graph->sizes.at[i].name, (int64_t)value);
        else
            sl_json_put_double(json, graph->sizes.at[i].name, value);
    }
    sl_json_close(json, '}');
}

static void json_inputs(struct sl_json_out *json, const struct sl_graph *graph) {
    sl_json_key(json, "inputs");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(graph, graph->inputs.at[i].value);
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", graph->inputs.at[i].name);
        sl_json_put_string(json, "dtype", v->dtype == SL_INT ? "int" : "float");
        json_shape(json, &v->shape);
        if (graph->inputs.at[i].below)
            sl_json_put_int(json, "below", graph->inputs.at[i].below);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static void json_outputs(struct sl_json_out *json, const struct sl_graph *graph) {
    sl_json_key(json, "outputs");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", graph->outputs.at[i].name);
        json_shape(json, &sl_graph_value(graph, graph->outputs.at[i].value)->shape);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
    sl_json_key(json, "losses");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < graph->losses.count; i++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", graph->losses.at[i].name);
        sl_json_put_string(json, "op", loss_op(graph, &graph->losses.at[i]));
        sl_json_put_double(json, "weight", graph->losses.at[i].weight);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

/* Counts branches with weights. A planner cannot use others, such as the heads of an attention. */
static int weighted_branches(const struct sl_branches *branches, const struct sl_segment *segment) {
    int count = 0;
    for (int i = 0; i < segment->count; i++)
        count += branches->components[segment->first + i].weighted > 0;
    return count;
}

static void json_branches(struct sl_json_out *json, const struct sl_graph *graph) {
    struct sl_arena arena = {0};
    const struct sl_branches *branches = sl_graph_branches(graph, &arena);
    sl_json_key(json, "branches");
    sl_json_open(json, '{');
    sl_json_put_int(json, "cuts", branches->cut_count);
    sl_json_put_int(json, "residual_skips", branches->skip_count - branches->long_skip_count);
    sl_json_put_int(json, "long_skips", branches->long_skip_count);
    sl_json_key(json, "parallel");
    sl_json_open(json, '[');
    for (int i = 0; i < branches->segment_count; i++) {
        const struct sl_segment *segment = &branches->segments[i];
        if (weighted_branches(branches, segment) < 2)
            continue;
        sl_json_open(json, '{');
        sl_json_put_int(json, "branches", segment->count);
        sl_json_put_int(json, "level", segment->level);
        sl_json_put_string(json, "join",
                           segment->to < 0 ? "none" : graph->nodes.at[segment->to].op->name);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
    sl_json_close(json, '}');
    sl_arena_free(&arena);
}

void sl_report_model_json(const struct sl_graph *graph, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "name", graph->name);
    sl_json_put_string(&json, "brief", graph->brief);
    json_sizes(&json, graph);
    json_inputs(&json, graph);
    json_outputs(&json, graph);
    sl_json_put_int(&json, "parameters", stats.parameters);
    sl_json_put_int(&json, "parameter_tensors", graph->params.count);
    sl_json_put_int(&json, "states", stats.states);
    sl_json_put_int(&json, "forward_flops", (int64_t)stats.forward_flops);
    sl_json_put_int(&json, "backward_flops",
                    (int64_t)(stats.input_grad_flops + stats.weight_grad_flops));
    sl_json_put_int(&json, "input_grad_flops", (int64_t)stats.input_grad_flops);
    sl_json_put_int(&json, "weight_grad_flops", (int64_t)stats.weight_grad_flops);
    sl_json_put_int(&json, "activation_bytes", stats.activation_bytes);
    sl_json_put_int(&json, "nodes", stats.forward_nodes);
    sl_json_put_int(&json, "input_grad_nodes", stats.input_grad_nodes);
    sl_json_put_int(&json, "weight_grad_nodes", stats.weight_grad_nodes);
    json_branches(&json, graph);
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
