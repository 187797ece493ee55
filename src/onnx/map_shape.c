/* Operators that move elements: shapes, slices, joins, look-ups. */
#include "onnx/map.h"

#include <math.h>

sl_err sl_onnx_map_identity(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val val = *sl_onnx_lower_val(l, 0);
    (void)row;
    val.name = l->node->out[0];
    val.readers = 0;
    if (l->node->out_count != 1)
        return sl_onnx_lower_refuse(l, "one output is supported");
    sl_onnx_lower_add(l, val);
    return SL_OK;
}

sl_err sl_onnx_map_cast(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val val = *sl_onnx_lower_val(l, 0);
    int to = (int)sl_onnx_attr_int(l->node, "to", SL_ONNX_NONE), x;
    (void)row;
    if (strcmp(l->node->op, "CastLike") == 0)
        to = sl_onnx_lower_has(l, 1) ? sl_onnx_lower_val(l, 1)->type : SL_ONNX_NONE;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    bool from_int = sl_onnx_lower_is_int(l, x), to_int = sl_onnx_type_is_int(to);
    if (!to_int && !sl_onnx_type_is_float(to))
        return sl_onnx_lower_refuse(l, "a cast to %s", sl_onnx_type_name(to));
    if (!to_int && to != SL_ONNX_FLOAT && to != val.type)
        return sl_onnx_lower_refuse(l, "a cast to %s changes the numbers; only float is computed",
                                    sl_onnx_type_name(to));
    if (to == SL_ONNX_BOOL && val.type != SL_ONNX_BOOL)
        return sl_onnx_lower_refuse(l, "a cast from %s to bool", sl_onnx_type_name(val.type));
    if (from_int && !to_int)
        SL_TRY(sl_onnx_emit_plain(l, "to_float", 1, &x, &x));
    if (!from_int && to_int)
        SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, to);
    return SL_OK;
}

/* In training mode a mask is drawn; torch exports evaluation by default. */
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

/* The sizes of a tensor: constants, with B where the batch is. */
sl_err sl_onnx_map_shape(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_konst *out;
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, x);
    int64_t rank = shape->rank, from = sl_onnx_attr_int(l->node, "start", 0);
    int64_t to = sl_onnx_attr_int(l->node, "end", rank);
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

