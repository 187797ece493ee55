/* The rules of ops. */
#include "shard/rules.h"

#include <string.h>

bool sl_shard_divides(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                      int shards) {
    return layout->axis >= 0 && layout->axis < shape->rank && !(shape->batch >> layout->axis & 1) &&
           layout->parts > 0 && shape->dim[layout->axis] % ((int64_t)layout->parts * shards) == 0;
}

struct sl_shape sl_shard_shape(const struct sl_shape *shape, const struct sl_shard_layout *layout,
                               int shards) {
    struct sl_shape part = *shape;
    if (layout->divided)
        part.dim[layout->axis] /= shards;
    return part;
}

static const struct sl_shape *shape_in(const struct sl_shard_query *q, int i) {
    return &sl_graph_value(q->graph, q->node->in[i])->shape;
}

static const struct sl_shape *shape_out(const struct sl_shard_query *q, int i) {
    return &sl_graph_value(q->graph, q->node->out[i])->shape;
}

static bool has_in(const struct sl_shard_query *q, int i) {
    return i < q->node->in_count && q->node->in[i] >= 0;
}

static bool any_divided(const struct sl_shard_query *q) {
    bool any = false;
    for (int i = 0; i < q->node->in_count; i++)
        any |= q->in[i].divided;
    for (int i = 0; i < q->node->out_count; i++)
        any |= q->out[i].divided;
    return any;
}

static bool same(const struct sl_shard_layout *a, const struct sl_shard_layout *b) {
    return a->divided == b->divided &&
           (!a->divided || (a->axis == b->axis && a->parts == b->parts));
}

/* Gives the operand this layout; false if it has another one. */
static bool give(struct sl_shard_layout *at, int axis, int parts) {
    const struct sl_shard_layout want = {true, axis, parts};
    if (!at->divided)
        *at = want;
    return same(at, &want);
}

/* ---- elementwise ---- */

/* Finds the divided axis, counted from the last one, so that operands of different ranks align. */
static bool find_axis(const struct sl_shard_query *q, int *back, int *parts) {
    const struct sl_shard_layout *first = NULL;
    int rank = 0;
    for (int i = 0; i < q->node->in_count && !first; i++)
        if (q->in[i].divided) {
            first = &q->in[i];
            rank = shape_in(q, i)->rank;
        }
    if (!first && q->out[0].divided) {
        first = &q->out[0];
        rank = shape_out(q, 0)->rank;
    }
    if (!first)
        return false;
    *back = rank - first->axis;
    *parts = first->parts;
    return true;
}

static bool rule_each(struct sl_shard_query *q) {
    int back = 0, parts = 0, rank = shape_out(q, 0)->rank;
    if (!find_axis(q, &back, &parts) || back > rank || !give(&q->out[0], rank - back, parts))
        return false;
    int64_t size = shape_out(q, 0)->dim[rank - back];
    for (int i = 0; i < q->node->in_count; i++) {
        if (!has_in(q, i))
            continue;
        const struct sl_shape *shape = shape_in(q, i);
        int axis = shape->rank - back;
        /* the operand is broadcast along the axis */
        bool whole = axis < 0 || shape->dim[axis] != size;
        if (whole ? q->in[i].divided : !give(&q->in[i], axis, parts))
            return false;
    }
    return true;
}

/* Divides the first `inputs` inputs and all outputs along the same axis, counted from the first;
 * other inputs stay whole. */
static bool by_axis(struct sl_shard_query *q, int inputs, int axis, int parts) {
    for (int i = 0; i < q->node->in_count; i++)
        if (has_in(q, i) && (i < inputs ? !give(&q->in[i], axis, parts) : q->in[i].divided))
            return false;
    return give(&q->out[0], axis, parts);
}

static bool rule_rows(struct sl_shard_query *q) {
    const struct sl_shard_layout from = q->in[0].divided ? q->in[0] : q->out[0];
    if (!from.divided || from.axis >= shape_in(q, 0)->rank - 1 ||
        !by_axis(q, 1, from.axis, from.parts))
        return false;
    for (int i = 1; i < q->node->out_count; i++)
        if (!give(&q->out[i], from.axis, from.parts))
            return false;
    return true;
}

