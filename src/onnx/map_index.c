/* Lowers choices, orders, indices, margins. */
#include "onnx/map.h"

#include <math.h>

/* Clip: constant bounds become attributes; computed bounds become ops of two tensors. */
sl_err sl_onnx_map_clip(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const char *const names[2] = {"min", "max"}, *const ops[2] = {"max", "min"};
    struct sl_onnx_emit e;
    int x;
    bool any = false;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    double low = -INFINITY, high = INFINITY;
    for (int i = 0; i < 2; i++) {
        const struct sl_onnx_konst *bound = sl_onnx_lower_maybe(l, 1 + i);
        if (bound && bound->count == 1 && !sl_onnx_konst_has_batch(bound)) {
            double value = sl_onnx_konst_number(bound, 0);
            *(i ? &high : &low) = value;
            if (isfinite(value))
                sl_onnx_emit_float(&e, names[i], value);
            any = true;
        }
    }
    if (low > high) /* if the bounds cross, the upper one counts */
        sl_onnx_emit_float(&e, "min", high);
    if (any)
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    for (int i = 0; i < 2; i++)
        if (sl_onnx_lower_has(l, 1 + i) && !sl_onnx_lower_maybe(l, 1 + i)) {
            int in[2] = {x, -1};
            SL_TRY(sl_onnx_lower_float(l, 1 + i, &in[1]));
            SL_TRY(sl_onnx_emit_plain(l, ops[i], 2, in, &x));
        }
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_where(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int in[3], y;
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 3, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 1)->type);
    return SL_OK;
}

sl_err sl_onnx_map_arg(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int x;
    bool last = sl_proto_attr_int(l->node, "select_last_index", 0) != 0;
    int axis;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, x);
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", 0), shape->rank, &axis));
    int64_t size = shape->dim[axis];
    if (last) { /* of equal elements the first counts, so the axis is flipped */
        SL_TRY(sl_onnx_emit_open(l, &e, "flip"));
        sl_onnx_emit_ints(&e, "axes", 1, (int64_t[]){axis});
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    }
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", axis);
    sl_onnx_emit_int(&e, "keep", sl_proto_attr_int(l->node, "keepdims", 1) != 0);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    if (last) {
        SL_TRY(sl_onnx_emit_plain(l, "to_float", 1, &x, &x));
        SL_TRY(sl_onnx_emit_scale(l, x, -1, &x));
        SL_TRY(sl_onnx_emit_by(l, "offset", x, (double)(size - 1), &x));
        SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &x, &x));
    }
    sl_onnx_lower_out(l, 0, x, SL_ONNX_INT64);
    return SL_OK;
}

sl_err sl_onnx_map_cumsum(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    double axis;
    int x;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_lower_number(l, 1, &axis));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", (int64_t)axis);
    sl_onnx_emit_int(&e, "exclusive", sl_proto_attr_int(l->node, "exclusive", 0) != 0);
    sl_onnx_emit_int(&e, "reverse", sl_proto_attr_int(l->node, "reverse", 0) != 0);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_topk(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    double k;
    int x, y;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_lower_number(l, 1, &k));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "k", (int64_t)k);
    sl_onnx_emit_int(&e, "axis", sl_proto_attr_int(l->node, "axis", -1));
    sl_onnx_emit_int(&e, "largest", sl_proto_attr_int(l->node, "largest", 1) != 0);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    sl_onnx_lower_out(l, 1, y + 1, SL_ONNX_INT64);
    return SL_OK;
}

sl_err sl_onnx_map_gather_elements(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[2], y;
    SL_TRY(sl_onnx_lower_float(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", sl_proto_attr_int(l->node, "axis", 0));
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Scatter that replaces. ONNX does not say which of several elements for one place counts, so they
 * may be added: to zeros, which replace x where an element arrived. */
static sl_err replace_at(struct sl_onnx_lower *l, struct sl_onnx_emit *add, int in[3], int *out) {
    int zero, zeros, one, ones, placed, hits;
    struct sl_shape x = *sl_onnx_lower_shape(l, in[0]), src = *sl_onnx_lower_shape(l, in[2]);
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &zero));
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 1, &one));
    SL_TRY(sl_onnx_emit_broadcast(l, zero, &x, &zeros));
    SL_TRY(sl_onnx_emit_broadcast(l, one, &src, &ones));
    SL_TRY(sl_onnx_emit(l, add, 3, (int[]){zeros, in[1], in[2]}, &placed));
    SL_TRY(sl_onnx_emit(l, add, 3, (int[]){zeros, in[1], ones}, &hits));
    SL_TRY(sl_onnx_emit_plain(l, "greater", 2, (int[]){hits, zero}, &hits));
    return sl_onnx_emit_plain(l, "where", 3, (int[]){hits, placed, in[0]}, out);
}

