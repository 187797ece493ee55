/* Builds a graph: values, nodes, names. Every shape is inferred and checked when a node is
 * added. */
#include "graph/graph.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_NODE_LIMIT = 2000000 };

struct sl_graph *sl_graph_open(const char *name, const struct sl_op *(*find_op)(struct sl_str)) {
    struct sl_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        sl_out_of_memory(sizeof *graph);
    graph->name = sl_arena_dup(&graph->arena, name, strlen(name));
    graph->brief = "";
    graph->find_op = find_op;
    graph->node_limit = DEFAULT_NODE_LIMIT;
    return graph;
}

void sl_graph_close(struct sl_graph *graph) {
    if (!graph)
        return;
    SL_VEC_FREE(&graph->values);
    SL_VEC_FREE(&graph->nodes);
    SL_VEC_FREE(&graph->inputs);
    SL_VEC_FREE(&graph->params);
    SL_VEC_FREE(&graph->states);
    SL_VEC_FREE(&graph->losses);
    SL_VEC_FREE(&graph->outputs);
    SL_VEC_FREE(&graph->updates);
    SL_VEC_FREE(&graph->grads);
    SL_VEC_FREE(&graph->sizes);
    if (graph->stored.close)
        graph->stored.close(graph->stored.ctx);
    sl_map_free(&graph->names);
    sl_arena_free(&graph->arena);
    free(graph);
}

const struct sl_value *sl_graph_value(const struct sl_graph *graph, int value) {
    SL_ASSERT(value >= 0 && value < graph->values.count);
    return &graph->values.at[value];
}

static int add_value(struct sl_graph *graph, struct sl_value value) {
    SL_PUSH(&graph->values, value);
    return (int)graph->values.count - 1;
}

/* Is the name reserved: a keyword of the model language, or _12, the name of node 12 in the flat
 * form? */
static bool is_reserved(const char *name) {
    static const char *const words[] = {"B", "and", "as", "none", "not", "or"};
    for (int i = 0; i < SL_COUNT(words); i++)
        if (strcmp(name, words[i]) == 0)
            return true;
    return name[0] == '_' && name[1] >= '0' && name[1] <= '9';
}

/* Takes a name; inputs, parameters and states share one name space. */
static sl_err claim_name(struct sl_graph *graph, const char **name, int value) {
    if (is_reserved(*name))
        return sl_fail(SL_ERR_INPUT, "'%s' is a word of the language; choose another name", *name);
    *name = sl_arena_dup(&graph->arena, *name, strlen(*name));
    if (sl_map_find(&graph->names, sl_str(*name)))
        return sl_fail(SL_ERR_INPUT,
                       "the name '%s' is taken; if a function is called twice in one scope, name "
                       "the instances with 'as'",
                       *name);
    sl_map_put(&graph->names, sl_str(*name), value);
    return SL_OK;
}

sl_err sl_graph_input(struct sl_graph *graph, const char *name, enum sl_dtype dtype,
                      struct sl_shape shape, int64_t below, int *out) {
    SL_TRY(sl_graph_shape_check(&shape));
    SL_TRY(claim_name(graph, &name, (int)graph->values.count));
    *out = add_value(graph, (struct sl_value){.kind = SL_VALUE_INPUT,
                                              .dtype = dtype,
                                              .shape = shape,
                                              .node = -1,
                                              .index = (int)graph->inputs.count});
    SL_PUSH(&graph->inputs, ((struct sl_input){name, *out, below}));
    return SL_OK;
}

static sl_err check_param_shape(const char *name, const struct sl_shape *shape) {
    SL_TRY(sl_graph_shape_check(shape));
    if (shape->batch)
        return sl_fail(SL_ERR_INPUT, "'%s' has B in its shape; only inputs depend on the batch",
                       name);
    return SL_OK;
}

sl_err sl_graph_param(struct sl_graph *graph, const char *name, struct sl_shape shape,
                      struct sl_init init, int *out) {
    SL_TRY(check_param_shape(name, &shape));
    SL_TRY(claim_name(graph, &name, (int)graph->values.count));
    *out = add_value(graph, (struct sl_value){.kind = SL_VALUE_PARAM,
                                              .shape = shape,
                                              .node = -1,
                                              .index = (int)graph->params.count});
    SL_PUSH(&graph->params, ((struct sl_param){.name = name, .value = *out, .init = init}));
    return SL_OK;
}