/* Divides operands [B,T,H,D] by heads; the log of sums of attention is [B,H,T]. */
static bool rule_heads(struct sl_shard_query *q) {
    enum { HEADS = 2 };
    int inputs = q->node->out_count > 1 ? 3 : 1;
    if (shape_in(q, 0)->rank != 4 || !by_axis(q, inputs, HEADS, 1))
        return false;
    return q->node->out_count < 2 || give(&q->out[1], HEADS - 1, 1);
}

/* ---- products ---- */

/*  columns: y[..., n] from b[k, n] and bias[n]
 *  rows:    a[..., k] and b[k, n] give terms of y; bias is added to their sum */
static bool columns(struct sl_shard_query *q, int parts) {
    bool tb = q->node->attr[1].i;
    if (q->in[0].divided || !give(&q->in[1], tb ? 0 : 1, parts) ||
        (has_in(q, 2) && !give(&q->in[2], 0, parts)))
        return false;
    return give(&q->out[0], shape_out(q, 0)->rank - 1, parts);
}

static bool rows(struct sl_shard_query *q, int parts) {
    bool tb = q->node->attr[1].i;
    q->sums = true;
    return !q->out[0].divided && !(has_in(q, 2) && q->in[2].divided) &&
           give(&q->in[0], shape_in(q, 0)->rank - 1, parts) && give(&q->in[1], tb ? 1 : 0, parts);
}

/* Products of two activations: each shard computes some of the leading items. */
static bool batched(struct sl_shard_query *q) {
    const struct sl_shard_layout from = q->in[0].divided   ? q->in[0]
                                        : q->in[1].divided ? q->in[1]
                                                           : q->out[0];
    if (from.axis >= shape_out(q, 0)->rank - 2 || has_in(q, 2))
        return false;
    return give(&q->in[0], from.axis, from.parts) && give(&q->in[1], from.axis, from.parts) &&
           give(&q->out[0], from.axis, from.parts);
}

static bool rule_product(struct sl_shard_query *q) {
    bool ta = q->node->attr[0].i, tb = q->node->attr[1].i;
    const struct sl_shard_layout *a = &q->in[0], *b = &q->in[1], *y = &q->out[0];
    if (shape_in(q, 1)->rank != 2)
        return batched(q);
    if (ta)
        return false;
    if (a->divided)
        return a->axis == shape_in(q, 0)->rank - 1 && rows(q, a->parts);
    if (y->divided)
        return y->axis == shape_out(q, 0)->rank - 1 && columns(q, y->parts);
    if (b->divided)
        return b->axis == (tb ? 0 : 1) ? columns(q, b->parts) : rows(q, b->parts);
    return columns(q, q->in[2].parts);
}

/* ---- shapes ---- */

/* Returns the axis of `to` before which there are as many elements as before `axis` of `from`; -1:
 * none. The following sizes then hold the same elements in the same order. */
static int same_place(const struct sl_shape *from, int axis, const struct sl_shape *to) {
    struct sl_dim before = sl_graph_shape_product(from, 0, axis);
    for (int i = 0; i < to->rank; i++) {
        struct sl_dim passed = sl_graph_shape_product(to, 0, i);
        if (sl_graph_dim_equal(before, passed) && to->dim[i] > 1)
            return i;
    }
    return -1;
}

static bool rule_reshape(struct sl_shard_query *q) {
    bool forward = q->in[0].divided;
    const struct sl_shard_layout from = forward ? q->in[0] : q->out[0];
    const struct sl_shape *x = forward ? shape_in(q, 0) : shape_out(q, 0);
    const struct sl_shape *y = forward ? shape_out(q, 0) : shape_in(q, 0);
    int axis = same_place(x, from.axis, y);
    if (axis < 0 || (from.parts > 1 && x->dim[from.axis] != y->dim[axis]))
        return false;
    return give(forward ? &q->out[0] : &q->in[0], axis, from.parts);
}