/* Lays x out under `shape`, keeping the type that the file states. */
static sl_err put_reshaped(struct sl_onnx_lower *l, int x, const struct sl_shape *shape) {
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
        if (dim.n == 0 && !sl_onnx_attr_int(l->node, "allowzero", 0) && i < in.rank)
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
    return put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_flatten(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_shape out = {.rank = 2};
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape in = *sl_onnx_lower_shape(l, x);
    int64_t axis = sl_onnx_attr_int(l->node, "axis", 1);
    axis += axis < 0 ? in.rank : 0;
    if (axis < 0 || axis > in.rank)
        return sl_onnx_lower_refuse(l, "axis %lld", (long long)axis);
    sl_graph_shape_set(&out, 0, sl_graph_shape_product(&in, 0, (int)axis));
    sl_graph_shape_set(&out, 1, sl_graph_shape_product(&in, (int)axis, in.rank));
    return put_reshaped(l, x, &out);
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
    return put_reshaped(l, x, &out);
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
    return put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_transpose(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_attr *attr = sl_onnx_attr(l->node, "perm");
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
    SL_TRY(sl_onnx_lower_axis(l, sl_onnx_attr_int(l->node, "axis", 0),
                              sl_onnx_lower_shape(l, in[0])->rank, &axis));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", axis);
    y = in[0];
    if (l->node->in_count > 1)
        SL_TRY(sl_onnx_emit(l, &e, l->node->in_count, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Equal parts that fit the op's outputs. */
static bool equal_parts(int count, const int64_t *size) {
    for (int i = 1; i < count; i++)
        if (size[i] != size[0])
            return false;
    return count <= SL_MAX_OUT;
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
    SL_TRY(sl_onnx_lower_axis(l, sl_onnx_attr_int(l->node, "axis", 0),
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

/* Rows `index` of an axis, for any constant list of them. */
sl_err sl_onnx_emit_rows(struct sl_onnx_lower *l, int x, int axis, int64_t count,
                         const int64_t *index, int *out) {
    struct sl_onnx_konst *list;
    struct sl_onnx_emit e;
    int in[2] = {x, -1};
    bool run = count > 0;
    for (int64_t i = 1; i < count; i++)
        run = run && index[i] == index[0] + i;
    if (run)
        return sl_onnx_emit_slice(l, x, axis, index[0], index[0] + count, out);
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_INT64, 1, &count, &list));
    for (int64_t i = 0; i < count; i++)
        list->i[i].n = index[i];
    struct sl_onnx_val val = {.name = "index", .kind = SL_ONNX_KONST, .konst = list, .id = -1};
    SL_TRY(sl_onnx_emit_open(l, &e, "index_select"));
    SL_TRY(sl_onnx_lower_id(l, &val, &in[1]));
    sl_onnx_emit_int(&e, "axis", axis);
    return sl_onnx_emit(l, &e, 2, in, out);
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

struct cut {
    int axis;
    int64_t from, to, step, count;
};

static sl_err slice_axis(struct sl_onnx_lower *l, int x, const struct cut *cut, int *out) {
    struct sl_dim size = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), cut->axis);
    int64_t n = size.n;
    if (size.batch && cut->from == 0 && cut->to >= INT32_MAX && cut->step == 1) {
        *out = x;
        return SL_OK;
    }
    if (size.batch)
        return sl_onnx_lower_refuse(l, "the axis of the batch cannot be cut");
    int64_t from = cut->from, to = cut->to, step = cut->step;
    from = clamp(from < 0 ? from + n : from, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    to = clamp(to < 0 && to >= -n ? to + n : to, step > 0 ? 0 : -1, n);
    int64_t count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
    if (count < 1)
        return sl_onnx_lower_refuse(l, "nothing is left of axis %d", cut->axis);
    if (step == 1)
        return sl_onnx_emit_slice(l, x, cut->axis, from, to, out);
    int64_t *index = SL_NEW(l->arena, int64_t, count);
    for (int64_t i = 0; i < count; i++)
        index[i] = from + i * step;
    return sl_onnx_emit_rows(l, x, cut->axis, count, index, out);
}

sl_err sl_onnx_map_slice(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *list[4] = {0};
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    for (int i = 0; i < 4; i++)
        SL_TRY(sl_onnx_lower_konst(l, 1 + i, &list[i]));
    if (!list[0] || !list[1] || list[0]->count != list[1]->count)
        return sl_onnx_lower_refuse(l, "starts and ends must be lists of one length");
    for (int64_t i = 0; i < list[0]->count; i++) {
        struct cut cut = {.step = 1};
        int64_t axis = i;
        struct sl_dim end =
            list[1]->i ? list[1]->i[i < list[1]->count ? i : 0] : (struct sl_dim){0, false};
        SL_TRY(sl_onnx_konst_int(list[0], i, &cut.from));
        cut.to = end.n;
        if (list[2])
            SL_TRY(sl_onnx_konst_int(list[2], i, &axis));
        if (list[3])
            SL_TRY(sl_onnx_konst_int(list[3], i, &cut.step));
        SL_TRY(sl_onnx_lower_axis(l, axis, sl_onnx_lower_shape(l, x)->rank, &cut.axis));
        struct sl_dim size = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), cut.axis);
        if (end.batch && size.batch && end.n == size.n)
            cut.to = INT64_MAX; /* up to the end of the batch */
        else if (end.batch)
            return sl_onnx_lower_refuse(l, "the end of a slice depends on the batch size");
        if (cut.step == 0 || cut.step < -(INT32_MAX))
            return sl_onnx_lower_refuse(l, "a step of %lld", (long long)cut.step);
        SL_TRY(slice_axis(l, x, &cut, &x));
    }
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Constant indices: rows, laid out as the indices are. */
static sl_err gather_rows(struct sl_onnx_lower *l, int x, int axis,
                          const struct sl_onnx_konst *index) {
    struct sl_shape in = *sl_onnx_lower_shape(l, x), out = {0};
    struct sl_dim size = sl_graph_shape_dim(&in, axis);
    int64_t *rows = SL_NEW(l->arena, int64_t, index->count + 1);
    if (size.batch || index->count == 0 || in.rank - 1 + index->rank > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "these indices of axis %d", axis);
    for (int64_t i = 0; i < index->count; i++) {
        SL_TRY(sl_onnx_konst_int(index, i, &rows[i]));
        rows[i] += rows[i] < 0 ? size.n : 0;
        if (rows[i] < 0 || rows[i] >= size.n)
            return sl_onnx_lower_refuse(l, "index %lld of an axis of size %lld", (long long)rows[i],
                                        (long long)size.n);
    }
    SL_TRY(sl_onnx_emit_rows(l, x, axis, index->count, rows, &x));
    for (int i = 0; i < axis; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&in, i));
    for (int i = 0; i < index->rank; i++)
        sl_graph_shape_set(&out, out.rank++, (struct sl_dim){index->dim[i], false});
    for (int i = axis + 1; i < in.rank; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&in, i));
    return put_reshaped(l, x, &out);
}

sl_err sl_onnx_map_gather(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[2], axis, y;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    int rank = sl_onnx_lower_shape(l, in[0])->rank;
    SL_TRY(sl_onnx_lower_axis(l, sl_onnx_attr_int(l->node, "axis", 0), rank, &axis));
    const struct sl_onnx_konst *index = sl_onnx_lower_maybe(l, 1);
    if (index)
        return gather_rows(l, in[0], axis, index);
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    bool table = axis == 0 && rank == 2 && !sl_onnx_lower_is_int(l, in[0]) &&
                 !sl_onnx_lower_shape(l, in[0])->batch &&
                 sl_graph_value(l->graph, in[1])->kind == SL_VALUE_INPUT;
    if (table) { /* readers of data check the indices against the table */
        struct sl_input *input = &l->graph->inputs.at[sl_graph_value(l->graph, in[1])->index];
        int64_t rows = sl_onnx_lower_shape(l, in[0])->dim[0];
        input->below = input->below == 0 || rows < input->below ? rows : input->below;
    }
    SL_TRY(sl_onnx_emit_open(l, &e, table ? "embed" : "index_select"));
    if (!table)
        sl_onnx_emit_int(&e, "axis", axis);
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* A condition that is known while importing: the nodes of one branch take the place of the node. */
sl_err sl_onnx_map_if(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_node *node = l->node;
    double condition;
    (void)row;
    SL_TRY(sl_onnx_lower_number(l, 0, &condition));
    const struct sl_onnx_attr *attr =
        sl_onnx_attr(node, condition != 0 ? "then_branch" : "else_branch");
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
