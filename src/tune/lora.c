/* Adapters: adds them while a model is read, finds them in a graph, merges them. */
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_product(const struct sl_node *node) {
    return node->op->divide == SL_DIVIDE_PRODUCT && node->op->layer == SL_LAYER_PRODUCT;
}

static bool flag_of(const struct sl_node *node, const char *name) {
    int index = sl_graph_op_find_attr(node->op, sl_str(name));
    return index >= 0 && node->attr[index].i;
}

/* Returns the parameter by which a product multiplies; -1: none, or not a plain weight. */
static int weight_of(const struct sl_graph *graph, const struct sl_node *node) {
    if (!is_product(node) || node->in_count < 2 || flag_of(node, "ta"))
        return -1;
    const struct sl_value *v = sl_graph_value(graph, node->in[1]);
    return v->kind == SL_VALUE_PARAM && v->shape.rank == 2 ? v->index : -1;
}

/* ---- adding ---- */

static const char *adapter_name(struct sl_graph *graph, const char *weight, char which) {
    size_t length = strlen(weight), suffix = strlen(".weight");
    if (length > suffix && strcmp(weight + length - suffix, ".weight") == 0)
        length -= suffix;
    return sl_arena_printf(&graph->arena, "%.*s.lora_%c.weight", (int)length, weight, which);
}

/* Adds a parameter, or finds it: products that share a weight share an adapter. */
static sl_err use_param(struct sl_graph *graph, const char *name, struct sl_shape shape,
                        struct sl_init init, int *out) {
    const int64_t *known = sl_map_find(&graph->names, sl_str(name));
    if (!known)
        return sl_graph_param(graph, name, shape, init, out);
    *out = (int)*known;
    if (sl_graph_shape_equal(&graph->values.at[*out].shape, &shape))
        return SL_OK;
    return sl_fail(SL_ERR_INPUT, "`lora`: the model has a parameter '%s' of its own", name);
}

/* Adds an op of one or two inputs (second -1) with the scope and position of `like`. */
static sl_err emit(struct sl_graph *graph, const struct sl_node *like, const struct sl_op *op,
                   const int in[2], const union sl_attr *attr, int *out) {
    struct sl_node_spec spec = {.op = op,
                                .in_count = in[1] < 0 ? 1 : 2,
                                .in = in,
                                .attr = attr,
                                .scope = like->scope,
                                .pos = like->pos};
    return sl_graph_node(graph, &spec, out);
}

/* Adds y + scale (x A') B'. */
static sl_err add_adapter(const struct sl_tune *tune, struct sl_graph *graph, int index, int weight,
                          int *y) {
    const struct sl_node node = graph->nodes.at[index]; /* a copy: nodes.at may move */
    const char *name = graph->params.at[weight].name;
    const struct sl_shape shape = graph->values.at[node.in[1]].shape;
    bool tb = flag_of(&node, "tb");
    int64_t in = shape.dim[tb], out = shape.dim[!tb];
    union sl_attr product[SL_MAX_ATTR] = {{0}}, by[SL_MAX_ATTR] = {{0}};
    int a, b, low, high, scaled;
    struct sl_init normal = {SL_INIT_NORMAL, 1.0 / (double)tune->rank, 0}, zeros = {0};
    const struct sl_op *scale = graph->find_op(SL_STR("scale")),
                       *add = graph->find_op(SL_STR("add"));
    SL_TRY(use_param(graph, adapter_name(graph, name, 'A'), SL_SHAPE(2, 0, tune->rank, in), normal,
                     &a));
    SL_TRY(use_param(graph, adapter_name(graph, name, 'B'), SL_SHAPE(2, 0, out, tune->rank), zeros,
                     &b));
    SL_TRY(sl_graph_op_defaults(node.op, 0, product));
    product[sl_graph_op_find_attr(node.op, SL_STR("tb"))].i = 1;
    by[0].f = tune->alpha / (double)tune->rank;
    SL_TRY(emit(graph, &node, node.op, (int[]){node.in[0], a}, product, &low));
    SL_TRY(emit(graph, &node, node.op, (int[]){low, b}, product, &high));
    SL_TRY(emit(graph, &node, scale, (int[]){high, -1}, by, &scaled));
    return emit(graph, &node, add, (int[]){*y, scaled}, NULL, y);
}

