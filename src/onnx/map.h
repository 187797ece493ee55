/* The functions of the mapping table (table.c). */
#ifndef SL_ONNX_MAP_H
#define SL_ONNX_MAP_H

#include "onnx/lower.h"

typedef sl_err sl_onnx_map_fn(struct sl_onnx_lower *l, const struct sl_onnx_row *row);

sl_onnx_map_fn sl_onnx_map_not, sl_onnx_map_is_nan, sl_onnx_map_arithmetic,
    sl_onnx_map_conv_transpose, sl_onnx_map_gather_nd, sl_onnx_map_scatter_nd,
    sl_onnx_map_split_to_sequence, sl_onnx_map_sequence_at, sl_onnx_map_einsum, sl_onnx_map_lstm,
    sl_onnx_map_gru, sl_onnx_map_rnn, sl_onnx_map_attention, sl_onnx_map_rotary, sl_onnx_map_nll;
sl_onnx_map_fn sl_onnx_map_unary, sl_onnx_map_unary_alpha, sl_onnx_map_add, sl_onnx_map_binary,
    sl_onnx_map_many, sl_onnx_map_matmul, sl_onnx_map_gemm, sl_onnx_map_reduce, sl_onnx_map_softmax;
sl_onnx_map_fn sl_onnx_map_identity, sl_onnx_map_cast, sl_onnx_map_dropout, sl_onnx_map_shape,
    sl_onnx_map_reshape, sl_onnx_map_flatten, sl_onnx_map_squeeze, sl_onnx_map_unsqueeze,
    sl_onnx_map_transpose, sl_onnx_map_expand, sl_onnx_map_concat, sl_onnx_map_split,
    sl_onnx_map_slice, sl_onnx_map_gather, sl_onnx_map_if, sl_onnx_map_size;
sl_onnx_map_fn sl_onnx_map_conv, sl_onnx_map_pool, sl_onnx_map_global_pool, sl_onnx_map_batchnorm,
    sl_onnx_map_layernorm, sl_onnx_map_rmsnorm, sl_onnx_map_gelu, sl_onnx_map_resize;

sl_onnx_map_fn sl_onnx_map_activation, sl_onnx_map_clip, sl_onnx_map_where, sl_onnx_map_arg,
    sl_onnx_map_cumsum, sl_onnx_map_topk, sl_onnx_map_gather_elements, sl_onnx_map_scatter,
    sl_onnx_map_one_hot, sl_onnx_map_pad, sl_onnx_map_tile, sl_onnx_map_depth, sl_onnx_map_trilu,
    sl_onnx_map_groupnorm, sl_onnx_map_cross_entropy;

/* Sets output 0 of the node to x reshaped to `shape`, with the type of input 0. */
SL_MUST_CHECK sl_err sl_onnx_put_reshaped(struct sl_onnx_lower *l, int x,
                                          const struct sl_shape *shape);
/* Emits the rows `index` of one axis of x. */
SL_MUST_CHECK sl_err sl_onnx_emit_rows(struct sl_onnx_lower *l, int x, int axis, int64_t count,
                                       const int64_t *index, int *out);
/* Emits an op whose only number is `by`: offset, power, scale. */
SL_MUST_CHECK sl_err sl_onnx_emit_by(struct sl_onnx_lower *l, const char *op, int x, double by,
                                     int *out);
/* Emits a b for matrices with leading sizes that broadcast. */
SL_MUST_CHECK sl_err sl_onnx_emit_matmul(struct sl_onnx_lower *l, int a, int b, int *out);

#endif
