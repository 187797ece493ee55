/* What a model is: sizes, inputs, costs, structure, largest tensors.
 *
 *   gpt2: GPT-2, 124M parameters, tied embeddings (Radford et al. 2019)
 *
 *     sizes         V=50257 T=1024 ...
 *     inputs        tokens       int[B,1024] < 50257
 *     parameters    124,439,808 in 148 tensors, 474.7 MiB
 *     forward       291.6 GFLOP
 */
#include "cli/model_report.h"

#include "base/json.h"
#include "graph/branch.h"
#include "graph/stats.h"

#include <stdio.h>
#include <string.h>

enum { LARGEST = 5, NAME_WIDTH = 12, LINE = 96, ELEMENT_BYTES = 4 };

const char *sl_human_params(double count, char out[SL_HUMAN_BYTES]) {
    sl_human_count(count, out);
    char *billion = strchr(out, 'G');
    if (billion)
        *billion = 'B';
    return out;
}

/* 1234567 -> 1,234,567 */
static const char *with_commas(int64_t value, char out[SL_HUMAN_BYTES]) {
    char digits[SL_HUMAN_BYTES];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value), used = 0;
    for (int i = 0; i < length && used < SL_HUMAN_BYTES - 2; i++) {
        if (i && (length - i) % 3 == 0 && digits[i - 1] != '-')
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

/* ---- largest tensors ---- */

struct tensor {
    int value;
    int64_t elements;
};

/* Keeps the largest ones, largest first; of equal ones the first seen. */
static void keep_largest(struct tensor top[LARGEST], int value, int64_t elements) {
    int at = LARGEST;
    while (at > 0 && (top[at - 1].value < 0 || top[at - 1].elements < elements))
        at--;
    if (at == LARGEST)
        return;
    memmove(&top[at + 1], &top[at], sizeof *top * (size_t)(LARGEST - 1 - at));
    top[at] = (struct tensor){value, elements};
}

static void find_largest(const struct sl_graph *graph, bool params, struct tensor top[LARGEST]) {
    for (int i = 0; i < LARGEST; i++)
        top[i] = (struct tensor){-1, 0};
    for (int64_t i = 0; params && i < graph->params.count; i++) {
        int value = graph->params.at[i].value;
        keep_largest(top, value, sl_shape_numel(&graph->values.at[value].shape, 1));
    }
    for (int64_t n = 0; !params && n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->out_count && !node->op->is_view; i++)
            keep_largest(top, node->out[i],
                         sl_shape_numel(&graph->values.at[node->out[i]].shape, 1));
    }
}

/* ---- for people ---- */

static void put_label(struct sl_text *text, const char *label) {
    sl_text_printf(text, "  %-13s ", label);
}

static void put_sizes(struct sl_text *text, const struct sl_graph *graph) {
    size_t start = text->length;
    put_label(text, "sizes");
    for (int64_t i = 0; i < graph->sizes.count; i++) {
        if (text->length - start > LINE) {
            sl_text_put(text, "\n");
            start = text->length;
            put_label(text, "");
        }
        sl_text_printf(text, "%s%s=", i ? " " : "", graph->sizes.at[i].name);
        sl_text_put_double(text, graph->sizes.at[i].value);
    }
    sl_text_put(text, "\n");
}

static void put_inputs(struct sl_text *text, const struct sl_graph *graph) {
    char shape[SL_SHAPE_TEXT];
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_input *input = &graph->inputs.at[i];
        const struct sl_value *v = sl_graph_value(graph, input->value);
        put_label(text, i ? "" : "inputs");
        sl_text_printf(text, "%-*s %s%s", NAME_WIDTH, input->name,
                       v->dtype == SL_INT ? "int" : "float", sl_shape_text(&v->shape, shape));
        if (input->below)
            sl_text_printf(text, " < %lld", (long long)input->below);
        sl_text_put(text, "\n");
    }
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        put_label(text, i ? "" : "outputs");
        sl_text_printf(
            text, "%-*s %s\n", NAME_WIDTH, graph->outputs.at[i].name,
            sl_shape_text(&sl_graph_value(graph, graph->outputs.at[i].value)->shape, shape));
    }
}

static const char *loss_op(const struct sl_graph *graph, const struct sl_loss *loss) {
    const struct sl_value *v = sl_graph_value(graph, loss->value);
    return v->kind == SL_VALUE_NODE ? graph->nodes.at[v->node].op->name : "a value";
}

static void put_losses(struct sl_text *text, const struct sl_graph *graph) {
    for (int64_t i = 0; i < graph->losses.count; i++) {
        const struct sl_loss *loss = &graph->losses.at[i];
        put_label(text, i ? "" : graph->losses.count > 1 ? "losses" : "loss");
        sl_text_printf(text, "%-*s %s", NAME_WIDTH, loss->name, loss_op(graph, loss));
        if (loss->weight != 1) {
            sl_text_put(text, ", weight ");
            sl_text_put_double(text, loss->weight);
        }
        sl_text_put(text, "\n");
    }
}

