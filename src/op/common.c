/* Helpers that several ops use. */
#include "op/common.h"

#include "graph/graph.h"

int64_t sl_op_numel(const struct sl_shape *shape) { return sl_graph_shape_numel(shape, 1); }

sl_err sl_op_need_float(const struct sl_infer *infer, int i) {
    if (infer->present[i] && infer->in_dtype[i] != SL_FLOAT)
        return sl_graph_infer_fail(infer, "input %d must be float, it is int", i);
    return SL_OK;
}

sl_err sl_op_need_int(const struct sl_infer *infer, int i) {
    if (infer->present[i] && infer->in_dtype[i] != SL_INT)
        return sl_graph_infer_fail(infer, "input %d must be int, it is float", i);
    return SL_OK;
}

sl_err sl_op_need_axis(const struct sl_infer *infer, int rank, int64_t *axis) {
    int64_t given = *axis;
    if (given < 0)
        *axis += rank;
    if (*axis < 0 || *axis >= rank)
        return sl_graph_infer_fail(infer, "axis %lld is outside a tensor of rank %d",
                                   (long long)given, rank);
    return SL_OK;
}

sl_err sl_op_infer_same(struct sl_infer *infer) {
    SL_TRY(sl_op_need_float(infer, 0));
    infer->out[0] = infer->in[0];
    return SL_OK;
}

sl_err sl_op_infer_broadcast(struct sl_infer *infer) {
    SL_TRY(sl_op_need_float(infer, 0));
    SL_TRY(sl_op_need_float(infer, 1));
    sl_err err = sl_graph_shape_broadcast(&infer->in[0], &infer->in[1], &infer->out[0]);
    return err == SL_OK ? err : sl_err_context(err, "%s", infer->op->name);
}

void sl_op_broadcast_open(struct sl_broadcast *walk, const struct sl_shape *narrow,
                          const struct sl_shape *out) {
    *walk = (struct sl_broadcast){.out = *out};
    int64_t stride = 1;
    for (int i = narrow->rank - 1; i >= 0; i--) {
        int axis = out->rank - narrow->rank + i;
        walk->stride[axis] = narrow->dim[i] == out->dim[axis] ? stride : 0;
        stride *= narrow->dim[i];
    }
}

void sl_op_broadcast_next(struct sl_broadcast *walk) {
    for (int i = walk->out.rank - 1; i >= 0; i--) {
        walk->offset += walk->stride[i];
        if (++walk->at[i] < walk->out.dim[i])
            return;
        walk->offset -= walk->stride[i] * walk->out.dim[i];
        walk->at[i] = 0;
    }
}

struct sl_op_rowset sl_op_rows_of(const struct sl_shape *shape) {
    int64_t n = shape->dim[shape->rank - 1];
    return (struct sl_op_rowset){sl_op_numel(shape) / n, n};
}

struct sl_shape sl_op_shape_without_last(const struct sl_shape *shape) {
    struct sl_shape rows = *shape;
    rows.rank--;
    rows.batch &= (1u << rows.rank) - 1;
    rows.dim[rows.rank] = 0;
    return rows;
}

void sl_op_ref_map(const struct sl_ref *ref, double (*f)(double x)) {
    int64_t count = sl_op_numel(&ref->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        ref->out[0].f[i] = f(ref->in[0].f[i]);
}

void sl_op_ref_zip(const struct sl_ref *ref, double (*f)(double a, double b)) {
    int64_t count = sl_op_numel(&ref->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        ref->out[0].f[i] = f(ref->in[0].f[i], ref->in[1].f[i]);
}

void sl_op_ref_zip_broadcast(const struct sl_ref *ref, double (*f)(double a, double b)) {
    struct sl_broadcast a, b;
    sl_op_broadcast_open(&a, &ref->in[0].shape, &ref->out[0].shape);
    sl_op_broadcast_open(&b, &ref->in[1].shape, &ref->out[0].shape);
    int64_t count = sl_op_numel(&ref->out[0].shape);
    for (int64_t i = 0; i < count; i++) {
        ref->out[0].f[i] = f(ref->in[0].f[a.offset], ref->in[1].f[b.offset]);
        sl_op_broadcast_next(&a);
        sl_op_broadcast_next(&b);
    }
}

void sl_op_array_copy(const struct sl_array *out, int64_t to, const struct sl_array *in,
                      int64_t from) {
    if (in->f)
        out->f[to] = in->f[from];
    else
        out->i[to] = in->i[from];
}

int sl_op_grad_sum_to(struct sl_grad *grad, int value, int like) {
    if (value < 0)
        return -1;
    const struct sl_shape *shape = sl_graph_grad_shape(grad, like);
    if (sl_graph_shape_equal(sl_graph_grad_shape(grad, value), shape))
        return value;
    union sl_attr attr[1] = {{.shape = *shape}};
    return sl_graph_grad_emit(grad, "sum_to", 1, &value, attr);
}

bool sl_op_grad_flows(struct sl_grad *grad, int count) {
    const struct sl_node *node = &grad->graph->nodes.at[grad->node];
    bool flows = false;
    for (int i = 0; i < node->out_count; i++) {
        flows |= grad->dout[i] >= 0 && i < count;
        if (grad->dout[i] >= 0 && i >= count && grad->err == SL_OK)
            grad->err =
                sl_fail(SL_ERR_INPUT, "a loss depends on output %d, which has no gradient", i);
    }
    return flows && grad->err == SL_OK;
}

int sl_op_grad_reshape(struct sl_grad *grad, int value, struct sl_shape shape) {
    if (value < 0 || sl_graph_shape_equal(sl_graph_grad_shape(grad, value), &shape))
        return value;
    union sl_attr attr[1] = {{.shape = shape}};
    return sl_graph_grad_emit(grad, "reshape", 1, &value, attr);
}

int sl_op_grad_rows(struct sl_grad *grad, int value) {
    if (value < 0)
        return -1;
    const struct sl_shape *shape = sl_graph_grad_shape(grad, value);
    struct sl_shape rows = {.rank = 2};
    sl_graph_shape_set(&rows, 0, sl_graph_shape_product(shape, 0, shape->rank - 1));
    sl_graph_shape_set(&rows, 1, sl_graph_shape_dim(shape, -1));
    return sl_op_grad_reshape(grad, value, rows);
}

double sl_op_flops_elementwise(const struct sl_op_view *view) {
    return (double)sl_op_numel(&view->out[0]);
}

double sl_op_flops_none(const struct sl_op_view *view) {
    (void)view;
    return 0;
}
