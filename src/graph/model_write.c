/* Writes a graph as flat model text with every shape, and as a Graphviz drawing. */
#include "graph/model.h"

#include "base/map.h"

#include <stdio.h>
#include <string.h>

static void put_init(struct sl_text *text, const struct sl_init *init) {
    static const char *const names[] = {"const", "normal", "uniform", "stored"};
    if (init->kind == SL_INIT_CONST && (init->a == 0 || init->a == 1)) {
        sl_text_put(text, init->a == 0 ? "zeros" : "ones");
        return;
    }
    if (init->kind == SL_INIT_STORED) {
        sl_text_put(text, names[init->kind]);
        return;
    }
    sl_text_printf(text, "%s(", names[init->kind]);
    sl_graph_attr_put_float(text, init->a);
    if (init->kind == SL_INIT_UNIFORM || (init->kind == SL_INIT_NORMAL && init->b != 0)) {
        sl_text_put(text, ", ");
        sl_graph_attr_put_float(text, init->b);
    }
    sl_text_put(text, ")");
}

/* Writes a reference to a value. Values of nodes are _12 and, for further outputs, _12_1. */
static void put_ref(struct sl_text *text, const struct sl_graph *graph, int value) {
    const struct sl_value *v = sl_graph_value(graph, value);
    char name[SL_NAME_TEXT];
    if (v->kind != SL_VALUE_NODE)
        sl_text_put(text, sl_graph_value_name(graph, value, name));
    else if (v->slot == 0)
        sl_text_printf(text, "_%d", v->node);
    else
        sl_text_printf(text, "_%d_%d", v->node, v->slot);
}

/* Returns the number of outputs of a node up to the last one with a reader: only these get
 * names. */
static int named_outputs(const struct sl_graph *graph, const struct sl_node *node,
                         const bool *used) {
    int count = 1;
    for (int i = 1; i < node->out_count; i++)
        if (used[node->out[i]])
            count = i + 1;
    (void)graph;
    return count;
}

/* Writes the inputs of a node. Absent optional inputs at the end are omitted; after an absent input
 * in the middle, inputs are written by name. */
static void put_inputs(struct sl_text *text, const struct sl_graph *graph,
                       const struct sl_node *node) {
    bool skipped = false, any = false;
    const char *at = node->op->inputs;
    for (int i = 0; i < node->in_count; i++) {
        size_t length = strcspn(at, " ?*");
        if (node->in[i] < 0) {
            skipped = true;
        } else {
            sl_text_put(text, any ? ", " : "");
            if (skipped)
                sl_text_printf(text, "%.*s = ", (int)length, at);
            put_ref(text, graph, node->in[i]);
            any = true;
        }
        if (at[length] != '*') {
            at += strcspn(at, " ");
            at += *at == ' ';
        }
    }
}

static void put_attrs(struct sl_text *text, const struct sl_node *node) {
    union sl_attr fallback[SL_MAX_ATTR] = {{0}};
    unsigned required = 0;
    for (int i = 0; node->op->attrs && node->op->attrs[i].name; i++)
        required |= (unsigned)(node->op->attrs[i].fallback == NULL) << i;
    if (sl_graph_op_defaults(node->op, required, fallback) != SL_OK)
        return;
    for (int i = 0; node->op->attrs && node->op->attrs[i].name; i++) {
        const struct sl_attr_desc *desc = &node->op->attrs[i];
        if (!(required >> i & 1) && sl_graph_attr_equal(desc, &node->attr[i], &fallback[i]))
            continue;
        sl_text_printf(text, ", %s = ", desc->name);
        sl_graph_attr_put(text, desc, &node->attr[i]);
    }
}

static void put_node(struct sl_text *text, const struct sl_graph *graph, int index,
                     const bool *used) {
    const struct sl_node *node = &graph->nodes.at[index];
    enum { SHAPE_COLUMN = 64 };
    char shape[SL_SHAPE_TEXT];
    int named = named_outputs(graph, node, used);
    size_t start = text->length;
    for (int i = 0; i < named; i++) {
        sl_text_put(text, i ? ", " : "");
        put_ref(text, graph, node->out[i]);
    }
    sl_text_printf(text, " = %s(", node->op->name);
    put_inputs(text, graph, node);
    put_attrs(text, node);
    const struct sl_shape *out = &sl_graph_value(graph, node->out[0])->shape;
    sl_text_put(text, ")");
    int written = (int)(text->length - start);
    sl_text_printf(text, "%*s# %s\n", written < SHAPE_COLUMN - 2 ? SHAPE_COLUMN - written : 2, "",
                   sl_graph_shape_text(out, shape));
}