sl_err sl_onnx_map_scatter(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[3], y;
    bool replaces = sl_proto_attr_is(l->node, "reduction", "none", true);
    if (!replaces && !sl_proto_attr_is(l->node, "reduction", "add", false))
        return sl_onnx_lower_refuse(l, "only the reductions 'add' and 'none' are supported");
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "axis", sl_proto_attr_int(l->node, "axis", 0));
    if (replaces)
        SL_TRY(replace_at(l, &e, in, &y));
    else
        SL_TRY(sl_onnx_emit(l, &e, 3, in, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* OneHot: makes [..., size] with the new axis last, then moves that axis. */
sl_err sl_onnx_map_one_hot(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *values;
    struct sl_onnx_emit e;
    double size;
    int x, axis, perm[SL_MAX_RANK];
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_number(l, 1, &size));
    SL_TRY(sl_onnx_lower_konst(l, 2, &values));
    if (!values || values->count != 2 || sl_onnx_konst_has_batch(values))
        return sl_onnx_lower_refuse(l, "the two values must be constants");
    if (!sl_onnx_lower_is_int(l, x))
        SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &x, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_int(&e, "size", (int64_t)size);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    double off = sl_onnx_konst_number(values, 0), on = sl_onnx_konst_number(values, 1);
    SL_TRY(sl_onnx_emit_scale(l, x, on - off, &x));
    if (off != 0)
        SL_TRY(sl_onnx_emit_by(l, "offset", x, off, &x));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", -1), rank, &axis));
    for (int i = 0; i < rank; i++)
        perm[i] = i < axis ? i : i == axis ? rank - 1 : i - 1;
    SL_TRY(sl_onnx_emit_transpose(l, x, perm, &x));
    sl_onnx_lower_out(l, 0, x, values->type);
    return SL_OK;
}

/* Reads the margins of every axis from a list for some axes. */
static sl_err margins(struct sl_onnx_lower *l, int rank, int64_t before[], int64_t after[]) {
    const struct sl_onnx_konst *pads, *axes;
    SL_TRY(sl_onnx_lower_konst(l, 1, &pads));
    SL_TRY(sl_onnx_lower_konst(l, 3, &axes));
    int64_t count = axes ? axes->count : rank;
    if (!pads || pads->count != 2 * count)
        return sl_onnx_lower_refuse(l, "'pads' must have two numbers per axis");
    for (int64_t i = 0; i < count; i++) {
        int64_t axis = i;
        int at;
        if (axes)
            SL_TRY(sl_onnx_konst_int(axes, i, &axis));
        SL_TRY(sl_onnx_lower_axis(l, axis, rank, &at));
        SL_TRY(sl_onnx_konst_int(pads, i, &before[at]));
        SL_TRY(sl_onnx_konst_int(pads, count + i, &after[at]));
    }
    return SL_OK;
}

sl_err sl_onnx_map_pad(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    struct sl_onnx_emit e;
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    double value = 0;
    int x;
    const char *mode = sl_proto_attr(l->node, "mode") ? NULL : "constant";
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    SL_TRY(margins(l, rank, before, after));
    if (sl_onnx_lower_has(l, 2))
        SL_TRY(sl_onnx_lower_number(l, 2, &value));
    for (int i = 0; i < SL_COUNT(modes); i++)
        if (sl_proto_attr_is(l->node, "mode", modes[i], false))
            mode = modes[i];
    if (!mode)
        return sl_onnx_lower_refuse(l, "this mode; constant, reflect and edge are supported");
    for (int i = 0; i < rank; i++) { /* negative margins cut */
        int64_t from = before[i] < 0 ? -before[i] : 0, cut = after[i] < 0 ? -after[i] : 0;
        if (from || cut)
            SL_TRY(sl_onnx_emit_slice(l, x, i, from, sl_onnx_lower_shape(l, x)->dim[i] - cut, &x));
        before[i] = before[i] < 0 ? 0 : before[i];
        after[i] = after[i] < 0 ? 0 : after[i];
    }
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "before", rank, before);
    sl_onnx_emit_ints(&e, "after", rank, after);
    sl_onnx_emit_choice(&e, "mode", mode);
    sl_onnx_emit_float(&e, "value", value);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Makes B copies along the first axis: [n,...] to [n B,...]. */
static sl_err tile_batch(struct sl_onnx_lower *l, int *x) {
    struct sl_shape shape = *sl_onnx_lower_shape(l, *x), wide = {.rank = shape.rank + 1};
    if (shape.batch || wide.rank > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "repeating the batch");
    sl_graph_shape_set(&wide, 0, (struct sl_dim){1, false});
    for (int i = 0; i < shape.rank; i++)
        sl_graph_shape_set(&wide, i + 1, sl_graph_shape_dim(&shape, i));
    SL_TRY(sl_onnx_emit_reshape(l, *x, &wide, x));
    sl_graph_shape_set(&wide, 0, (struct sl_dim){1, true});
    SL_TRY(sl_onnx_emit_broadcast(l, *x, &wide, x));
    sl_graph_shape_set(&shape, 0, (struct sl_dim){shape.dim[0], true});
    return sl_onnx_emit_reshape(l, *x, &shape, x);
}

sl_err sl_onnx_map_tile(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *repeats;
    struct sl_onnx_emit e;
    int x, in[SL_MAX_IN];
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &repeats));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    if (!repeats || repeats->count != rank)
        return sl_onnx_lower_refuse(l, "one number of repetitions per axis is needed");
    for (int i = 0; i < rank; i++) {
        int64_t count;
        if (i == 0 && repeats->i && repeats->i[0].batch && repeats->i[0].n == 1) {
            SL_TRY(tile_batch(l, &x));
            continue;
        }
        SL_TRY(sl_onnx_konst_int(repeats, i, &count));
        if (count < 1 || count > SL_MAX_IN)
            return sl_onnx_lower_refuse(l, "%lld repetitions; 1 to %d are supported",
                                        (long long)count, SL_MAX_IN);
        if (count == 1)
            continue;
        for (int k = 0; k < count; k++)
            in[k] = x;
        SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
        sl_onnx_emit_int(&e, "axis", i);
        SL_TRY(sl_onnx_emit(l, &e, (int)count, in, &x));
    }
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Moves blocks of pixels to channels or back: [B,C,H,W] as six axes. */
sl_err sl_onnx_map_depth(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const int dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3},
                     back[] = {0, 3, 5, 1, 2, 4}, back_crd[] = {0, 1, 3, 5, 2, 4};
    int64_t b = sl_proto_attr_int(l->node, "blocksize", 0);
    int x;
    bool to_space = strcmp(row->op, "DepthToSpace") == 0;
    bool by_column = sl_proto_attr_is(l->node, "mode", "CRD", false);
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape in = *sl_onnx_lower_shape(l, x), wide = in, out = in;
    if (in.rank != 4 || (in.batch & ~1u) || b < 1 || b > 1 << 15 ||
        (to_space ? in.dim[1] % (b * b) : in.dim[2] % b || in.dim[3] % b))
        return sl_onnx_lower_refuse(l, "blocks of %lld do not divide the image", (long long)b);
    int64_t c = in.dim[1] / (b * b),
            sizes[2][5] = {{b, b, c, in.dim[2], in.dim[3]},
                           {in.dim[1], in.dim[2] / b, b, in.dim[3] / b, b}};
    if (by_column) {
        sizes[0][0] = c;
        sizes[0][2] = b;
    }
    wide.rank = 6;
    memcpy(wide.dim + 1, sizes[!to_space], sizeof sizes[0]);
    out.dim[1] = to_space ? c : in.dim[1] * b * b;
    out.dim[2] = to_space ? in.dim[2] * b : in.dim[2] / b;
    out.dim[3] = to_space ? in.dim[3] * b : in.dim[3] / b;
    SL_TRY(sl_onnx_emit_reshape(l, x, &wide, &x));
    SL_TRY(sl_onnx_emit_transpose(l, x,
                                  !to_space   ? (by_column ? back_crd : back)
                                  : by_column ? crd
                                              : dcr,
                                  &x));
    SL_TRY(sl_onnx_emit_reshape(l, x, &out, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Trilu: the triangle is a constant mask of the last two axes. */
sl_err sl_onnx_map_trilu(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_konst *mask;
    double k = 0;
    int in[3];
    SL_TRY(sl_onnx_lower_in(l, 0, &in[1]));
    if (sl_onnx_lower_has(l, 1))
        SL_TRY(sl_onnx_lower_number(l, 1, &k));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, in[1]);
    if (shape->rank < 2 || (shape->batch >> (shape->rank - 2)))
        return sl_onnx_lower_refuse(l, "a matrix is needed");
    const int64_t dim[2] = {shape->dim[shape->rank - 2], shape->dim[shape->rank - 1]};
    bool upper = sl_proto_attr_int(l->node, "upper", 1) != 0;
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_BOOL, 2, dim, &mask));
    for (int64_t i = 0; i < mask->count; i++) {
        int64_t above = i % dim[1] - i / dim[1];
        mask->i[i].n = upper ? (double)above >= k : (double)above <= k;
    }
    struct sl_onnx_val val = {.name = "triangle", .kind = SL_ONNX_KONST, .konst = mask, .id = -1};
    SL_TRY(sl_onnx_lower_id(l, &val, &in[0]));
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &in[2]));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 3, in, &in[0]));
    sl_onnx_lower_out(l, 0, in[0], SL_ONNX_FLOAT);
    return SL_OK;
}
