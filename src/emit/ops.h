/* The functions of the table in ops.c: each writes a family of our ops. `onnx` is the operator in
 * the row. */
#ifndef SL_EMIT_OPS_H
#define SL_EMIT_OPS_H

#include "emit/out.h"

typedef void sl_emit_fn(struct sl_emit *o, const char *onnx);

/* op_math.c */
sl_emit_fn sl_emit_op_same, sl_emit_op_by, sl_emit_op_alpha, sl_emit_op_clamp, sl_emit_op_compare,
    sl_emit_op_logic, sl_emit_op_cast, sl_emit_op_where, sl_emit_op_gelu, sl_emit_op_silu,
    sl_emit_op_rsqrt, sl_emit_op_log1p, sl_emit_op_softmax, sl_emit_op_reduce, sl_emit_op_var,
    sl_emit_op_arg, sl_emit_op_cumsum, sl_emit_op_topk, sl_emit_op_matmul, sl_emit_op_mse,
    sl_emit_op_l1, sl_emit_op_cross_entropy;
/* op_shape.c */
sl_emit_fn sl_emit_op_reshape, sl_emit_op_transpose, sl_emit_op_concat, sl_emit_op_split,
    sl_emit_op_slice, sl_emit_op_broadcast, sl_emit_op_sum_to, sl_emit_op_pad, sl_emit_op_roll,
    sl_emit_op_flip, sl_emit_op_gather, sl_emit_op_rows, sl_emit_op_embed_bag, sl_emit_op_scatter,
    sl_emit_op_one_hot;
/* op_layers.c */
sl_emit_fn sl_emit_op_conv, sl_emit_op_pool, sl_emit_op_global_pool, sl_emit_op_adaptive_pool,
    sl_emit_op_upsample, sl_emit_op_batchnorm, sl_emit_op_layernorm, sl_emit_op_rmsnorm,
    sl_emit_op_groupnorm, sl_emit_op_recurrent, sl_emit_op_rnn;
/* op_attention.c */
sl_emit_fn sl_emit_op_attention, sl_emit_op_rope, sl_emit_op_relative_bias, sl_emit_op_interaction;
/* op_moe.c */
sl_emit_fn sl_emit_op_slots, sl_emit_op_dispatch, sl_emit_op_combine, sl_emit_op_grouped,
    sl_emit_op_load;

#endif
