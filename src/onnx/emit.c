/* Adds nodes to the graph of an import. */
#include "onnx/lower.h"

#include "op/registry.h"

sl_err sl_onnx_emit_open(const struct sl_onnx_lower *l, struct sl_onnx_emit *e, const char *op) {
    *e = (struct sl_onnx_emit){.op = sl_op_find(sl_str(op))};
    if (!e->op)
        return sl_onnx_lower_refuse(l, "it needs the op '%s', which this version does not have",
                                    op);
    unsigned required = 0;
    for (int i = 0; i < sl_graph_op_attr_count(e->op); i++)
        required |= (unsigned)(e->op->attrs[i].fallback == NULL) << i;
    return sl_graph_op_defaults(e->op, required, e->attr);
}

static int index_of(struct sl_onnx_emit *e, const char *attr) {
    int index = sl_graph_op_find_attr(e->op, sl_str(attr));
    SL_ASSERT(index >= 0);
    return index;
}

void sl_onnx_emit_int(struct sl_onnx_emit *e, const char *attr, int64_t value) {
    e->attr[index_of(e, attr)].i = value;
}

void sl_onnx_emit_float(struct sl_onnx_emit *e, const char *attr, double value) {
    e->attr[index_of(e, attr)].f = value;
}

void sl_onnx_emit_ints(struct sl_onnx_emit *e, const char *attr, int count, const int64_t *at) {
    struct sl_ints *ints = &e->attr[index_of(e, attr)].ints;
    SL_ASSERT(count <= SL_MAX_RANK);
    ints->count = count;
    for (int i = 0; i < count; i++)
        ints->at[i] = at[i];
}

void sl_onnx_emit_shape(struct sl_onnx_emit *e, const char *attr, const struct sl_shape *shape) {
    e->attr[index_of(e, attr)].shape = *shape;
}

void sl_onnx_emit_choice(struct sl_onnx_emit *e, const char *attr, const char *choice) {
    int index = index_of(e, attr);
    e->attr[index].i = sl_graph_attr_choice(&e->op->attrs[index], sl_str(choice));
    SL_ASSERT(e->attr[index].i >= 0);
}

sl_err sl_onnx_emit(struct sl_onnx_lower *l, struct sl_onnx_emit *e, int count, const int *in,
                    int *out) {
    return sl_graph_node(
        l->graph, &(struct sl_node_spec){.op = e->op, .in_count = count, .in = in, .attr = e->attr},
        out);
}

sl_err sl_onnx_emit_plain(struct sl_onnx_lower *l, const char *op, int count, const int *in,
                          int *out) {
    struct sl_onnx_emit e;
    SL_TRY(sl_onnx_emit_open(l, &e, op));
    return sl_onnx_emit(l, &e, count, in, out);
}

sl_err sl_onnx_emit_reshape(struct sl_onnx_lower *l, int x, const struct sl_shape *shape,
                            int *out) {
    struct sl_onnx_emit e;
    *out = x;
    if (sl_graph_shape_equal(sl_onnx_lower_shape(l, x), shape))
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "reshape"));
    sl_onnx_emit_shape(&e, "shape", shape);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

sl_err sl_onnx_emit_transpose(struct sl_onnx_lower *l, int x, const int *perm, int *out) {
    struct sl_onnx_emit e;
    int64_t wide[SL_MAX_RANK];
    int rank = sl_onnx_lower_shape(l, x)->rank;
    bool same = true;
    for (int i = 0; i < rank; i++) {
        wide[i] = perm[i];
        same = same && perm[i] == i;
    }
    *out = x;
    if (same)
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "transpose"));
    sl_onnx_emit_ints(&e, "perm", rank, wide);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

sl_err sl_onnx_emit_slice(struct sl_onnx_lower *l, int x, int axis, int64_t from, int64_t to,
                          int *out) {
    struct sl_onnx_emit e;
    struct sl_dim size = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), axis);
    *out = x;
    if (from == 0 && (to == INT64_MAX || (!size.batch && to == size.n)))
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "slice"));
    sl_onnx_emit_int(&e, "axis", axis);
    sl_onnx_emit_int(&e, "from", from);
    sl_onnx_emit_int(&e, "to", to);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

sl_err sl_onnx_emit_scale(struct sl_onnx_lower *l, int x, double by, int *out) {
    struct sl_onnx_emit e;
    *out = x;
    if (by == 1)
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "scale"));
    sl_onnx_emit_float(&e, "by", by);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

sl_err sl_onnx_emit_broadcast(struct sl_onnx_lower *l, int x, const struct sl_shape *shape,
                              int *out) {
    struct sl_onnx_emit e;
    *out = x;
    if (sl_graph_shape_equal(sl_onnx_lower_shape(l, x), shape))
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "broadcast_to"));
    sl_onnx_emit_shape(&e, "shape", shape);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

sl_err sl_onnx_emit_filled(struct sl_onnx_lower *l, const struct sl_shape *shape, double value,
                           int *out) {
    struct sl_init init = {.kind = SL_INIT_CONST, .a = value};
    const char *name =
        sl_arena_printf(l->arena, "constant.%lld", (long long)l->graph->states.count);
    sl_map_put(&l->used_names, sl_str(name), 1);
    return sl_graph_state(l->graph, name, *shape, init, out);
}

sl_err sl_onnx_emit_constant(struct sl_onnx_lower *l, int rank, const int64_t *dim, double *values,
                             int *out) {
    struct sl_onnx_konst *konst;
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_FLOAT, rank, dim, &konst));
    konst->f = values;
    struct sl_onnx_val val = {.name = "constant", .kind = SL_ONNX_KONST, .konst = konst, .id = -1};
    return sl_onnx_lower_id(l, &val, out);
}
