/* Helpers that several ops use: shape checks, broadcasting, reference loops, common gradients.
 *
 * In the graph a shape contains the symbol B for the batch size. "B put in" means that the
 * micro-batch size has replaced the symbol. */
#ifndef SL_OP_COMMON_H
#define SL_OP_COMMON_H

#include "graph/op.h"

/* Defines a row of the registry in a few lines: the op NAME, then further fields as .field =
 * value. */
#define SL_OP_ROW(name_, brief_, inputs_, outputs_, ...)                                           \
    const struct sl_op sl_op_##name_ = {                                                           \
        .name = #name_, .brief = brief_, .inputs = inputs_, .outputs = outputs_, __VA_ARGS__};

/* Returns the number of elements of a shape with B put in. */
int64_t sl_op_numel(const struct sl_shape *shape);

/* Shape inference for ops whose only output has the shape of input 0. */
sl_err sl_op_infer_same(struct sl_infer *infer);
/* Shape inference for binary ops with broadcasting. */
sl_err sl_op_infer_broadcast(struct sl_infer *infer);
/* Checks that input i is a float (int) tensor. */
SL_MUST_CHECK sl_err sl_op_need_float(const struct sl_infer *infer, int i);
SL_MUST_CHECK sl_err sl_op_need_int(const struct sl_infer *infer, int i);
/* Makes a negative axis positive; fails if it is outside [0, rank). */
SL_MUST_CHECK sl_err sl_op_need_axis(const struct sl_infer *infer, int rank, int64_t *axis);

/* An iterator over the elements of `out`: `offset` is the matching element of the tensor that was
 * broadcast to it. */
struct sl_broadcast {
    struct sl_shape out;
    /* strides of the narrow tensor; 0 along axes where it is broadcast */
    int64_t stride[SL_MAX_RANK];
    int64_t at[SL_MAX_RANK];
    int64_t offset;
};
void sl_op_broadcast_open(struct sl_broadcast *walk, const struct sl_shape *narrow,
                          const struct sl_shape *out);
void sl_op_broadcast_next(struct sl_broadcast *walk);

/* The rows of [..., n]: count is the product of the leading sizes. */
struct sl_op_rowset {
    int64_t count, n;
};
struct sl_op_rowset sl_op_rows_of(const struct sl_shape *shape);
/* Returns the shape [...] of [..., n]. */
struct sl_shape sl_op_shape_without_last(const struct sl_shape *shape);

/* Reference kernels of elementwise ops: compute output 0 from input 0 (and input 1 of the same
 * shape). */
void sl_op_ref_map(const struct sl_ref *ref, double (*f)(double x));
void sl_op_ref_zip(const struct sl_ref *ref, double (*f)(double a, double b));
/* The same with broadcasting. */
void sl_op_ref_zip_broadcast(const struct sl_ref *ref, double (*f)(double a, double b));
/* Copies one element of either dtype: out[to] = in[from]. */
void sl_op_array_copy(const struct sl_array *out, int64_t to, const struct sl_array *in,
                      int64_t from);

/* Helpers for gradients. Sums `value` to the shape of `like`, which was broadcast. */
int sl_op_grad_sum_to(struct sl_grad *grad, int value, int like);
/* Returns whether one of the first `count` outputs has a gradient. A gradient of a later output is
 * an error: such outputs are only kept for the backward pass, and a model must not use them. */
bool sl_op_grad_flows(struct sl_grad *grad, int count);
/* Emits a view of `value` with this shape. */
int sl_op_grad_reshape(struct sl_grad *grad, int value, struct sl_shape shape);
/* Emits a view of [..., n] as [rows, n]. */
int sl_op_grad_rows(struct sl_grad *grad, int value);

/* Counts one flop per output element. */
double sl_op_flops_elementwise(const struct sl_op_view *view);
double sl_op_flops_none(const struct sl_op_view *view);

#endif
