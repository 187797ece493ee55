/* Report of a model as text.
 *
 *   gpt2: GPT-2, 124M parameters, tied embeddings (Radford et al. 2019)
 *
 *     sizes         V=50257 T=1024 ...
 *     inputs        tokens       int[B,1024] < 50257
 *     parameters    124,439,808 in 148 tensors, 474.7 MiB in fp32
 */
#include "report/model.h"

#include "graph/branch.h"
#include "graph/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 5, NAME_WIDTH = 12, LINE = 96, ELEMENT_BYTES = 4 };

const char *sl_report_human_params(double count, char out[SL_HUMAN_BYTES]) {
    sl_human_count(count, out);
    char *billion = strchr(out, 'G');
    if (billion)
        *billion = 'B';
    return out;
}

/* Writes 1234567 as 1,234,567. */
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

/* Writes "273.5 G", with a blank between number and unit prefix. */
static const char *prefixed(double count, char out[SL_HUMAN_BYTES]) {
    char text[SL_HUMAN_BYTES];
    sl_human_count(count, text);
    size_t digits = strcspn(text, "kMGTPE");
    snprintf(out, SL_HUMAN_BYTES, "%.*s %s", (int)digits, text, text + digits);
    return out;
}

/* ---- families: tensors whose names differ only in a number ---- */

struct family {
    const char *name;  /* "h.*.mlp.c_fc.weight" */
    const char *shape; /* with the type for inputs */
    int64_t count, elements, order;
};

struct families {
    struct sl_arena arena;
    struct sl_map index;
    SL_VEC(struct family) at;
};

/* Replaces parts that are numbers by '*' and drops the number of a node: h.3.mlp.gelu_16 ->
 * h.*.mlp.gelu. */
static void generalise(char *name, bool is_node) {
    char *to = name;
    for (const char *part = name; *part;) {
        size_t length = strcspn(part, "."), kept = length;
        bool last = part[length] == 0;
        if (strspn(part, "0123456789") == length) {
            *to++ = '*';
        } else {
            if (last && is_node)
                kept = (size_t)(strrchr(part, '_') - part);
            memmove(to, part, kept);
            to += kept;
        }
        if (!last)
            *to++ = '.';
        part += length + !last;
    }
    *to = 0;
}

/* Adds a value to its family. `shape` is the text after the name; NULL: the value's shape. */
static void add_family(const struct sl_graph *graph, struct families *all, int value,
                       const char *shape) {
    char name[SL_NAME_TEXT], own[SL_SHAPE_TEXT];
    const struct sl_value *v = sl_graph_value(graph, value);
    sl_graph_value_name(graph, value, name);
    generalise(name, v->kind == SL_VALUE_NODE);
    const char *key = sl_arena_printf(&all->arena, "%s %s", name,
                                      shape ? shape : sl_graph_shape_text(&v->shape, own));
    int64_t *found = sl_map_find(&all->index, sl_str(key)), at = all->at.count;
    if (found) {
        at = *found;
    } else {
        struct family family = {.name = sl_arena_dup(&all->arena, name, strlen(name)),
                                .shape = key + strlen(name) + 1,
                                .order = at};
        sl_map_put(&all->index, sl_str(key), at);
        SL_PUSH(&all->at, family);
    }
    all->at.at[at].count++;
    all->at.at[at].elements += sl_graph_shape_numel(&v->shape, 1);
}