static void put_costs(struct sl_text *text, const struct sl_graph *graph,
                      const struct sl_graph_stats *stats) {
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], c[SL_HUMAN_BYTES];
    put_label(text, "parameters");
    sl_text_printf(text, "%s in %lld tensors, %s in fp32\n", with_commas(stats->parameters, a),
                   (long long)graph->params.count,
                   sl_human_bytes(stats->parameters * ELEMENT_BYTES, b));
    if (stats->states) {
        put_label(text, "states");
        sl_text_printf(text, "%s in %lld tensors, kept but not trained\n",
                       with_commas(stats->states, a), (long long)graph->states.count);
    }
    put_label(text, "forward");
    sl_text_printf(text, "%sFLOP per sample\n", sl_human_count(stats->forward_flops, a));
    put_label(text, "backward");
    sl_text_printf(text, "%sFLOP per sample: %s for inputs, %s for weights\n",
                   sl_human_count(stats->input_grad_flops + stats->weight_grad_flops, a),
                   sl_human_count(stats->input_grad_flops, b),
                   sl_human_count(stats->weight_grad_flops, c));
    put_label(text, "activations");
    sl_text_printf(text, "%s per sample are kept for the backward pass\n",
                   sl_human_bytes(stats->activation_bytes, a));
    put_label(text, "nodes");
    sl_text_printf(text, "%lld forward, %lld for input gradients, %lld for weight gradients\n",
                   (long long)stats->forward_nodes, (long long)stats->input_grad_nodes,
                   (long long)stats->weight_grad_nodes);
}

/* The lines of another writer, each behind the label's column. */
static void put_structure(struct sl_text *text, const struct sl_graph *graph) {
    struct sl_arena arena = {0};
    struct sl_text lines = {0};
    sl_branches_put(graph, sl_graph_branches(graph, &arena), &lines);
    const char *label = "structure";
    for (const char *at = lines.length ? lines.at : ""; *at;) {
        size_t length = strcspn(at, "\n");
        put_label(text, label);
        sl_text_printf(text, "%.*s\n", (int)length, at);
        label = "";
        at += length + (at[length] == '\n');
    }
    sl_text_free(&lines);
    sl_arena_free(&arena);
}

static void put_largest(struct sl_text *text, const struct sl_graph *graph, bool params,
                        int64_t all_bytes) {
    struct tensor top[LARGEST];
    char name[SL_NAME_TEXT], shape[SL_SHAPE_TEXT], size[SL_HUMAN_BYTES];
    find_largest(graph, params, top);
    if (top[0].value < 0)
        return;
    sl_text_printf(text, "\n  largest %s\n", params ? "parameters" : "activations of a sample");
    for (int i = 0; i < LARGEST && top[i].value >= 0; i++) {
        int64_t bytes = top[i].elements * ELEMENT_BYTES;
        sl_text_printf(text, "    %-44s %-22s %12s", sl_graph_value_name(graph, top[i].value, name),
                       sl_shape_text(&graph->values.at[top[i].value].shape, shape),
                       sl_human_bytes(bytes, size));
        if (params)
            sl_text_printf(text, " %5.1f%%", 100 * (double)bytes / (double)all_bytes);
        sl_text_put(text, "\n");
    }
}

void sl_model_report(const struct sl_graph *graph, struct sl_text *text) {
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    sl_text_printf(text, "%s%s%s\n\n", graph->name, *graph->brief ? ": " : "", graph->brief);
    if (graph->sizes.count)
        put_sizes(text, graph);
    put_inputs(text, graph);
    put_losses(text, graph);
    sl_text_put(text, "\n");
    put_costs(text, graph, &stats);
    put_structure(text, graph);
    put_largest(text, graph, true, stats.parameters * ELEMENT_BYTES);
    put_largest(text, graph, false, 0);
}

/* ---- JSON ---- */

static void json_shape(struct sl_json_out *json, const struct sl_shape *shape) {
    char text[SL_SHAPE_TEXT];
    sl_json_put_string(json, "shape", sl_shape_text(shape, text));
}

static void json_interface(struct sl_json_out *json, const struct sl_graph *graph) {
    sl_json_key(json, "sizes");
    sl_json_open(json, '{');
    for (int64_t i = 0; i < graph->sizes.count; i++)
        sl_json_put_double(json, graph->sizes.at[i].name, graph->sizes.at[i].value);
    sl_json_close(json, '}');
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
        if (segment->count < 2)
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

void sl_model_report_json(const struct sl_graph *graph, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "name", graph->name);
    sl_json_put_string(&json, "brief", graph->brief);
    json_interface(&json, graph);
    sl_json_put_int(&json, "parameters", stats.parameters);
    sl_json_put_int(&json, "parameter_tensors", graph->params.count);
    sl_json_put_int(&json, "states", stats.states);
    sl_json_put_double(&json, "forward_flops", stats.forward_flops);
    sl_json_put_double(&json, "backward_flops", stats.input_grad_flops + stats.weight_grad_flops);
    sl_json_put_double(&json, "input_grad_flops", stats.input_grad_flops);
    sl_json_put_double(&json, "weight_grad_flops", stats.weight_grad_flops);
    sl_json_put_int(&json, "activation_bytes", stats.activation_bytes);
    sl_json_put_int(&json, "nodes", stats.forward_nodes);
    sl_json_put_int(&json, "input_grad_nodes", stats.input_grad_nodes);
    sl_json_put_int(&json, "weight_grad_nodes", stats.weight_grad_nodes);
    json_branches(&json, graph);
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