static void put_declarations(struct sl_text *text, const struct sl_graph *graph) {
    char shape[SL_SHAPE_TEXT];
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_input *input = &graph->inputs.at[i];
        const struct sl_value *v = sl_graph_value(graph, input->value);
        sl_text_printf(text, "input %s : %s%s", input->name, v->dtype == SL_INT ? "int" : "float",
                       sl_graph_shape_text(&v->shape, shape));
        if (input->below)
            sl_text_printf(text, " < %lld", (long long)input->below);
        sl_text_put(text, "\n");
    }
    for (int kind = 0; kind < 2; kind++) {
        int64_t count = kind ? graph->states.count : graph->params.count;
        const struct sl_param *params = kind ? graph->states.at : graph->params.at;
        for (int64_t i = 0; i < count; i++) {
            const struct sl_value *v = sl_graph_value(graph, params[i].value);
            sl_text_printf(text, "%s %s%s ~ ", kind ? "state" : "param", params[i].name,
                           sl_graph_shape_text(&v->shape, shape));
            put_init(text, &params[i].init);
            sl_text_put(text, params[i].frozen ? " frozen\n" : "\n");
        }
    }
}

static bool *find_used(const struct sl_graph *graph, struct sl_arena *arena, int64_t nodes) {
    bool *used = SL_NEW(arena, bool, graph->values.count);
    for (int64_t n = 0; n < nodes; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++)
            if (graph->nodes.at[n].in[i] >= 0)
                used[graph->nodes.at[n].in[i]] = true;
    for (int64_t i = 0; i < graph->outputs.count; i++)
        used[graph->outputs.at[i].value] = true;
    for (int64_t i = 0; i < graph->losses.count; i++)
        used[graph->losses.at[i].value] = true;
    return used;
}

void sl_graph_model_write(const struct sl_graph *graph, struct sl_text *text) {
    struct sl_arena scratch = {0};
    int64_t nodes = graph->differentiated ? graph->forward_count : graph->nodes.count;
    bool *used = find_used(graph, &scratch, nodes);
    const char *scope = "";
    sl_text_printf(text, "model %s \"%s\"", graph->name, graph->brief ? graph->brief : "");
    if (graph->weights)
        sl_text_printf(text, " weights \"%s\"", graph->weights);
    sl_text_put(text, "\n");
    put_declarations(text, graph);
    for (int64_t n = 0; n < nodes; n++) {
        if (strcmp(scope, graph->nodes.at[n].scope) != 0) {
            scope = graph->nodes.at[n].scope;
            sl_text_printf(text, "scope%s%s\n", *scope ? " " : "", scope);
        }
        put_node(text, graph, (int)n, used);
    }
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        sl_text_printf(text, "output %s = ", graph->outputs.at[i].name);
        put_ref(text, graph, graph->outputs.at[i].value);
        sl_text_put(text, "\n");
    }
    for (int64_t i = 0; i < graph->losses.count; i++) {
        char fallback[32];
        snprintf(fallback, sizeof fallback, "loss%lld", (long long)i);
        sl_text_put(text, "loss ");
        if (strcmp(fallback, graph->losses.at[i].name) != 0)
            sl_text_printf(text, "%s = ", graph->losses.at[i].name);
        put_ref(text, graph, graph->losses.at[i].value);
        if (graph->losses.at[i].weight != 1) {
            sl_text_put(text, " weight ");
            sl_graph_attr_put_float(text, graph->losses.at[i].weight);
        }
        sl_text_put(text, "\n");
    }
    sl_arena_free(&scratch);
}

uint64_t sl_graph_model_hash(const struct sl_graph *graph) {
    struct sl_text text = {0};
    sl_graph_model_write(graph, &text);
    const char *body = text.at + strcspn(text.at, "\n");
    uint64_t hash = sl_hash(body, text.length - (size_t)(body - text.at));
    sl_text_free(&text);
    return hash;
}

void sl_graph_model_write_dot(const struct sl_graph *graph, struct sl_text *text) {
    char shape[SL_SHAPE_TEXT], name[SL_NAME_TEXT];
    int64_t nodes = graph->differentiated ? graph->forward_count : graph->nodes.count;
    sl_text_printf(text, "digraph \"%s\" {\n  rankdir=TB; node [shape=box, fontname=Helvetica];\n",
                   graph->name);
    for (int64_t i = 0; i < graph->inputs.count; i++)
        sl_text_printf(
            text, "  v%d [label=\"%s\\n%s\", shape=ellipse];\n", graph->inputs.at[i].value,
            graph->inputs.at[i].name,
            sl_graph_shape_text(&graph->values.at[graph->inputs.at[i].value].shape, shape));
    for (int64_t n = 0; n < nodes; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        sl_graph_value_name(graph, node->out[0], name);
        sl_text_printf(text, "  n%lld [label=\"%s\\n%s\"];\n", (long long)n, name,
                       sl_graph_shape_text(&graph->values.at[node->out[0]].shape, shape));
        for (int i = 0; i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : sl_graph_value(graph, node->in[i]);
            if (v && v->kind == SL_VALUE_NODE)
                sl_text_printf(text, "  n%d -> n%lld;\n", v->node, (long long)n);
            else if (v && v->kind == SL_VALUE_INPUT)
                sl_text_printf(text, "  v%d -> n%lld;\n", node->in[i], (long long)n);
        }
    }
    sl_text_put(text, "}\n");
}