static sl_err after(void *ctx, struct sl_graph *graph, int node, int *first_out) {
    struct sl_tune *tune = ctx;
    int weight = weight_of(graph, &graph->nodes.at[node]);
    bool wanted = false;
    if (weight < 0 || sl_tune_is_adapter(graph->params.at[weight].name))
        return SL_OK;
    for (int i = 0; tune->targets[i]; i++)
        if (sl_tune_is_target(tune->targets[i], graph->params.at[weight].name))
            wanted = tune->matched[i] = true;
    return wanted ? add_adapter(tune, graph, node, weight, first_out) : SL_OK;
}

void sl_tune_attach(struct sl_tune *tune, struct sl_model_options *options) {
    if (tune->rank)
        options->hook = (struct sl_graph_hook){tune, after};
}

/* ---- finding ---- */

/* Returns the only node that reads the first output of `node`; NULL: none, or several. */
static const struct sl_node *reader_of(const struct sl_graph *graph, const struct sl_node *node,
                                       int64_t limit) {
    const struct sl_node *reader = NULL;
    for (int64_t n = 0; n < limit; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++)
            if (graph->nodes.at[n].in[i] == node->out[0]) {
                if (reader)
                    return NULL;
                reader = &graph->nodes.at[n];
            }
    return reader;
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Finds the chain x A' -> B' -> scale -> add from its first node. */
static bool find_chain(const struct sl_graph *graph, const struct sl_node *low, int64_t limit,
                       struct sl_tune_adapter *out) {
    const struct sl_node *high = reader_of(graph, low, limit);
    if (!high || (out->b = weight_of(graph, high)) < 0 ||
        !ends_with(graph->params.at[out->b].name, ".lora_B.weight"))
        return false;
    const struct sl_node *scale = reader_of(graph, high, limit);
    const struct sl_node *add = scale ? reader_of(graph, scale, limit) : NULL;
    if (!add || scale->in_count != 1 || add->in_count != 2 ||
        sl_graph_op_find_attr(scale->op, SL_STR("by")) < 0)
        return false;
    const struct sl_value *base = sl_graph_value(graph, add->in[add->in[0] == scale->out[0]]);
    const struct sl_node *of = base->kind == SL_VALUE_NODE ? &graph->nodes.at[base->node] : NULL;
    if (!of || (out->weight = weight_of(graph, of)) < 0)
        return false;
    const struct sl_shape *a = &graph->values.at[graph->params.at[out->a].value].shape;
    const struct sl_shape *b = &graph->values.at[graph->params.at[out->b].value].shape;
    out->scale = scale->attr[sl_graph_op_find_attr(scale->op, SL_STR("by"))].f;
    out->transposed = !flag_of(of, "tb");
    out->rank = a->dim[0];
    out->in = a->dim[1];
    out->out = b->dim[0];
    return b->dim[1] == out->rank;
}

static int by_weight(const void *a, const void *b) {
    const struct sl_tune_adapter *x = a, *y = b;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

int sl_tune_adapters(struct sl_arena *arena, const struct sl_graph *graph,
                     struct sl_tune_adapter **out) {
    int64_t limit = graph->differentiated ? graph->forward_count : graph->nodes.count;
    int count = 0;
    *out = SL_NEW(arena, struct sl_tune_adapter, graph->params.count + 1);
    for (int64_t n = 0; n < limit; n++) {
        struct sl_tune_adapter found = {.a = weight_of(graph, &graph->nodes.at[n])};
        if (found.a < 0 || !ends_with(graph->params.at[found.a].name, ".lora_A.weight") ||
            !find_chain(graph, &graph->nodes.at[n], limit, &found) ||
            sl_tune_adapter_of(*out, count, found.a))
            continue;
        (*out)[count++] = found;
    }
    if (count)
        qsort(*out, (size_t)count, sizeof **out, by_weight);
    return count;
}

const struct sl_tune_adapter *sl_tune_adapter_of(const struct sl_tune_adapter *list, int count,
                                                 int param) {
    for (int i = 0; i < count; i++)
        if (list[i].weight == param || list[i].a == param || list[i].b == param)
            return &list[i];
    return NULL;
}

/* ---- merging ---- */

void sl_tune_merge(const struct sl_tune_adapter *t, const float *a, const float *b, int64_t from,
                   int64_t count, float *w) {
    int64_t columns = t->transposed ? t->out : t->in;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = (from + i) / columns, column = (from + i) % columns;
        int64_t out = t->transposed ? column : row, in = t->transposed ? row : column;
        double sum = 0;
        for (int64_t r = 0; r < t->rank; r++)
            sum += (double)b[out * t->rank + r] * (double)a[r * t->in + in];
        w[i] = (float)((double)w[i] + t->scale * sum);
    }
}
