/* Lowers operators by element, products, reductions. */
#include "onnx/map.h"

#include "op/registry.h"

#include <math.h>

sl_err sl_onnx_map_unary(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int x;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

sl_err sl_onnx_map_not(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int x;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_BOOL);
    return SL_OK;
}

/* IsNaN: NaN differs from itself. */
sl_err sl_onnx_map_is_nan(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int x;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 2, (int[]){x, x}, &x));
    SL_TRY(sl_onnx_emit_plain(l, "logical_not", 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_BOOL);
    return SL_OK;
}

/* Passes one attribute of the file on to our op. */
sl_err sl_onnx_map_unary_alpha(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    bool leaky = strcmp(row->op, "LeakyRelu") == 0;
    int x;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    double alpha = sl_proto_attr_float(l->node, "alpha", leaky ? 0.01 : 1);
    if (e.op->attrs == NULL || e.op->attrs[0].kind != SL_ATTR_FLOAT)
        return sl_onnx_lower_refuse(l, "'alpha' is not supported");
    e.attr[0].f = alpha;
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

static bool number_of(struct sl_onnx_lower *l, int input, double *out) {
    const struct sl_onnx_konst *konst = sl_onnx_lower_maybe(l, input);
    return konst && konst->f && konst->count == 1 && sl_onnx_konst_uniform(konst, out) &&
           isfinite(*out);
}

/* Has the result the shape of x? The constant has one element, so only its additional axes could
 * change the shape. */
static bool keeps_shape(struct sl_onnx_lower *l, int konst, int x) {
    struct sl_onnx_val *val = sl_onnx_lower_val(l, konst);
    return val->konst->rank <= sl_onnx_lower_shape(l, x)->rank;
}

/* Fuses matmul(a, b) + bias into one node, if only the addition reads the product. *done: it
 * did. */
static sl_err add_bias(struct sl_onnx_lower *l, int product, int bias, bool *done) {
    struct sl_onnx_val *val = sl_onnx_lower_val(l, product), *b = sl_onnx_lower_val(l, bias);
    *done = false;
    if (!val || !b || val->kind != SL_ONNX_TENSOR || val->readers != 1 || !val->node ||
        strcmp(val->node->op, "MatMul") != 0 || b->kind != SL_ONNX_KONST || !b->konst ||
        b->konst->rank != 1)
        return SL_OK;
    const struct sl_value *value = sl_graph_value(l->graph, val->id);
    const struct sl_node *node = &l->graph->nodes.at[value->node];
    if (node->op->layer != SL_LAYER_PRODUCT || node->in_count != 2 ||
        value->shape.dim[value->shape.rank - 1] != b->konst->count)
        return SL_OK;
    struct sl_onnx_emit e;
    int in[3] = {node->in[0], node->in[1], -1}, y;
    SL_TRY(sl_onnx_emit_open(l, &e, "matmul"));
    memcpy(e.attr, node->attr, sizeof e.attr[0] * 2);
    SL_TRY(sl_onnx_lower_id(l, b, &in[2]));
    SL_TRY(sl_onnx_emit(l, &e, 3, in, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    *done = true;
    return SL_OK;
}

sl_err sl_onnx_map_add(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    bool done = false;
    for (int i = 0; i < 2 && !done; i++)
        SL_TRY(add_bias(l, i, 1 - i, &done));
    return done ? SL_OK : sl_onnx_map_arithmetic(l, row);
}

sl_err sl_onnx_emit_by(struct sl_onnx_lower *l, const char *op, int x, double by, int *out) {
    struct sl_onnx_emit e;
    SL_TRY(sl_onnx_emit_open(l, &e, op));
    sl_onnx_emit_float(&e, "by", by);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

/* Emits x OP number as an op of one tensor. *done is false if there is no such op. */
static sl_err right_number(struct sl_onnx_lower *l, int x, double by, int *y, bool *done) {
    const char *op = l->node->op;
    *done = true;
    if (strcmp(op, "Mul") == 0)
        return sl_onnx_emit_scale(l, x, by, y);
    if (strcmp(op, "Div") == 0 && by != 0)
        return sl_onnx_emit_scale(l, x, 1 / by, y);
    if (strcmp(op, "Add") == 0)
        return sl_onnx_emit_by(l, "offset", x, by, y);
    if (strcmp(op, "Sub") == 0)
        return sl_onnx_emit_by(l, "offset", x, -by, y);
    if (strcmp(op, "Pow") == 0 && by == 2)
        return sl_onnx_emit_plain(l, "mul", 2, (int[]){x, x}, y);
    if (strcmp(op, "Pow") == 0 && by == 0.5)
        return sl_onnx_emit_plain(l, "sqrt", 1, &x, y);
    if (strcmp(op, "Pow") == 0)
        return sl_onnx_emit_by(l, "power", x, by, y);
    *done = false;
    return SL_OK;
}

/* Emits number OP x as an op of one tensor. */
static sl_err left_number(struct sl_onnx_lower *l, double by, int x, int *y, bool *done) {
    const char *op = l->node->op;
    *done = true;
    if (strcmp(op, "Mul") == 0 || strcmp(op, "Add") == 0)
        return right_number(l, x, by, y, done);
    if (strcmp(op, "Sub") == 0) {
        SL_TRY(sl_onnx_emit_plain(l, "neg", 1, &x, y));
        return sl_onnx_emit_by(l, "offset", *y, by, y);
    }
    if (strcmp(op, "Div") == 0) {
        SL_TRY(sl_onnx_emit_by(l, "power", x, -1, y));
        return sl_onnx_emit_scale(l, *y, by, y);
    }
    *done = false;
    return SL_OK;
}

static sl_err try_number(struct sl_onnx_lower *l, bool *done) {
    double by;
    int x, y = -1;
    *done = false;
    for (int i = 1; i >= 0 && !*done; i--) {
        struct sl_onnx_val *other = sl_onnx_lower_val(l, 1 - i);
        if (!other || other->kind != SL_ONNX_TENSOR || !number_of(l, i, &by))
            continue;
        SL_TRY(sl_onnx_lower_in(l, 1 - i, &x));
        if (sl_onnx_lower_is_int(l, x) || !keeps_shape(l, i, x))
            return SL_OK;
        SL_TRY(i ? right_number(l, x, by, &y, done) : left_number(l, by, x, &y, done));
    }
    if (*done)
        sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Arithmetic: integers are computed as floats, which is exact up to 2^24. */
sl_err sl_onnx_map_arithmetic(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int in[2], y;
    bool done = false;
    SL_TRY(try_number(l, &done));
    if (done)
        return SL_OK;
    SL_TRY(sl_onnx_lower_float(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_float(l, 1, &in[1]));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 2, in, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Comparisons and logic. Bitwise operators on numbers are not supported. */
sl_err sl_onnx_map_binary(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int in[2], y;
    if (strncmp(row->op, "Bitwise", 7) == 0 && sl_onnx_lower_val(l, 0)->type != SL_ONNX_BOOL)
        return sl_onnx_lower_refuse(l, "it is supported for bool only");
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 2, in, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_BOOL);
    return SL_OK;
}

/* Min, Max, Sum, Mean of any number of tensors: combines two at a time, from the left. */
sl_err sl_onnx_map_many(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int y, in[2];
    SL_TRY(sl_onnx_lower_float(l, 0, &y));
    for (int i = 1; i < l->node->in_count; i++) {
        in[0] = y;
        SL_TRY(sl_onnx_lower_float(l, i, &in[1]));
        SL_TRY(sl_onnx_emit_plain(l, row->ours, 2, in, &y));
    }
    if (strcmp(row->op, "Mean") == 0)
        SL_TRY(sl_onnx_emit_scale(l, y, 1.0 / l->node->in_count, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* ---- products ---- */

/* Broadcasts the leading sizes of x to those of `wide`; keeps the last two. */
static sl_err stack(struct sl_onnx_lower *l, int x, const struct sl_shape *wide, int *out) {
    struct sl_shape shape = *wide;
    const struct sl_shape *own = sl_onnx_lower_shape(l, x);
    for (int i = 1; i <= 2; i++)
        sl_graph_shape_set(&shape, wide->rank - i, sl_graph_shape_dim(own, -i));
    return sl_onnx_emit_broadcast(l, x, &shape, out);
}

/* Reshapes [m] to [1,m] or [m,1]. */
static sl_err as_matrix(struct sl_onnx_lower *l, int *x, bool row) {
    const struct sl_shape *own = sl_onnx_lower_shape(l, *x);
    if (own->rank != 1)
        return SL_OK;
    struct sl_shape shape = {.rank = 2, .dim = {1, 1}};
    sl_graph_shape_set(&shape, row ? 1 : 0, sl_graph_shape_dim(own, 0));
    return sl_onnx_emit_reshape(l, *x, &shape, x);
}

sl_err sl_onnx_emit_matmul(struct sl_onnx_lower *l, int a, int b, int *out) {
    const struct sl_shape *left = sl_onnx_lower_shape(l, a), *right = sl_onnx_lower_shape(l, b);
    struct sl_shape x = *left, y = *right, wide;
    int in[2] = {a, b};
    if (left->rank < 2 || right->rank < 2)
        return sl_onnx_lower_refuse(l, "a product needs matrices");
    if (right->rank > 2) {
        for (int i = 1; i <= 2; i++) {
            sl_graph_shape_set(&x, x.rank - i, (struct sl_dim){1, false});
            sl_graph_shape_set(&y, y.rank - i, (struct sl_dim){1, false});
        }
        SL_TRY(sl_graph_shape_broadcast(&x, &y, &wide));
        SL_TRY(stack(l, a, &wide, &in[0]));
        SL_TRY(stack(l, b, &wide, &in[1]));
    }
    return sl_onnx_emit_plain(l, "matmul", 2, in, out);
}

/* Returns the matrix of which x is the transpose; -1: x is no transpose. */
static int transposed(const struct sl_onnx_lower *l, int x) {
    const struct sl_value *v = sl_graph_value(l->graph, x);
    if (v->kind != SL_VALUE_NODE || v->shape.rank != 2 || v->shape.batch)
        return -1;
    const struct sl_node *node = &l->graph->nodes.at[v->node];
    return node->op == sl_op_find(SL_STR("transpose")) ? node->in[0] : -1;
}

sl_err sl_onnx_map_matmul(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int a, b, y;
    SL_TRY(sl_onnx_lower_in(l, 0, &a));
    SL_TRY(sl_onnx_lower_in(l, 1, &b));
    bool drop_row = sl_onnx_lower_shape(l, a)->rank == 1,
         drop_column = sl_onnx_lower_shape(l, b)->rank == 1;
    int turned = transposed(l, b);
    SL_TRY(as_matrix(l, &a, true));
    SL_TRY(as_matrix(l, &b, false));
    if (turned >= 0) {
        struct sl_onnx_emit e;
        SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
        sl_onnx_emit_int(&e, "tb", 1);
        SL_TRY(sl_onnx_emit(l, &e, 2, (int[]){a, turned}, &y));
    } else {
        SL_TRY(sl_onnx_emit_matmul(l, a, b, &y));
    }
    struct sl_shape shape = *sl_onnx_lower_shape(l, y), kept = {0};
    for (int i = 0; i < shape.rank; i++)
        if (!(drop_row && i == shape.rank - 2) && !(drop_column && i == shape.rank - 1))
            sl_graph_shape_set(&kept, kept.rank++, sl_graph_shape_dim(&shape, i));
    SL_TRY(sl_onnx_emit_reshape(l, y, &kept, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

sl_err sl_onnx_map_gemm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[3] = {-1, -1, -1}, y, c = -1;
    (void)row;
    double alpha = sl_proto_attr_float(l->node, "alpha", 1);
    double beta = sl_proto_attr_float(l->node, "beta", 1);
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(sl_onnx_emit_scale(l, in[0], alpha, &in[0]));
    SL_TRY(sl_onnx_emit_open(l, &e, "matmul"));
    sl_onnx_emit_int(&e, "ta", sl_proto_attr_int(l->node, "transA", 0) != 0);
    sl_onnx_emit_int(&e, "tb", sl_proto_attr_int(l->node, "transB", 0) != 0);
    if (sl_onnx_lower_has(l, 2)) {
        SL_TRY(sl_onnx_lower_in(l, 2, &c));
        SL_TRY(sl_onnx_emit_scale(l, c, beta, &c));
        const struct sl_shape *b = sl_onnx_lower_shape(l, in[1]), *bias = sl_onnx_lower_shape(l, c);
        int column = sl_proto_attr_int(l->node, "transB", 0) ? 0 : 1;
        if (b->rank == 2 && bias->rank == 1 && bias->dim[0] == b->dim[column] && !bias->batch) {
            in[2] = c;
            c = -1;
        }
    }
    SL_TRY(sl_onnx_emit(l, &e, in[2] < 0 ? 2 : 3, in, &y));
    if (c >= 0)
        SL_TRY(sl_onnx_emit_plain(l, "add", 2, (int[]){y, c}, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* ---- reductions ---- */

sl_err sl_onnx_map_reduce(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    struct sl_ints axes;
    int x, y;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    SL_TRY(sl_onnx_lower_axes(l, 1, sl_onnx_lower_shape(l, x)->rank, &axes));
    if (axes.count == 0 && sl_proto_attr_int(l->node, "noop_with_empty_axes", 0)) {
        sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
        return SL_OK;
    }
    if (strcmp(row->op, "ReduceSumSquare") == 0 || strcmp(row->op, "ReduceL2") == 0)
        SL_TRY(sl_onnx_emit_plain(l, "mul", 2, (int[]){x, x}, &x));
    if (strcmp(row->op, "ReduceL1") == 0)
        SL_TRY(sl_onnx_emit_plain(l, "abs", 1, &x, &x));
    if (strcmp(row->op, "ReduceLogSumExp") == 0)
        SL_TRY(sl_onnx_emit_plain(l, "exp", 1, &x, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "axes", axes.count, axes.at);
    sl_onnx_emit_int(&e, "keep", sl_proto_attr_int(l->node, "keepdims", 1) != 0);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
    if (strcmp(row->op, "ReduceL2") == 0)
        SL_TRY(sl_onnx_emit_plain(l, "sqrt", 1, &y, &y));
    if (strncmp(row->op, "ReduceLog", 9) == 0)
        SL_TRY(sl_onnx_emit_plain(l, "log", 1, &y, &y));
    sl_onnx_lower_out(l, 0, y, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Functions of the last axis, applied to any axis. */
sl_err sl_onnx_map_softmax(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    int x, axis, perm[SL_MAX_RANK];
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", -1), rank, &axis));
    for (int i = 0; i < rank; i++)
        perm[i] = i == axis ? rank - 1 : i == rank - 1 ? axis : i;
    SL_TRY(sl_onnx_emit_transpose(l, x, perm, &x));
    SL_TRY(sl_onnx_emit_plain(l, row->ours, 1, &x, &x));
    SL_TRY(sl_onnx_emit_transpose(l, x, perm, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}
