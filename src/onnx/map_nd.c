/* Lowers look-ups with several indices per place, and lists of tensors. */
#include "onnx/map.h"

/* How x is seen: the first axis separately if the sample number indexes it, then the indexed axes
 * as one, then the rest. */
struct places {
    bool by_sample;
    int64_t parts, count; /* parts: number of indexed axes; count: number of places */
    int64_t *rows; /* [count] rows of the indexed axes, without the first axis if by_sample */
};

/* Turns every place into one number. SL_ERR_REFUSED if the indices are not constants of this
 * form. */
static sl_err read_places(struct sl_onnx_lower *l, const struct sl_shape *x,
                          const struct sl_onnx_konst *index, struct places *out) {
    struct places p = {.parts = index->rank ? index->dim[index->rank - 1] : 0};
    if (p.parts < 1 || p.parts > x->rank)
        return sl_onnx_lower_refuse(l, "%lld indices for %d axes", (long long)p.parts, x->rank);
    p.by_sample = index->count && sl_onnx_konst_per_sample(index, 0) == 1;
    p.count = index->count / p.parts;
    if (p.by_sample ? x->batch != 1 || index->stretch != 1
                    : (x->batch & ((1u << p.parts) - 1)) != 0)
        return sl_onnx_lower_refuse(l, "these indices of the axis of the batch");
    p.rows = SL_NEW(l->arena, int64_t, p.count + 1);
    for (int64_t i = 0; i < index->count; i++) {
        int64_t axis = i % p.parts, at;
        bool sample = sl_onnx_konst_per_sample(index, i) == 1;
        if (sample != (p.by_sample && axis == 0))
            return sl_onnx_lower_refuse(l, "these indices of the axis of the batch");
        if (sample)
            continue;
        SL_TRY(sl_onnx_konst_int(index, i, &at));
        at += at < 0 ? x->dim[axis] : 0;
        if (at < 0 || at >= x->dim[axis])
            return sl_onnx_lower_refuse(l, "index %lld of an axis of size %lld", (long long)at,
                                        (long long)x->dim[axis]);
        p.rows[i / p.parts] = p.rows[i / p.parts] * x->dim[axis] + at;
    }
    *out = p;
    return SL_OK;
}

/* Returns the shape of x as [B,] indexed axes, rest: see struct places. */
static struct sl_shape folded_shape(const struct sl_shape *x, const struct places *p) {
    struct sl_shape out = {0};
    if (p->by_sample)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(x, 0));
    sl_graph_shape_set(&out, out.rank++,
                       sl_graph_shape_product(x, p->by_sample ? 1 : 0, (int)p->parts));
    sl_graph_shape_set(&out, out.rank++, sl_graph_shape_product(x, (int)p->parts, x->rank));
    return out;
}

