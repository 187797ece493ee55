/* Lowers operators that move elements: shapes, slices, joins, look-ups. */
#include "onnx/map.h"

#include <math.h>

sl_err sl_onnx_map_identity(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val val = *sl_onnx_lower_val(l, 0);
    (void)row;
    if (l->node->out_count != 1)
        return sl_onnx_lower_refuse(l, "one output is supported");
    const struct sl_onnx_val *there = sl_onnx_lower_named(l, l->node->out[0]);
    /* names.c has found that it is a separate parameter */
    if (there && there->kind == SL_ONNX_KONST)
        return SL_OK;
    val.name = l->node->out[0];
    val.readers = 0;
    if (val.kind == SL_ONNX_KONST)
        val.id = -1; /* torch writes equal initialisers once, and names the others by Identity */
    sl_onnx_lower_add(l, val);
    return SL_OK;
}

sl_err sl_onnx_map_cast(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val val = *sl_onnx_lower_val(l, 0);
    int to = (int)sl_proto_attr_int(l->node, "to", SL_ONNX_NONE), x;
    (void)row;
    if (strcmp(l->node->op, "CastLike") == 0)
        to = sl_onnx_lower_has(l, 1) ? sl_onnx_lower_val(l, 1)->type : SL_ONNX_NONE;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    bool from_int = sl_onnx_lower_is_int(l, x), to_int = sl_proto_type_is_int(to);
    if (!to_int && !sl_proto_type_is_float(to))
        return sl_onnx_lower_refuse(l, "a cast to %s", sl_proto_type_name(to));
    if (!to_int && to != SL_ONNX_FLOAT && to != val.type)
        return sl_onnx_lower_refuse(l, "a cast to %s changes the numbers; only float is computed",
                                    sl_proto_type_name(to));
    if (to == SL_ONNX_BOOL && val.type != SL_ONNX_BOOL) { /* to bool: everything except 0 is true */
        int zero;
        if (!from_int) {
            SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &zero));
            SL_TRY(sl_onnx_emit_plain(l, "equal", 2, (int[]){x, zero}, &x));
        } else {
            SL_TRY(sl_onnx_emit_plain(l, "logical_not", 1, &x, &x));
        }
        SL_TRY(sl_onnx_emit_plain(l, "logical_not", 1, &x, &x));
        sl_onnx_lower_out(l, 0, x, to);
        return SL_OK;
    }
    if (from_int && !to_int)
        SL_TRY(sl_onnx_emit_plain(l, "to_float", 1, &x, &x));
    if (!from_int && to_int)
        SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, to);
    return SL_OK;
}

/* Dropout: in training mode a mask is drawn; by default torch exports for evaluation. */
sl_err sl_onnx_map_dropout(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    double ratio = 0.5, training = 0;
    int x;
    if (sl_onnx_lower_has(l, 2))
        SL_TRY(sl_onnx_lower_number(l, 2, &training));
    if (sl_onnx_lower_has(l, 1))
        SL_TRY(sl_onnx_lower_number(l, 1, &ratio));
    if (l->node->out_count > 1 && *l->node->out[1] &&
        sl_onnx_lower_named(l, l->node->out[1]) != NULL)
        return sl_onnx_lower_refuse(l, "the mask of a dropout is not available as a tensor");
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    if (training != 0 && ratio != 0) {
        SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
        sl_onnx_emit_float(&e, "p", ratio);
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    }
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Shape: the sizes are constants, with B for the batch. */
sl_err sl_onnx_map_shape(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_konst *out;
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, x);
    int64_t rank = shape->rank, from = sl_proto_attr_int(l->node, "start", 0);
    int64_t to = sl_proto_attr_int(l->node, "end", rank);
    from += from < 0 ? rank : 0;
    to += to < 0 ? rank : 0;
    from = from < 0 ? 0 : from;
    to = to > rank ? rank : to;
    int64_t count = to > from ? to - from : 0;
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_INT64, 1, &count, &out));
    for (int64_t i = 0; i < count; i++)
        out->i[i] = sl_graph_shape_dim(shape, (int)(from + i));
    sl_onnx_lower_out_konst(l, 0, out);
    return SL_OK;
}

sl_err sl_onnx_map_size(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_konst *out;
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_INT64, 0, NULL, &out));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, x);
    out->i[0] = sl_graph_shape_product(shape, 0, shape->rank);
    sl_onnx_lower_out_konst(l, 0, out);
    return SL_OK;
}