static bool rule_transpose(struct sl_shard_query *q) {
    const struct sl_ints *axes = &q->node->attr[0].ints;
    for (int i = 0; i < axes->count; i++) {
        if (q->in[0].divided && axes->at[i] == q->in[0].axis)
            return give(&q->out[0], i, q->in[0].parts);
        if (!q->in[0].divided && i == q->out[0].axis)
            return give(&q->in[0], (int)axes->at[i], q->out[0].parts);
    }
    return false;
}

static bool rule_split(struct sl_shard_query *q) {
    int axis = (int)q->node->attr[0].i, count = q->node->out_count, parts = 0, at = -1;
    for (int i = 0; i < count && at < 0; i++)
        if (q->out[i].divided) {
            at = q->out[i].axis;
            parts = q->out[i].parts;
        }
    if (at >= 0 && at == axis)
        parts *= count;
    if (q->in[0].divided) {
        at = q->in[0].axis;
        parts = q->in[0].parts;
    }
    if (at == axis && parts % count) {
        q->want_parts = count;
        return false;
    }
    if (!give(&q->in[0], at, parts))
        return false;
    for (int i = 0; i < count; i++)
        if (!give(&q->out[i], at, at == axis ? parts / count : parts))
            return false;
    return true;
}

/* ---- the vocabulary ---- */

/* Lookup in a table: each shard looks up the indices of its rows; other rows of its term are 0. */
static bool rule_table(struct sl_shard_query *q) {
    q->sums = true;
    return !q->out[0].divided && give(&q->in[0], 0, 1);
}

/* Loss over classes: the sum over all classes is a sum of the shards' sums. */
static bool rule_classes(struct sl_shard_query *q) {
    q->sums = true;
    return !q->out[0].divided && !q->out[1].divided && give(&q->in[0], shape_in(q, 0)->rank - 1, 1);
}

static bool (*const rules[SL_DIVIDE_RULES])(struct sl_shard_query *) = {
    [SL_DIVIDE_EACH] = rule_each,       [SL_DIVIDE_ROWS] = rule_rows,
    [SL_DIVIDE_HEADS] = rule_heads,     [SL_DIVIDE_PRODUCT] = rule_product,
    [SL_DIVIDE_RESHAPE] = rule_reshape, [SL_DIVIDE_TRANSPOSE] = rule_transpose,
    [SL_DIVIDE_SPLIT] = rule_split,     [SL_DIVIDE_TABLE] = rule_table,
    [SL_DIVIDE_CLASSES] = rule_classes,
};

bool sl_shard_rule_apply(struct sl_shard_query *q) {
    q->sums = false;
    q->want_parts = 0;
    if (!any_divided(q))
        return true;
    if (!rules[q->node->op->divide] || !rules[q->node->op->divide](q))
        return false;
    for (int i = 0; i < q->node->in_count; i++)
        if (q->in[i].divided && !sl_shard_divides(shape_in(q, i), &q->in[i], q->shards))
            return false;
    for (int i = 0; i < q->node->out_count; i++)
        if (q->out[i].divided && !sl_shard_divides(shape_out(q, i), &q->out[i], q->shards))
            return false;
    return true;
}

void sl_shard_attrs(const struct sl_shard_query *q, union sl_attr attr[SL_MAX_ATTR]) {
    const struct sl_op *op = q->node->op;
    int count = sl_graph_op_attr_count(op);
    if (count)
        memcpy(attr, q->node->attr, sizeof *attr * (size_t)count);
    if (op->divide == SL_DIVIDE_RESHAPE && q->out[0].divided)
        attr[0].shape.dim[q->out[0].axis] /= q->shards;
    if (op->divide == SL_DIVIDE_TABLE && q->in[0].divided &&
        attr[0].i >= shape_in(q, 0)->dim[0] / q->shards) /* drops the padding row if this shard
                                                          * does not have it */
        attr[0].i = -1;
}