sl_err sl_graph_state(struct sl_graph *graph, const char *name, struct sl_shape shape,
                      struct sl_init init, int *out) {
    SL_TRY(check_param_shape(name, &shape));
    SL_TRY(claim_name(graph, &name, (int)graph->values.count));
    *out = add_value(graph, (struct sl_value){.kind = SL_VALUE_STATE,
                                              .shape = shape,
                                              .node = -1,
                                              .index = (int)graph->states.count});
    SL_PUSH(&graph->states, ((struct sl_param){.name = name, .value = *out, .init = init}));
    return SL_OK;
}

static sl_err fail_count(const struct sl_node_spec *spec, int least, int max) {
    char range[48];
    if (least == max)
        snprintf(range, sizeof range, "%d tensor%s", least, least == 1 ? "" : "s");
    else
        snprintf(range, sizeof range, "%d to %d tensors", least, max);
    return sl_fail(SL_ERR_INPUT, "%s: takes %s (%s), got %d", spec->op->name, range,
                   spec->op->inputs, spec->in_count);
}

static sl_err fill_infer(const struct sl_graph *graph, const struct sl_node_spec *spec,
                         struct sl_infer *infer) {
    int least, max;
    sl_graph_op_arity(spec->op, &least, &max);
    if (spec->in_count < least || spec->in_count > max)
        return fail_count(spec, least, max);
    infer->op = spec->op;
    infer->in_count = spec->in_count;
    for (int i = 0; i < spec->in_count; i++) {
        if (spec->in[i] < 0 && (i < least || max == SL_MAX_IN))
            return sl_fail(SL_ERR_INPUT, "%s: input %d is missing", spec->op->name, i);
        if (spec->in[i] < 0)
            continue;
        const struct sl_value *value = sl_graph_value(graph, spec->in[i]);
        infer->present[i] = true;
        infer->in[i] = value->shape;
        infer->in_dtype[i] = value->dtype;
    }
    if (spec->attr)
        memcpy(infer->attr, spec->attr,
               sizeof *spec->attr * (size_t)sl_graph_op_attr_count(spec->op));
    else
        SL_TRY(sl_graph_op_defaults(spec->op, 0, infer->attr));
    return SL_OK;
}

static sl_err infer_shapes(struct sl_infer *infer) {
    infer->out_count = sl_graph_op_output_count(infer->op);
    SL_TRY(infer->op->infer(infer));
    for (int i = 0; i < infer->out_count; i++) {
        sl_err err = sl_graph_shape_check(&infer->out[i]);
        if (err != SL_OK)
            return sl_err_context(err, "%s: output %d", infer->op->name, i);
    }
    return SL_OK;
}

static void add_updates(struct sl_graph *graph, const struct sl_node *node) {
    for (int i = 0; i < node->op->update_count; i++) {
        int state = node->in[node->op->updates[i].in];
        struct sl_update update = {graph->values.at[state].index,
                                   node->out[node->op->updates[i].out]};
        SL_PUSH(&graph->updates, update);
    }
}

/* Gives every node that draws random numbers its own stream, numbered in graph order. A node that
 * names its stream keeps that; later nodes get larger numbers. */
static sl_err claim_stream(struct sl_graph *graph, const struct sl_op *op, union sl_attr *attr) {
    int index = op->attrs ? sl_graph_op_find_attr(op, SL_STR("stream")) : -1;
    if (index < 0)
        return SL_OK;
    if (attr[index].i < 0)
        attr[index].i = graph->stream_count;
    else if (strcmp(op->attrs[index].fallback, "-1") != 0)
        return SL_OK; /* it names a stream but draws nothing: dropout in evaluation */
    if (attr[index].i >= INT_MAX)
        return sl_fail(SL_ERR_INPUT, "%s: stream = %lld must be below %d", op->name,
                       (long long)attr[index].i, INT_MAX);
    if (attr[index].i >= graph->stream_count)
        graph->stream_count = (int)attr[index].i + 1;
    return SL_OK;
}