static int compare_families(const void *a, const void *b) {
    const struct family *x = a, *y = b;
    if (x->elements != y->elements)
        return x->elements > y->elements ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static void free_families(struct families *all) {
    SL_VEC_FREE(&all->at);
    sl_map_free(&all->index);
    sl_arena_free(&all->arena);
}

/* ---- text ---- */

static void put_label(struct sl_text *text, const char *label) {
    sl_text_printf(text, "  %-13s ", label);
}

static void put_sizes(struct sl_text *text, const struct sl_graph *graph) {
    size_t start = text->length;
    put_label(text, "sizes");
    for (int64_t i = 0; i < graph->sizes.count; i++) {
        bool full = text->length - start > LINE;
        sl_text_put(text, full ? "\n" : i ? " " : "");
        if (full) {
            start = text->length;
            put_label(text, "");
        }
        double value = graph->sizes.at[i].value;
        sl_text_printf(text, "%s=", graph->sizes.at[i].name);
        if (value == floor(value))
            sl_text_printf(text, "%.0f", value);
        else
            sl_text_put_double(text, value);
    }
    sl_text_put(text, "\n");
}

/* Writes a type such as int[B,64] < 256. */
static const char *input_type(const struct sl_graph *graph, const struct sl_input *input,
                              struct sl_arena *arena) {
    char shape[SL_SHAPE_TEXT], bound[SL_HUMAN_BYTES] = "";
    const struct sl_value *v = sl_graph_value(graph, input->value);
    if (input->below)
        snprintf(bound, sizeof bound, " < %lld", (long long)input->below);
    return sl_arena_printf(arena, "%s%s%s", v->dtype == SL_INT ? "int" : "float",
                           sl_graph_shape_text(&v->shape, shape), bound);
}

static void put_inputs(struct sl_text *text, const struct sl_graph *graph) {
    struct families all = {0};
    size_t width = NAME_WIDTH;
    for (int64_t i = 0; i < graph->inputs.count; i++)
        add_family(graph, &all, graph->inputs.at[i].value,
                   input_type(graph, &graph->inputs.at[i], &all.arena));
    for (int64_t i = 0; i < all.at.count; i++)
        width = strlen(all.at.at[i].name) > width ? strlen(all.at.at[i].name) : width;
    for (int64_t i = 0; i < all.at.count; i++) {
        const struct family *family = &all.at.at[i];
        put_label(text, i ? "" : "inputs");
        sl_text_printf(text, "%-*s %s", (int)width, family->name, family->shape);
        if (family->count > 1)
            sl_text_printf(text, "  x %lld", (long long)family->count);
        sl_text_put(text, "\n");
    }
    free_families(&all);
}

static void put_outputs(struct sl_text *text, const struct sl_graph *graph) {
    char shape[SL_SHAPE_TEXT];
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        const struct sl_output *output = &graph->outputs.at[i];
        put_label(text, i ? "" : "outputs");
        sl_text_printf(text, "%-*s %s\n", NAME_WIDTH, output->name,
                       sl_graph_shape_text(&sl_graph_value(graph, output->value)->shape, shape));
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
    sl_text_printf(text, "%sFLOP per sample\n", prefixed(stats->forward_flops, a));
    put_label(text, "backward");
    sl_text_printf(text, "%sFLOP per sample: %sFLOP for inputs, %sFLOP for weights\n",
                   prefixed(stats->input_grad_flops + stats->weight_grad_flops, a),
                   prefixed(stats->input_grad_flops, b), prefixed(stats->weight_grad_flops, c));
    put_label(text, "activations");
    sl_text_printf(text, "%s per sample are kept for the backward pass\n",
                   sl_human_bytes(stats->activation_bytes, a));
    put_label(text, "nodes");
    sl_text_printf(text, "%lld forward, %lld for input gradients, %lld for weight gradients\n",
                   (long long)stats->forward_nodes, (long long)stats->input_grad_nodes,
                   (long long)stats->weight_grad_nodes);
}

/* Indents every line of the branch summary to the label's column. */
static void put_structure(struct sl_text *text, const struct sl_graph *graph) {
    struct sl_arena arena = {0};
    struct sl_text lines = {0};
    sl_graph_branches_put(graph, sl_graph_branches(graph, &arena), &lines);
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

/* Writes the largest families with their shares of all elements. */
static void put_largest(struct sl_text *text, const char *title, struct families *all) {
    char size[SL_HUMAN_BYTES];
    int64_t elements = 0;
    for (int64_t i = 0; i < all->at.count; i++)
        elements += all->at.at[i].elements;
    if (all->at.count == 0)
        return;
    qsort(all->at.at, (size_t)all->at.count, sizeof *all->at.at, compare_families);
    sl_text_printf(text, "\n  %s\n", title);
    for (int64_t i = 0; i < all->at.count && i < LARGEST; i++) {
        const struct family *family = &all->at.at[i];
        char times[SL_HUMAN_BYTES] = "";
        if (family->count > 1)
            snprintf(times, sizeof times, "x %lld", (long long)family->count);
        sl_text_printf(text, "    %-33s %-15s %-6s %11s %5.1f%%\n", family->name, family->shape,
                       times, sl_human_bytes(family->elements * ELEMENT_BYTES, size),
                       100 * (double)family->elements / (double)elements);
    }
}

static void put_largest_params(struct sl_text *text, const struct sl_graph *graph) {
    struct families all = {0};
    for (int64_t i = 0; i < graph->params.count; i++)
        add_family(graph, &all, graph->params.at[i].value, NULL);
    put_largest(text, "where the parameters are", &all);
    free_families(&all);
}

static void put_largest_values(struct sl_text *text, const struct sl_graph *graph) {
    struct families all = {0};
    for (int64_t n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->out_count && !node->op->is_view; i++)
            add_family(graph, &all, node->out[i], NULL);
    }
    put_largest(text, "what the forward pass writes per sample", &all);
    free_families(&all);
}

void sl_report_model(const struct sl_graph *graph, struct sl_text *text) {
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    sl_text_printf(text, "%s%s%s\n\n", graph->name, *graph->brief ? ": " : "", graph->brief);
    if (graph->sizes.count)
        put_sizes(text, graph);
    put_inputs(text, graph);
    put_outputs(text, graph);
    put_losses(text, graph);
    sl_text_put(text, "\n");
    put_costs(text, graph, &stats);
    put_structure(text, graph);
    put_largest_params(text, graph);
    put_largest_values(text, graph);
}