/* Reshapes x to `shape`, keeping the type that the file states. */
sl_err sl_onnx_put_reshaped(struct sl_onnx_lower *l, int x, const struct sl_shape *shape) {
    SL_TRY(sl_onnx_emit_reshape(l, x, shape, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_reshape(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *want;
    struct sl_dim known = {1, false};
    struct sl_shape out = {0};
    int x, free_axis = -1;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &want));
    struct sl_shape in = *sl_onnx_lower_shape(l, x);
    if (!want || !want->i || want->count > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "the new shape must be a list of at most %d sizes",
                                    SL_MAX_RANK);
    for (int i = 0; i < want->count; i++) {
        struct sl_dim dim = want->i[i];
        if (dim.n == 0 && !sl_proto_attr_int(l->node, "allowzero", 0) && i < in.rank)
            dim = sl_graph_shape_dim(&in, i);
        if (dim.n < 0)
            free_axis = i;
        else if (dim.n == 0)
            return sl_onnx_lower_refuse(l, "a size of 0");
        else if (__builtin_mul_overflow(known.n, dim.n, &known.n))
            return sl_onnx_lower_refuse(l, "the shape is too large");
        known.batch |= dim.n > 0 && dim.batch;
        sl_graph_shape_set(&out, out.rank++, dim.n < 0 ? (struct sl_dim){1, false} : dim);
    }
    struct sl_dim all = sl_graph_shape_product(&in, 0, in.rank);
    if (free_axis >= 0 && (known.n == 0 || all.n % known.n || (known.batch && !all.batch)))
        return sl_onnx_lower_refuse(l, "no size for -1: the other sizes do not divide the input's");
    if (free_axis >= 0)
        sl_graph_shape_set(&out, free_axis,
                           (struct sl_dim){all.n / known.n, all.batch && !known.batch});
    return sl_onnx_put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_flatten(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_shape out = {.rank = 2};
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape in = *sl_onnx_lower_shape(l, x);
    int64_t axis = sl_proto_attr_int(l->node, "axis", 1);
    axis += axis < 0 ? in.rank : 0;
    if (axis < 0 || axis > in.rank)
        return sl_onnx_lower_refuse(l, "axis %lld", (long long)axis);
    sl_graph_shape_set(&out, 0, sl_graph_shape_product(&in, 0, (int)axis));
    sl_graph_shape_set(&out, 1, sl_graph_shape_product(&in, (int)axis, in.rank));
    return sl_onnx_put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_squeeze(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_shape out = {0};
    struct sl_ints axes;
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape in = *sl_onnx_lower_shape(l, x);
    SL_TRY(sl_onnx_lower_axes(l, 1, in.rank, &axes));
    for (int i = 0; i < in.rank; i++) {
        struct sl_dim dim = sl_graph_shape_dim(&in, i);
        bool drop = axes.count == 0 && dim.n == 1 && !dim.batch;
        for (int k = 0; k < axes.count; k++)
            drop |= axes.at[k] == i;
        if (drop && (dim.n != 1 || dim.batch))
            return sl_onnx_lower_refuse(l, "axis %d has not size 1", i);
        if (!drop)
            sl_graph_shape_set(&out, out.rank++, dim);
    }
    return sl_onnx_put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_unsqueeze(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_shape out = {0};
    struct sl_ints axes;
    const struct sl_onnx_konst *list;
    int x, from = 0;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape in = *sl_onnx_lower_shape(l, x);
    SL_TRY(sl_onnx_lower_konst(l, 1, &list));
    int rank = in.rank + (list ? (int)list->count : 0);
    if (rank > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "%d axes; the limit is %d", rank, SL_MAX_RANK);
    SL_TRY(sl_onnx_lower_axes(l, 1, rank, &axes));
    for (int i = 0; i < rank; i++) {
        bool added = false;
        for (int k = 0; k < axes.count; k++)
            added |= axes.at[k] == i;
        if (!added && from >= in.rank)
            return sl_onnx_lower_refuse(l, "an axis is named twice");
        sl_graph_shape_set(&out, out.rank++,
                           added ? (struct sl_dim){1, false} : sl_graph_shape_dim(&in, from++));
    }
    return sl_onnx_put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_transpose(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, "perm");
    int x, perm[SL_MAX_RANK];
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        int64_t from = attr ? (i < attr->int_count ? attr->ints[i] : -1) : rank - 1 - i;
        if (from < 0 || from >= rank || (seen >> from & 1))
            return sl_onnx_lower_refuse(l, "'perm' is not an order of %d axes", rank);
        seen |= 1u << from;
        perm[i] = (int)from;
    }
    SL_TRY(sl_onnx_emit_transpose(l, x, perm, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_expand(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *want;
    struct sl_shape shape = {0}, wide;
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &want));
    if (!want || !want->i || want->count > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "the shape must be a list of at most %d sizes", SL_MAX_RANK);
    for (int i = 0; i < want->count; i++) {
        if (want->i[i].n < 1)
            return sl_onnx_lower_refuse(l, "a size of %lld", (long long)want->i[i].n);
        sl_graph_shape_set(&shape, shape.rank++, want->i[i]);
    }
    SL_TRY(sl_graph_shape_broadcast(sl_onnx_lower_shape(l, x), &shape, &wide));
    if (sl_graph_shape_equal(sl_onnx_lower_shape(l, x), &wide)) {
        sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
        return SL_OK;
    }
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_emit_broadcast(l, x, &wide, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_concat(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[SL_MAX_IN], y, axis;
    if (l->node->in_count > SL_MAX_IN)
        return sl_onnx_lower_refuse(l, "%d inputs; the limit is %d", l->node->in_count, SL_MAX_IN);
    for (int i = 0; i < l->node->in_count; i++)
        SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
    if (l->node->in_count == 0)
        return sl_onnx_lower_refuse(l, "no inputs");
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", 0),
                              sl_onnx_lower_shape(l, in[0])->rank, &axis));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", axis);
    y = in[0];
    if (l->node->in_count > 1)
        SL_TRY(sl_onnx_emit(l, &e, l->node->in_count, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Are all parts equal, and few enough for the op's outputs? */
static bool equal_parts(int count, const int64_t *size) {
    for (int i = 1; i < count; i++)
        if (size[i] != size[0])
            return false;
    return count <= 6 /* of split */;
}

sl_err sl_onnx_map_split(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    enum { MAX = 256 };
    const struct sl_onnx_konst *sizes;
    struct sl_onnx_emit e;
    int64_t size[MAX], from = 0;
    int x, y, axis, count = l->node->out_count;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &sizes));
    int type = sl_onnx_lower_val(l, 0)->type;
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", 0),
                              sl_onnx_lower_shape(l, x)->rank, &axis));
    struct sl_dim all = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), axis);
    if (count < 1 || count > MAX || all.batch || (sizes && sizes->count != count))
        return sl_onnx_lower_refuse(l, "the axis cannot be divided in %d parts", count);
    for (int i = 0; i < count; i++) {
        int64_t each = (all.n + count - 1) / count, left = all.n - from;
        size[i] = left < each ? left : each;
        if (sizes)
            SL_TRY(sl_onnx_konst_int(sizes, i, &size[i]));
        if (size[i] < 1 || size[i] > left)
            return sl_onnx_lower_refuse(l, "part %d has size %lld of %lld", i, (long long)size[i],
                                        (long long)all.n);
        from += size[i];
    }
    if (count == 1) {
        sl_onnx_lower_out(l, 0, x, type);
        return SL_OK;
    }
    if (from == all.n && equal_parts(count, size) && !sl_onnx_lower_is_int(l, x)) {
        SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
        sl_onnx_emit_int(&e, "axis", axis);
        sl_onnx_emit_int(&e, "parts", count);
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
        for (int i = 0; i < count; i++)
            sl_onnx_lower_out(l, i, y + i, type);
        return SL_OK;
    }
    from = 0;
    for (int i = 0; i < count; i++) {
        SL_TRY(sl_onnx_emit_slice(l, x, axis, from, from + size[i], &y));
        sl_onnx_lower_out(l, i, y, type);
        from += size[i];
    }
    return SL_OK;
}

/* If with a condition that is known during the import: the nodes of one branch replace the node. */
sl_err sl_onnx_map_if(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_proto_node *node = l->node;
    double condition;
    (void)row;
    SL_TRY(sl_onnx_lower_number(l, 0, &condition));
    const struct sl_proto_attr *attr =
        sl_proto_attr(node, condition != 0 ? "then_branch" : "else_branch");
    if (!attr || !attr->g || attr->g->out_count != node->out_count || l->depth >= SL_ONNX_DEPTH)
        return sl_onnx_lower_refuse(l, "the branch is missing or nested too deeply");
    for (int64_t i = 0; i < attr->g->tensor_count; i++)
        sl_onnx_lower_add(l, (struct sl_onnx_val){
                                 .name = attr->g->tensors[i].name,
                                 .kind = SL_ONNX_KONST,
                                 .konst = sl_onnx_konst_of_tensor(l->arena, &attr->g->tensors[i]),
                                 .id = -1,
                                 .type = attr->g->tensors[i].type});
    l->depth++;
    sl_err err = sl_onnx_lower_graph(l, attr->g);
    l->depth--;
    l->node = node;
    SL_TRY(err);
    for (int i = 0; i < node->out_count; i++) {
        struct sl_onnx_val *from = sl_onnx_lower_named(l, attr->g->out[i].name);
        if (!from)
            return sl_onnx_lower_refuse(l, "the branch does not define '%s'", attr->g->out[i].name);
        struct sl_onnx_val val = *from;
        val.name = node->out[i];
        sl_onnx_lower_add(l, val);
    }
    return SL_OK;
}
