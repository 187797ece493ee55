/* Exports mixtures of experts. ONNX has no product of ragged groups: every expert computes all
 * rows, and each row keeps the result of its expert. The values equal those of training, but with
 * more work. */
#include "emit/ops.h"

#include <math.h>

static struct sl_dim choices_of(const struct sl_shape *indices) {
    return sl_graph_shape_product(indices, 0, indices->rank);
}

static const char *put_flat(struct sl_emit *o, const char *x) {
    return SL_EMIT_PUT(o, "Reshape", x, sl_emit_put_int(o, -1));
}

/* Returns [choices, experts]: 1 in the column of the chosen expert. */
static const char *put_chosen(struct sl_emit *o, const char *flat, const char *values) {
    const char *experts = sl_emit_put_int(o, sl_emit_attr(o, "experts")->i);
    sl_emit_with_int(o, "axis", -1);
    return SL_EMIT_PUT(o, "OneHot", flat, experts, values);
}

/* Returns the number of rows of an expert as int64 [1]; only with a capacity. */
static const char *put_room(struct sl_emit *o, const struct sl_shape *indices) {
    struct sl_dim all = choices_of(indices);
    all.n = (int64_t)ceil(sl_emit_attr(o, "capacity")->f * (double)all.n /
                          (double)sl_emit_attr(o, "experts")->i);
    return sl_emit_put_size(o, all);
}

void sl_emit_op_slots(struct sl_emit *o, const char *onnx) {
    const struct sl_ints columns = {.count = 1, .at = {1}}, rows = {.count = 1, .at = {0}};
    const struct sl_shape *indices = sl_emit_shape(o, 0);
    int64_t experts = sl_emit_attr(o, "experts")->i;
    bool bounded = sl_emit_attr(o, "capacity")->f > 0;
    const char *flat = put_flat(o, sl_emit_in(o, 0)), *axis = sl_emit_put_int(o, 0);
    const char *one = put_chosen(o, flat, sl_emit_put_ints(o, 2, (int64_t[]){0, 1})), *first;
    const char *count = sl_emit_put_reduce(o, "ReduceSum", one, &rows, false), *room = NULL;
    (void)onnx;
    sl_emit_with_int(o, "exclusive", 1);
    const char *before = SL_EMIT_PUT(o, "CumSum", one, axis);
    const char *rank =
        sl_emit_put_reduce(o, "ReduceSum", SL_EMIT_PUT(o, "Mul", before, one), &columns, false);
    if (bounded) {
        int64_t number[1 << 12];
        if (experts > SL_COUNT(number)) {
            sl_emit_refuse(o, "more than %d experts with a capacity", SL_COUNT(number));
            return;
        }
        for (int64_t i = 0; i < experts; i++)
            number[i] = i;
        room = put_room(o, indices);
        first = SL_EMIT_PUT(o, "Mul", sl_emit_put_ints(o, (int)experts, number), room);
        count = SL_EMIT_PUT(o, "Min", count, room);
    } else {
        sl_emit_with_int(o, "exclusive", 1);
        first = SL_EMIT_PUT(o, "CumSum", count, axis);
    }
    sl_emit_with_int(o, "axis", 0);
    const char *slot = SL_EMIT_PUT(o, "Gather", first, flat);
    slot = SL_EMIT_PUT(o, "Add", slot, rank);
    if (bounded)
        slot = SL_EMIT_PUT(o, "Where", SL_EMIT_PUT(o, "Less", rank, room), slot,
                           sl_emit_put_int(o, -1));
    sl_emit_set(o, 0, sl_emit_put_shaped(o, slot, indices));
    const char *last = SL_EMIT_PUT(o, "Add", first, count), *unit = sl_emit_put_int(o, 1);
    first = SL_EMIT_PUT(o, "Unsqueeze", first, unit);
    last = SL_EMIT_PUT(o, "Unsqueeze", last, unit);
    sl_emit_with_int(o, "axis", 1);
    sl_emit_set(o, 1, SL_EMIT_PUT(o, "Concat", first, last));
}

/* Returns the weight of every choice as a column, 0 for choices without a row; or "". */
static const char *put_weights(struct sl_emit *o, const char *absent) {
    const char *zero = sl_emit_put_number(o, 0), *weight = sl_emit_put_number(o, 1);
    if (sl_emit_has(o, 2))
        weight = sl_emit_in(o, 2);
    weight = SL_EMIT_PUT(o, "Where", absent, zero, weight);
    return SL_EMIT_PUT(o, "Unsqueeze", weight, sl_emit_put_int(o, -1));
}

/* Rows without a token are 0; a choice without a row goes to an additional row, which is
 * dropped. */
