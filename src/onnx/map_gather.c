/* Lowers slices and look-ups by constant or computed indices. */
#include "onnx/map.h"

/* Emits the rows `index` of an axis, for any constant list. */
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
    bool whole = sl_onnx_lower_is_int(l, x);
    SL_TRY(sl_onnx_emit_open(l, &e, "index_select"));
    SL_TRY(sl_onnx_lower_id(l, &val, &in[1]));
    sl_onnx_emit_int(&e, "axis", axis);
    if (whole)
        SL_TRY(sl_onnx_emit_plain(l, "to_float", 1, &x, &in[0]));
    SL_TRY(sl_onnx_emit(l, &e, 2, in, out));
    return whole ? sl_onnx_emit_plain(l, "to_int", 1, out, out) : SL_OK;
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
    int64_t stride = step > 0 ? step : -step;
    int64_t count = ((step > 0 ? to - from : from - to) + stride - 1) / stride;
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
        if (cut.step == 0 || cut.step < -INT32_MAX || cut.step > INT32_MAX)
            return sl_onnx_lower_refuse(l, "a step of %lld", (long long)cut.step);
        SL_TRY(slice_axis(l, x, &cut, &x));
    }
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Emits elements c b + i of an axis of c B elements, where b is the sample number: moves the
 * elements of each sample into a separate axis. */
static sl_err gather_samples(struct sl_onnx_lower *l, int x, const struct sl_onnx_konst *index) {
    struct sl_shape in = *sl_onnx_lower_shape(l, x), wide = {.rank = 2}, out = {0};
    int64_t step = sl_onnx_konst_per_sample(index, 0);
    int64_t *rows = SL_NEW(l->arena, int64_t, index->count + 1);
    if (in.batch != 1 || in.dim[0] != step || index->stretch != 1 || in.rank >= SL_MAX_RANK ||
        index->rank + in.rank - 1 > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "these indices of the axis of the batch");
    for (int64_t i = 0; i < index->count; i++) {
        rows[i] = index->i[i].n;
        if (sl_onnx_konst_per_sample(index, i) != step || rows[i] < 0 || rows[i] >= step)
            return sl_onnx_lower_refuse(l, "these indices of the axis of the batch");
    }
    sl_graph_shape_set(&wide, 0, (struct sl_dim){1, true});
    sl_graph_shape_set(&wide, 1, (struct sl_dim){step, false});
    for (int i = 1; i < in.rank; i++)
        sl_graph_shape_set(&wide, wide.rank++, sl_graph_shape_dim(&in, i));
    SL_TRY(sl_onnx_emit_reshape(l, x, &wide, &x));
    SL_TRY(sl_onnx_emit_rows(l, x, 1, index->count, rows, &x));
    for (int i = 0; i < index->rank; i++)
        sl_graph_shape_set(&out, out.rank++, sl_onnx_konst_dim(index, i));
    for (int i = 1; i < in.rank; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&in, i));
    return sl_onnx_put_reshaped(l, x, &out);
}

/* Constant indices: emits rows in the layout of the indices. */
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
    SL_TRY(sl_onnx_emit_reshape(l, x, &out, &x));
    for (int i = 0; i < index->rank; i++) /* the same rows for all samples */
        sl_graph_shape_set(&out, axis + i, sl_onnx_konst_dim(index, i));
    SL_TRY(sl_onnx_emit_broadcast(l, x, &out, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_gather(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[2], axis, y;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    int rank = sl_onnx_lower_shape(l, in[0])->rank;
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", 0), rank, &axis));
    const struct sl_onnx_konst *index = sl_onnx_lower_maybe(l, 1);
    if (index && index->i && index->count && axis == 0 && sl_onnx_konst_per_sample(index, 0))
        return gather_samples(l, in[0], index);
    if (index)
        return gather_rows(l, in[0], axis, index);
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    bool table = axis == 0 && rank == 2 && !sl_onnx_lower_is_int(l, in[0]) &&
                 !sl_onnx_lower_shape(l, in[0])->batch &&
                 sl_graph_value(l->graph, in[1])->kind == SL_VALUE_INPUT;
    if (table) { /* the readers of data will check the indices against the table */
        struct sl_input *input = &l->graph->inputs.at[sl_graph_value(l->graph, in[1])->index];
        int64_t rows = sl_onnx_lower_shape(l, in[0])->dim[0];
        input->below = input->below == 0 || rows < input->below ? rows : input->below;
    }
    if (!table)
        SL_TRY(sl_onnx_lower_float(l, 0, &in[0]));
    SL_TRY(sl_onnx_emit_open(l, &e, table ? "embed" : "index_select"));
    if (!table)
        sl_onnx_emit_int(&e, "axis", axis);
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}