sl_err sl_graph_node(struct sl_graph *graph, const struct sl_node_spec *given, int *first_out) {
    struct sl_infer infer = {0};
    struct sl_node_spec spec = *given;
    if (graph->nodes.count >= graph->node_limit)
        return sl_fail(SL_ERR_INPUT, "the model has more than %lld nodes",
                       (long long)graph->node_limit);
    if (graph->eval && spec.op->eval_op)
        spec.op = graph->find_op(sl_str(spec.op->eval_op));
    SL_TRY(fill_infer(graph, &spec, &infer));
    SL_TRY(claim_stream(graph, spec.op, infer.attr));
    SL_TRY(infer_shapes(&infer));
    if (spec.op->expand) {
        spec.attr = infer.attr;
        sl_err err = spec.op->expand(graph, &spec, first_out);
        if (err != SL_OK)
            return sl_err_context(err, "%s", spec.op->name);
        if (*first_out >= 0)
            return SL_OK;
    }
    for (int i = 0; i < spec.op->update_count; i++) {
        int state = spec.in[spec.op->updates[i].in];
        if (state < 0 || graph->values.at[state].kind != SL_VALUE_STATE)
            return sl_fail(SL_ERR_INPUT, "%s: input %d must be a state", spec.op->name,
                           spec.op->updates[i].in);
    }
    int index = (int)graph->nodes.count;
    int attr_count = sl_graph_op_attr_count(spec.op);
    int *ids = SL_NEW(&graph->arena, int, spec.in_count + infer.out_count);
    if (spec.in_count)
        memcpy(ids, spec.in, sizeof *ids * (size_t)spec.in_count);
    for (int i = 0; i < infer.out_count; i++)
        ids[spec.in_count + i] = add_value(graph, (struct sl_value){.kind = SL_VALUE_NODE,
                                                                    .dtype = infer.out_dtype[i],
                                                                    .shape = infer.out[i],
                                                                    .node = index,
                                                                    .slot = i});
    struct sl_node node = {
        .op = spec.op,
        .in = ids,
        .in_count = spec.in_count,
        .out = ids + spec.in_count,
        .out_count = infer.out_count,
        .attr = sl_vec_freeze(&graph->arena, infer.attr, attr_count, sizeof infer.attr[0]),
        .of = -1,
        .sums = -1,
        .scope = spec.scope ? spec.scope : "",
        .pos = spec.pos,
    };
    SL_PUSH(&graph->nodes, node);
    add_updates(graph, &node);
    *first_out = node.out[0];
    return graph->hook.after ? graph->hook.after(graph->hook.ctx, graph, index, first_out) : SL_OK;
}

sl_err sl_graph_apply(struct sl_graph *graph, const char *op, int in_count, const int *in,
                      const union sl_attr *attr, int *first_out) {
    const struct sl_op *found = graph->find_op(sl_str(op));
    if (!found)
        return sl_fail(SL_ERR_INPUT, "unknown op '%s'", op);
    return sl_graph_node(
        graph, &(struct sl_node_spec){.op = found, .in_count = in_count, .in = in, .attr = attr},
        first_out);
}

sl_err sl_graph_output(struct sl_graph *graph, const char *name, int value) {
    name = sl_arena_dup(&graph->arena, name, strlen(name));
    for (int64_t i = 0; i < graph->outputs.count; i++)
        if (strcmp(graph->outputs.at[i].name, name) == 0)
            return sl_fail(SL_ERR_INPUT, "output '%s' is given twice", name);
    SL_PUSH(&graph->outputs, ((struct sl_output){name, value}));
    return SL_OK;
}

int *sl_graph_sources(struct sl_arena *arena, const struct sl_graph *graph) {
    int *source = SL_NEW(arena, int, graph->values.count + 1);
    for (int64_t v = 0; v < graph->values.count; v++) {
        const struct sl_value *value = &graph->values.at[v];
        bool is_view = value->kind == SL_VALUE_NODE && value->slot == 0 &&
                       graph->nodes.at[value->node].op->is_view;
        source[v] = is_view ? source[graph->nodes.at[value->node].in[0]] : (int)v;
    }
    return source;
}