void sl_emit_op_dispatch(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *rows = sl_emit_result(o, 0);
    const char *slots = sl_emit_in(o, 1), *zero = sl_emit_put_int(o, 0);
    const char *absent = SL_EMIT_PUT(o, "Less", slots, zero), *last = sl_emit_put_int(o, -1);
    const char *each = SL_EMIT_PUT(o, "Unsqueeze", sl_emit_in(o, 0), sl_emit_put_int(o, -2));
    const char *token = SL_EMIT_PUT(o, "Mul", each, put_weights(o, absent)); /* [...,k,C] */
    const int64_t flat[2] = {-1, rows->dim[1]};
    (void)onnx;
    token = SL_EMIT_PUT(o, "Reshape", token, sl_emit_put_ints(o, 2, flat));
    const char *count = sl_emit_put_size(o, sl_graph_shape_dim(rows, 0));
    const char *more = SL_EMIT_PUT(o, "Add", count, sl_emit_put_int(o, 1));
    const char *width = sl_emit_put_int(o, rows->dim[1]);
    sl_emit_with_int(o, "axis", 0);
    const char *shape = SL_EMIT_PUT(o, "Concat", more, width);
    const char *empty = SL_EMIT_PUT(o, "Expand", sl_emit_put_number(o, 0), shape);
    const char *place = put_flat(o, SL_EMIT_PUT(o, "Where", absent, count, slots));
    place = SL_EMIT_PUT(o, "Unsqueeze", place, last);
    const char *all = SL_EMIT_PUT(o, "ScatterND", empty, place, token);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "Slice", all, zero, count, zero));
}

void sl_emit_op_combine(struct sl_emit *o, const char *onnx) {
    const struct sl_ints choices = {.count = 1, .at = {-2}};
    const char *slots = sl_emit_in(o, 1), *zero = sl_emit_put_int(o, 0);
    const char *absent = SL_EMIT_PUT(o, "Less", slots, zero);
    const char *weights = put_weights(o, absent), *place = SL_EMIT_PUT(o, "Max", slots, zero);
    (void)onnx;
    sl_emit_with_int(o, "axis", 0);
    const char *rows = SL_EMIT_PUT(o, "Gather", sl_emit_in(o, 0), place);
    rows = SL_EMIT_PUT(o, "Mul", rows, weights);
    sl_emit_set(o, 0, sl_emit_put_reduce(o, "ReduceSum", rows, &choices, false));
}

void sl_emit_op_grouped(struct sl_emit *o, const char *onnx) {
    const struct sl_ints experts = {.count = 1, .at = {0}};
    const char *zero = sl_emit_put_int(o, 0), *one = sl_emit_put_int(o, 1);
    const char *w = sl_emit_in(o, 1);
    (void)onnx;
    if (sl_emit_attr(o, "tb")->i)
        w = sl_emit_put_turned(o, w, 3, (int64_t[]){0, 2, 1});
    const char *x = SL_EMIT_PUT(o, "Unsqueeze", sl_emit_in(o, 0), zero);
    const char *all = SL_EMIT_PUT(o, "MatMul", x, w); /* [E,R,N] */
    const char *size = sl_emit_put_size(o, sl_graph_shape_dim(sl_emit_result(o, 0), 0));
    const char *ones = SL_EMIT_PUT(o, "Expand", one, size);
    sl_emit_with_int(o, "exclusive", 1);
    const char *row = SL_EMIT_PUT(o, "CumSum", ones, zero); /* 0, 1, 2, ... */
    const char *ranges = sl_emit_in(o, 2);
    const char *from = sl_emit_put_slice(o, ranges, 1, 0, 1);
    const char *to = sl_emit_put_slice(o, ranges, 1, 1, 2);
    const char *after = SL_EMIT_PUT(o, "GreaterOrEqual", row, from); /* [E,R] */
    const char *before = SL_EMIT_PUT(o, "Less", row, to);
    const char *own = SL_EMIT_PUT(o, "And", after, before);
    own = SL_EMIT_PUT(o, "Unsqueeze", own, sl_emit_put_int(o, 2));
    all = SL_EMIT_PUT(o, "Where", own, all, sl_emit_put_number(o, 0));
    sl_emit_set(o, 0, sl_emit_put_reduce(o, "ReduceSum", all, &experts, false));
}

void sl_emit_op_load(struct sl_emit *o, const char *onnx) {
    const struct sl_ints rows = {.count = 1, .at = {0}};
    const char *values = sl_emit_put_table(o, 1, (int64_t[]){2}, (float[]){0, 1});
    const char *one = put_chosen(o, put_flat(o, sl_emit_in(o, 0)), values);
    (void)onnx;
    sl_emit_set(o, 0, sl_emit_put_reduce(o, "ReduceMean", one, &rows, false));
}
