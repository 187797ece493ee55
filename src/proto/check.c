/* The checker of ONNX files: checks everything that the import relies on. */
#include "base/map.h"
#include "proto/proto.h"

#include <stdio.h>

enum { OPSET_FIRST = 13, OPSET_LAST = 28 };

const struct sl_proto_attr *sl_proto_attr(const struct sl_proto_node *node, const char *name) {
    for (int i = 0; i < node->attr_count; i++)
        if (strcmp(node->attrs[i].name, name) == 0)
            return &node->attrs[i];
    return NULL;
}

int64_t sl_proto_attr_int(const struct sl_proto_node *node, const char *name, int64_t fallback) {
    const struct sl_proto_attr *attr = sl_proto_attr(node, name);
    return attr ? attr->i : fallback;
}

double sl_proto_attr_float(const struct sl_proto_node *node, const char *name, double fallback) {
    const struct sl_proto_attr *attr = sl_proto_attr(node, name);
    return attr ? sl_proto_decimal(attr->f) : fallback;
}

double sl_proto_decimal(float x) {
    char text[32];
    for (int digits = 6; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            return strtod(text, NULL);
    }
    return (double)x;
}

bool sl_proto_attr_is(const struct sl_proto_node *node, const char *name, const char *value,
                      bool fallback) {
    const struct sl_proto_attr *attr = sl_proto_attr(node, name);
    return attr ? sl_str_is(attr->s, value) : fallback;
}

/* Defines a name that later nodes may read: an input, an initialiser, an output of a node. */
static sl_err define(const struct sl_proto_file *file, struct sl_map *names, const char *name,
                     int64_t kind) {
    int64_t *found = sl_map_find(names, sl_str(name));
    if (found && *found + kind != 3) /* an initialiser may give an input its default */
        return sl_fail(SL_ERR_INPUT, "%s: the value '%s' is defined twice", file->path, name);
    sl_map_put(names, sl_str(name), kind);
    return SL_OK;
}

static sl_err check_node(const struct sl_proto_file *file, int64_t index,
                         const struct sl_proto_node *node, struct sl_map *names) {
    for (int i = 0; i < node->in_count; i++)
        if (*node->in[i] && !sl_map_find(names, sl_str(node->in[i])))
            return sl_fail(SL_ERR_INPUT,
                           "%s: node %lld '%s' (%s) reads '%s', which no input, initialiser or "
                           "earlier node defines",
                           file->path, (long long)index, node->name, node->op, node->in[i]);
    for (int i = 0; i < node->out_count; i++)
        if (*node->out[i])
            SL_TRY(define(file, names, node->out[i], 4));
    return SL_OK;
}

static sl_err check_graph(const struct sl_proto_file *file, const struct sl_proto_graph *graph,
                          struct sl_map *names) {
    for (int64_t i = 0; i < graph->in_count; i++)
        SL_TRY(define(file, names, graph->in[i].name, 1));
    for (int64_t i = 0; i < graph->tensor_count; i++)
        SL_TRY(define(file, names, graph->tensors[i].name, 2));
    for (int64_t i = 0; i < graph->node_count; i++)
        SL_TRY(check_node(file, i, &graph->nodes[i], names));
    for (int64_t i = 0; i < graph->out_count; i++)
        if (!sl_map_find(names, sl_str(graph->out[i].name)))
            return sl_fail(SL_ERR_INPUT, "%s: nothing defines the output '%s'", file->path,
                           graph->out[i].name);
    return SL_OK;
}

sl_err sl_proto_check(const struct sl_proto_file *file) {
    struct sl_map names = {0};
    if (file->opset < OPSET_FIRST || file->opset > OPSET_LAST)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: operator set %lld; versions %d to %d are read. Export again with "
                       "opset_version=18",
                       file->path, (long long)file->opset, OPSET_FIRST, OPSET_LAST);
    sl_err err = check_graph(file, file->graph, &names);
    sl_map_free(&names);
    return err;
}