/* Returns the graph input that a value views; -1: the value is computed. */
static int input_behind(const struct sl_graph *graph, int value) {
    const struct sl_value *v = sl_graph_value(graph, value);
    while (v->kind == SL_VALUE_NODE && graph->nodes.at[v->node].op->is_view)
        v = sl_graph_value(graph, graph->nodes.at[v->node].in[0]);
    return v->kind == SL_VALUE_INPUT ? v->index : -1;
}

sl_err sl_graph_loss(struct sl_graph *graph, const char *name, int value, double weight) {
    const struct sl_value *v = sl_graph_value(graph, value);
    char text[SL_SHAPE_TEXT];
    if (!isfinite(weight))
        return sl_fail(SL_ERR_INPUT, "the weight of loss '%s' is not a number", name);
    if (v->shape.rank != 0 || v->dtype != SL_FLOAT)
        return sl_fail(SL_ERR_INPUT, "a loss must be a float scalar, this one has shape %s",
                       sl_graph_shape_text(&v->shape, text));
    struct sl_loss loss = {
        .name = sl_arena_dup(&graph->arena, name, strlen(name)),
        .value = value,
        .weight = weight,
        .seed = -1,
        .count_input = -1,
        .ignore = INT64_MIN,
    };
    const struct sl_node *node = v->kind == SL_VALUE_NODE ? &graph->nodes.at[v->node] : NULL;
    if (node && node->op->is_loss && node->op->count_input >= 0) {
        loss.count_input = input_behind(graph, node->in[node->op->count_input]);
        if (node->op->count_attr >= 0)
            loss.ignore = node->attr[node->op->count_attr].i;
    }
    SL_PUSH(&graph->losses, loss);
    return SL_OK;
}

const char *sl_graph_value_name(const struct sl_graph *graph, int value, char out[SL_NAME_TEXT]) {
    const struct sl_value *v = sl_graph_value(graph, value);
    const char *name = NULL;
    switch (v->kind) {
    case SL_VALUE_INPUT: name = graph->inputs.at[v->index].name; break;
    case SL_VALUE_PARAM: name = graph->params.at[v->index].name; break;
    case SL_VALUE_STATE: name = graph->states.at[v->index].name; break;
    case SL_VALUE_SEED: name = graph->losses.at[v->index].name; break;
    case SL_VALUE_NODE: break;
    }
    if (name) {
        snprintf(out, SL_NAME_TEXT, "%s%s", v->kind == SL_VALUE_SEED ? "seed." : "", name);
        return out;
    }
    const struct sl_node *node = &graph->nodes.at[v->node];
    int used = snprintf(out, SL_NAME_TEXT, "%s%s%s_%d", node->scope, *node->scope ? "." : "",
                        node->op->name, v->node);
    if (v->slot && used > 0 && used < SL_NAME_TEXT)
        snprintf(out + used, (size_t)(SL_NAME_TEXT - used), ":%d", v->slot);
    return out;
}

void sl_graph_view(const struct sl_graph *graph, const struct sl_node *node, int64_t batch,
                   struct sl_op_view *view) {
    *view = (struct sl_op_view){
        .attr = node->attr, .in_count = node->in_count, .out_count = node->out_count};
    for (int i = 0; i < node->in_count; i++) {
        view->present[i] = node->in[i] >= 0;
        if (view->present[i])
            view->in[i] = sl_graph_shape_at(&graph->values.at[node->in[i]].shape, batch);
    }
    for (int i = 0; i < node->out_count; i++)
        view->out[i] = sl_graph_shape_at(&graph->values.at[node->out[i]].shape, batch);
}

double sl_graph_node_flops(const struct sl_graph *graph, const struct sl_node *node,
                           int64_t batch) {
    struct sl_op_view view;
    if (!node->op->flops)
        return 0;
    sl_graph_view(graph, node, batch, &view);
    return node->op->flops(&view);
}
