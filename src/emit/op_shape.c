/* Exports ops that move elements: shapes, slices, margins, indices. */
#include "emit/ops.h"

void sl_emit_op_reshape(struct sl_emit *o, const char *onnx) {
    (void)onnx;
    sl_emit_set(o, 0, sl_emit_put_shaped(o, sl_emit_in(o, 0), sl_emit_result(o, 0)));
}

void sl_emit_op_transpose(struct sl_emit *o, const char *onnx) {
    const struct sl_ints *perm = &sl_emit_attr(o, "perm")->ints;
    (void)onnx;
    sl_emit_set(o, 0, sl_emit_put_turned(o, sl_emit_in(o, 0), perm->count, perm->at));
}

void sl_emit_op_concat(struct sl_emit *o, const char *onnx) {
    sl_emit_with_int(o, "axis", sl_emit_attr(o, "axis")->i);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_split(struct sl_emit *o, const char *onnx) {
    int64_t axis = sl_emit_attr(o, "axis")->i, size[SL_MAX_OUT];
    const char *out[SL_MAX_OUT] = {NULL};
    int count = o->node->out_count;
    for (int i = 0; i < count; i++)
        size[i] = sl_emit_result(o, i)->dim[axis];
    const char *in[2] = {sl_emit_in(o, 0), sl_emit_put_ints(o, count, size)};
    sl_emit_with_int(o, "axis", axis);
    sl_emit_put_many(o, onnx, (struct sl_emit_names){2, in}, (struct sl_emit_names){count, out});
    for (int i = 0; i < count; i++)
        sl_emit_set(o, i, out[i]);
}

void sl_emit_op_slice(struct sl_emit *o, const char *onnx) {
    (void)onnx;
    sl_emit_set(o, 0,
                sl_emit_put_slice(o, sl_emit_in(o, 0), sl_emit_attr(o, "axis")->i,
                                  sl_emit_attr(o, "from")->i, sl_emit_attr(o, "to")->i));
}

void sl_emit_op_broadcast(struct sl_emit *o, const char *onnx) {
    (void)onnx;
    sl_emit_set(o, 0,
                sl_emit_put_wide(o, sl_emit_in(o, 0), sl_emit_shape(o, 0), sl_emit_result(o, 0)));
}

/* Sums over the axes that the result lacks or has with size 1. */
void sl_emit_op_sum_to(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *x = sl_emit_shape(o, 0), *y = sl_emit_result(o, 0);
    struct sl_ints axes = {0};
    for (int i = 0; i < x->rank; i++) {
        int at = i - (x->rank - y->rank);
        if (at < 0 || !sl_graph_dim_equal(sl_graph_shape_dim(x, i), sl_graph_shape_dim(y, at)))
            axes.at[axes.count++] = i;
    }
    const char *sum = sl_emit_in(o, 0);
    if (axes.count)
        sum = sl_emit_put_reduce(o, onnx, sum, &axes, true);
    sl_emit_set(o, 0, sl_emit_put_shaped(o, sum, y));
}

void sl_emit_op_pad(struct sl_emit *o, const char *onnx) {
    static const char *const modes[] = {"constant", "reflect", "edge"};
    int64_t mode = sl_emit_attr(o, "mode")->i, pads[2 * SL_MAX_RANK];
    int rank = sl_emit_shape(o, 0)->rank;
    for (int i = 0; i < rank; i++) {
        pads[i] = sl_emit_attr(o, "before")->ints.at[i];
        pads[rank + i] = sl_emit_attr(o, "after")->ints.at[i];
    }
    const char *amounts = sl_emit_put_ints(o, 2 * rank, pads);
    const char *value = mode ? "" : sl_emit_put_number(o, sl_emit_attr(o, "value")->f);
    sl_emit_with_text(o, "mode", modes[mode]);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), amounts, value));
}

/* For each axis, puts its end first. */
void sl_emit_op_roll(struct sl_emit *o, const char *onnx) {
    const struct sl_ints *shift = &sl_emit_attr(o, "shift")->ints;
    const struct sl_ints *axes = &sl_emit_attr(o, "axes")->ints;
    const char *y = sl_emit_in(o, 0);
    (void)onnx;
    for (int i = 0; i < axes->count; i++) {
        int64_t axis = axes->at[i], size = sl_emit_shape(o, 0)->dim[axis];
        if (!shift->at[i])
            continue;
        const char *last = sl_emit_put_slice(o, y, axis, size - shift->at[i], size);
        const char *first = sl_emit_put_slice(o, y, axis, 0, size - shift->at[i]);
        sl_emit_with_int(o, "axis", axis);
        y = SL_EMIT_PUT(o, "Concat", last, first);
    }
    sl_emit_set(o, 0, y);
}

void sl_emit_op_flip(struct sl_emit *o, const char *onnx) {
    const struct sl_ints *axes = &sl_emit_attr(o, "axes")->ints;
    int64_t from[SL_MAX_RANK], to[SL_MAX_RANK], step[SL_MAX_RANK];
    for (int i = 0; i < axes->count; i++) {
        from[i] = step[i] = -1;
        to[i] = INT64_MIN;
    }
    const char *list[4] = {
        sl_emit_put_ints(o, axes->count, from), sl_emit_put_ints(o, axes->count, to),
        sl_emit_put_ints(o, axes->count, axes->at), sl_emit_put_ints(o, axes->count, step)};
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), list[0], list[1], list[2], list[3]));
}

/* ---- by index ---- */

void sl_emit_op_gather(struct sl_emit *o, const char *onnx) {
    sl_emit_with_int(o, "axis", sl_emit_attr(o, "axis")->i);
    sl_emit_op_same(o, onnx);
}

/* Exports embed and index_select; embed has no axis attribute: it takes rows. */
void sl_emit_op_rows(struct sl_emit *o, const char *onnx) {
    int axis = sl_graph_op_find_attr(o->node->op, SL_STR("axis"));
    sl_emit_with_int(o, "axis", axis < 0 ? 0 : o->node->attr[axis].i);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_embed_bag(struct sl_emit *o, const char *onnx) {
    static const char *const modes[] = {"ReduceSum", "ReduceMean", NULL};
    const char *sum = modes[sl_emit_attr(o, "mode")->i];
    sl_emit_with_int(o, "axis", 0);
    const char *rows = SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), sl_emit_in(o, 1));
    const struct sl_ints bag = {.count = 1, .at = {sl_emit_shape(o, 1)->rank - 1}};
    sl_emit_set(o, 0,
                sum ? sl_emit_put_reduce(o, sum, rows, &bag, false)
                    : sl_emit_put_shaped(o, rows, sl_emit_result(o, 0)));
}

void sl_emit_op_scatter(struct sl_emit *o, const char *onnx) {
    sl_emit_with_int(o, "axis", sl_emit_attr(o, "axis")->i);
    sl_emit_with_text(o, "reduction", "add");
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_one_hot(struct sl_emit *o, const char *onnx) {
    const char *size = sl_emit_put_int(o, sl_emit_attr(o, "size")->i);
    const char *values = sl_emit_put_table(o, 1, (int64_t[]){2}, (float[]){0, 1});
    sl_emit_with_int(o, "axis", -1);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), size, values));
}