/* Emits x[b, i[b, ...]] with computed i: a product with the rows of one_hot(i). */
static sl_err gather_by_sample(struct sl_onnx_lower *l, int x, int index) {
    struct sl_onnx_emit e;
    struct sl_shape shape = *sl_onnx_lower_shape(l, x), places = *sl_onnx_lower_shape(l, index);
    struct sl_shape wide = {.rank = 3}, out = {0};
    if (shape.batch != 1 || places.batch != 1 || shape.dim[0] != 1 || places.dim[0] != 1)
        return sl_onnx_lower_refuse(l, "these indices of the axis of the batch");
    struct sl_dim count = sl_graph_shape_product(&places, 1, places.rank);
    sl_graph_shape_set(&wide, 0, sl_graph_shape_dim(&shape, 0));
    sl_graph_shape_set(&wide, 1, count);
    wide.rank = 2;
    SL_TRY(sl_onnx_emit_reshape(l, index, &wide, &index));
    SL_TRY(sl_onnx_emit_open(l, &e, "one_hot"));
    sl_onnx_emit_int(&e, "size", shape.dim[1]);
    SL_TRY(sl_onnx_emit(l, &e, 1, &index, &index));
    wide.rank = 3;
    sl_graph_shape_set(&wide, 1, sl_graph_shape_dim(&shape, 1));
    sl_graph_shape_set(&wide, 2, sl_graph_shape_product(&shape, 2, shape.rank));
    SL_TRY(sl_onnx_emit_reshape(l, x, &wide, &x));
    SL_TRY(sl_onnx_emit_plain(l, "matmul", 2, (int[]){index, x}, &x));
    for (int i = 0; i < places.rank - 1; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&places, i));
    for (int i = 2; i < shape.rank; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&shape, i));
    SL_TRY(sl_onnx_emit_reshape(l, x, &out, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* If the index is a Concat of the sample numbers and a tensor, returns the tensor. */
static struct sl_onnx_val *beside_samples(struct sl_onnx_lower *l,
                                          const struct sl_onnx_val *index) {
    const struct sl_proto_node *node = index->node;
    if (!node || strcmp(node->op, "Concat") != 0 || node->in_count != 2)
        return NULL;
    struct sl_onnx_val *sample = sl_onnx_lower_named(l, node->in[0]);
    struct sl_onnx_val *other = sl_onnx_lower_named(l, node->in[1]);
    bool fits = sample && sample->kind == SL_ONNX_KONST && sample->konst->count == 1 &&
                sl_onnx_konst_per_sample(sample->konst, 0) == 1 && other &&
                other->kind == SL_ONNX_TENSOR;
    return fits ? other : NULL;
}

sl_err sl_onnx_map_gather_nd(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val *index = sl_onnx_lower_val(l, 1);
    struct places p;
    struct sl_shape out = {0};
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    if (sl_proto_attr_int(l->node, "batch_dims", 0))
        return sl_onnx_lower_refuse(l, "'batch_dims' is not supported");
    struct sl_onnx_val *other = index ? beside_samples(l, index) : NULL;
    if (other)
        return gather_by_sample(l, x, other->id);
    if (!index || index->kind != SL_ONNX_KONST)
        return index && index->kind == SL_ONNX_FAILED
                   ? sl_fail(SL_ERR_REFUSED, "%s", index->why)
                   : sl_onnx_lower_refuse(l, "computed indices are not supported");
    SL_TRY(sl_onnx_konst_load(l->arena, l->file, index->konst));
    struct sl_shape shape = *sl_onnx_lower_shape(l, x);
    SL_TRY(read_places(l, &shape, index->konst, &p));
    struct sl_shape folded = folded_shape(&shape, &p);
    SL_TRY(sl_onnx_emit_reshape(l, x, &folded, &x));
    SL_TRY(sl_onnx_emit_rows(l, x, p.by_sample, p.count, p.rows, &x));
    if (index->konst->rank - 1 + shape.rank - p.parts > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "more than %d axes", SL_MAX_RANK);
    for (int i = 0; i < index->konst->rank - 1; i++)
        sl_graph_shape_set(&out, out.rank++, sl_onnx_konst_dim(index->konst, i));
    for (int i = (int)p.parts; i < shape.rank; i++)
        sl_graph_shape_set(&out, out.rank++, sl_graph_shape_dim(&shape, i));
    /* the same rows for all samples: looks them up once, then repeats them */
    struct sl_shape thin = out;
    if (!p.by_sample)
        thin.batch &= ~((1u << (index->konst->rank - 1)) - 1);
    SL_TRY(sl_onnx_emit_reshape(l, x, &thin, &x));
    SL_TRY(sl_onnx_emit_broadcast(l, x, &out, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* ScatterND: joins the rows of x and of the updates, and takes each row of the result from them.
 * The last update of a place counts. */
sl_err sl_onnx_map_scatter_nd(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *index;
    struct sl_onnx_emit e;
    struct places p;
    int x, in[2], updates;
    (void)row;
    if (!sl_proto_attr_is(l->node, "reduction", "none", true))
        return sl_onnx_lower_refuse(l, "only the reduction 'none' is supported");
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &index));
    SL_TRY(sl_onnx_lower_float(l, 2, &updates));
    struct sl_shape shape = *sl_onnx_lower_shape(l, x);
    SL_TRY(read_places(l, &shape, index, &p));
    struct sl_shape folded = folded_shape(&shape, &p), thin = folded;
    int axis = p.by_sample;
    sl_graph_shape_set(&thin, axis, (struct sl_dim){p.count, false});
    SL_TRY(sl_onnx_emit_reshape(l, x, &folded, &in[0]));
    SL_TRY(sl_onnx_emit_reshape(l, updates, &thin, &in[1]));
    SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
    sl_onnx_emit_int(&e, "axis", axis);
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &x));
    int64_t n = folded.dim[axis], *rows = SL_NEW(l->arena, int64_t, n + 1);
    for (int64_t i = 0; i < n; i++)
        rows[i] = i;
    for (int64_t i = 0; i < p.count; i++)
        rows[p.rows[i]] = n + i;
    SL_TRY(sl_onnx_emit_rows(l, x, axis, n, rows, &x));
    SL_TRY(sl_onnx_emit_reshape(l, x, &shape, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* ---- lists of tensors: SplitToSequence, then SequenceAt with a constant position ---- */

static const char *part_name(struct sl_onnx_lower *l, const char *list, int64_t at) {
    return sl_arena_printf(l->arena, "%s[%lld]", list, (long long)at);
}

sl_err sl_onnx_map_split_to_sequence(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *sizes;
    int64_t from = 0, each = 1;
    int x, y, axis;
    (void)row;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_lower_konst(l, 1, &sizes));
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", 0),
                              sl_onnx_lower_shape(l, x)->rank, &axis));
    struct sl_dim all = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), axis);
    if (all.batch || !sizes)
        return sl_onnx_lower_refuse(l, "the axis cannot be divided");
    for (int64_t i = 0; from < all.n; i++) {
        SL_TRY(sl_onnx_konst_int(sizes, sizes->rank ? i : 0, &each));
        each = each < all.n - from ? each : all.n - from;
        if (each < 1)
            return sl_onnx_lower_refuse(l, "a part without elements");
        SL_TRY(sl_onnx_emit_slice(l, x, axis, from, from + each, &y));
        sl_onnx_lower_add(l, (struct sl_onnx_val){.name = part_name(l, l->node->out[0], i),
                                                  .kind = SL_ONNX_TENSOR,
                                                  .id = y,
                                                  .type = sl_onnx_lower_val(l, 0)->type});
        from += each;
    }
    sl_onnx_lower_add(l,
                      (struct sl_onnx_val){.name = l->node->out[0],
                                           .id = -1,
                                           .node = l->node,
                                           .why = "a list of tensors is read by SequenceAt only"});
    return SL_OK;
}

sl_err sl_onnx_map_sequence_at(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_val *list = sl_onnx_lower_val(l, 0);
    double at;
    (void)row;
    SL_TRY(sl_onnx_lower_number(l, 1, &at));
    struct sl_onnx_val *part =
        list ? sl_onnx_lower_named(l, part_name(l, list->name, (int64_t)at)) : NULL;
    if (!part)
        return list && list->kind == SL_ONNX_FAILED && list->why
                   ? sl_fail(SL_ERR_REFUSED, "%s", list->why)
                   : sl_onnx_lower_refuse(l, "the list has no element %g", at);
    sl_onnx_lower_out(l, 0, part->id, part->type);
    return SL_OK;
}
