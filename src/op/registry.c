/* The table of ops, in alphabetical order, with the names of their counterparts elsewhere. */
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

/* One line per op, in alphabetical order: the op, its name in ONNX, its name in PyTorch. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_op_abs, "Abs", "torch.abs") \
    ROW(sl_op_abs_dx, NULL, NULL) \
    ROW(sl_op_adaptive_avgpool, NULL, "torch.nn.functional.adaptive_avg_pool2d") \
    ROW(sl_op_adaptive_avgpool_dx, NULL, NULL) \
    ROW(sl_op_add, "Add", "torch.add") \
    ROW(sl_op_alpha_dropout, NULL, "torch.nn.functional.alpha_dropout") \
    ROW(sl_op_alpha_dropout_dx, NULL, NULL) \
    ROW(sl_op_argmax, "ArgMax", "torch.argmax") \
    ROW(sl_op_argmin, "ArgMin", "torch.argmin") \
    ROW(sl_op_attention, "Attention", "torch.nn.functional.scaled_dot_product_attention") \
    ROW(sl_op_attention_dqkv, NULL, NULL) \
    ROW(sl_op_avgpool, "AveragePool", "torch.nn.functional.avg_pool2d") \
    ROW(sl_op_avgpool_dx, NULL, NULL) \
    ROW(sl_op_batchnorm, "BatchNormalization", "torch.nn.functional.batch_norm") \
    ROW(sl_op_batchnorm_dw, NULL, NULL) \
    ROW(sl_op_batchnorm_dx, NULL, NULL) \
    ROW(sl_op_batchnorm_eval, "BatchNormalization", "torch.nn.functional.batch_norm") \
    ROW(sl_op_batchnorm_eval_dw, NULL, NULL) \
    ROW(sl_op_batchnorm_eval_dx, NULL, NULL) \
    ROW(sl_op_bce_with_logits, NULL, "torch.nn.functional.binary_cross_entropy_with_logits") \
    ROW(sl_op_bce_with_logits_dt, NULL, NULL) \
    ROW(sl_op_bce_with_logits_dx, NULL, NULL) \
    ROW(sl_op_bidirectional, NULL, NULL) \
    ROW(sl_op_broadcast_mean, NULL, NULL) \
    ROW(sl_op_broadcast_to, "Expand", "torch.broadcast_to") \
    ROW(sl_op_clamp, "Clip", "torch.clamp") \
    ROW(sl_op_clamp_dx, NULL, NULL) \
    ROW(sl_op_concat, "Concat", "torch.cat") \
    ROW(sl_op_contrastive, NULL, NULL) \
    ROW(sl_op_contrastive_dx, NULL, NULL) \
    ROW(sl_op_conv1d, "Conv", "torch.nn.functional.conv1d") \
    ROW(sl_op_conv2d, "Conv", "torch.nn.functional.conv2d") \
    ROW(sl_op_conv2d_dw, NULL, NULL) \
    ROW(sl_op_conv2d_dx, NULL, NULL) \
    ROW(sl_op_conv_transpose2d, "ConvTranspose", "torch.nn.functional.conv_transpose2d") \
    ROW(sl_op_cos, "Cos", "torch.cos") \
    ROW(sl_op_cos_dx, NULL, NULL) \
    ROW(sl_op_cross_entropy, "SoftmaxCrossEntropyLoss", "torch.nn.functional.cross_entropy") \
    ROW(sl_op_cross_entropy_dx, NULL, NULL) \
    ROW(sl_op_cumsum, "CumSum", "torch.cumsum") \
    ROW(sl_op_div, "Div", "torch.div") \
    ROW(sl_op_div_da, NULL, NULL) \
    ROW(sl_op_div_db, NULL, NULL) \
    ROW(sl_op_dot_interaction, NULL, NULL) \
    ROW(sl_op_dot_interaction_dx, NULL, NULL) \
    ROW(sl_op_dropout, "Dropout", "torch.nn.functional.dropout") \
    ROW(sl_op_einsum, "Einsum", "torch.einsum") \
    ROW(sl_op_elu, "Elu", "torch.nn.functional.elu") \
    ROW(sl_op_elu_dx, NULL, NULL) \
    ROW(sl_op_embed, "Gather", "torch.nn.functional.embedding") \
    ROW(sl_op_embed_bag, NULL, "torch.nn.functional.embedding_bag") \
    ROW(sl_op_embed_bag_dw, NULL, NULL) \
    ROW(sl_op_embed_dw, NULL, NULL) \
    ROW(sl_op_equal, "Equal", "torch.eq") \
    ROW(sl_op_erf, "Erf", "torch.erf") \
    ROW(sl_op_erf_dx, NULL, NULL) \
    ROW(sl_op_exp, "Exp", "torch.exp") \
    ROW(sl_op_exp_dx, NULL, NULL) \
    ROW(sl_op_flip, "Slice", "torch.flip") \
    ROW(sl_op_focal, NULL, NULL) \
    ROW(sl_op_focal_dx, NULL, NULL) \
    ROW(sl_op_gather, "GatherElements", "torch.gather") \
    ROW(sl_op_gather_dx, NULL, NULL) \
    ROW(sl_op_gelu, "Gelu", "torch.nn.functional.gelu") \
    ROW(sl_op_gelu_dx, NULL, NULL) \
    ROW(sl_op_global_avgpool, "GlobalAveragePool", "torch.nn.functional.adaptive_avg_pool2d") \
    ROW(sl_op_global_avgpool_dx, NULL, NULL) \
    ROW(sl_op_greater, "Greater", "torch.gt") \
    ROW(sl_op_greater_equal, "GreaterOrEqual", "torch.ge") \
    ROW(sl_op_grouped_matmul, NULL, NULL) \
    ROW(sl_op_grouped_matmul_dw, NULL, NULL) \
    ROW(sl_op_groupnorm, "GroupNormalization", "torch.nn.functional.group_norm") \
    ROW(sl_op_groupnorm_dw, NULL, NULL) \
    ROW(sl_op_groupnorm_dx, NULL, NULL) \
    ROW(sl_op_gru, "GRU", "torch.nn.GRU") \
    ROW(sl_op_gru_dgates, NULL, NULL) \
    ROW(sl_op_hardswish, "HardSwish", "torch.nn.functional.hardswish") \
    ROW(sl_op_hardswish_dx, NULL, NULL) \
    ROW(sl_op_huber, NULL, "torch.nn.functional.huber_loss") \
    ROW(sl_op_huber_dx, NULL, NULL) \
    ROW(sl_op_identity, "Identity", "torch.clone") \
    ROW(sl_op_index_select, "Gather", "torch.index_select") \
    ROW(sl_op_index_select_dx, NULL, NULL) \
    ROW(sl_op_instancenorm, "InstanceNormalization", "torch.nn.functional.instance_norm") \
    ROW(sl_op_kl, NULL, "torch.nn.functional.kl_div") \
    ROW(sl_op_kl_dx, NULL, NULL) \
    ROW(sl_op_l1, NULL, "torch.nn.functional.l1_loss") \
    ROW(sl_op_l1_dx, NULL, NULL) \
    ROW(sl_op_layernorm, "LayerNormalization", "torch.nn.functional.layer_norm") \
    ROW(sl_op_layernorm_dw, NULL, NULL) \
    ROW(sl_op_layernorm_dx, NULL, NULL) \
    ROW(sl_op_leaky_relu, "LeakyRelu", "torch.nn.functional.leaky_relu") \
    ROW(sl_op_leaky_relu_dx, NULL, NULL) \
    ROW(sl_op_less, "Less", "torch.lt") \
    ROW(sl_op_less_equal, "LessOrEqual", "torch.le") \
    ROW(sl_op_log, "Log", "torch.log") \
    ROW(sl_op_log1p, NULL, "torch.log1p") \
    ROW(sl_op_log1p_dx, NULL, NULL) \
    ROW(sl_op_log_dx, NULL, NULL) \
    ROW(sl_op_log_softmax, "LogSoftmax", "torch.nn.functional.log_softmax") \
    ROW(sl_op_log_softmax_dx, NULL, NULL) \
    ROW(sl_op_logical_and, "And", "torch.logical_and") \
    ROW(sl_op_logical_not, "Not", "torch.logical_not") \
    ROW(sl_op_logical_or, "Or", "torch.logical_or") \
    ROW(sl_op_logical_xor, "Xor", "torch.logical_xor") \
    ROW(sl_op_lstm, "LSTM", "torch.nn.LSTM") \
    ROW(sl_op_lstm_dgates, NULL, NULL) \
    ROW(sl_op_lstm_hprev, NULL, NULL) \
    ROW(sl_op_matmul, "MatMul", "torch.matmul") \
    ROW(sl_op_max, "Max", "torch.maximum") \
    ROW(sl_op_max_da, NULL, NULL) \
    ROW(sl_op_max_db, NULL, NULL) \
    ROW(sl_op_maxpool, "MaxPool", "torch.nn.functional.max_pool2d") \
    ROW(sl_op_maxpool_dx, NULL, NULL) \
    ROW(sl_op_min, "Min", "torch.minimum") \
    ROW(sl_op_min_da, NULL, NULL) \
    ROW(sl_op_min_db, NULL, NULL) \
    ROW(sl_op_mish, "Mish", "torch.nn.functional.mish") \
    ROW(sl_op_mish_dx, NULL, NULL) \
    ROW(sl_op_moe_balance, NULL, NULL) \
    ROW(sl_op_moe_balance_eval, NULL, NULL) \
    ROW(sl_op_moe_combine, NULL, NULL) \
    ROW(sl_op_moe_combine_dw, NULL, NULL) \
    ROW(sl_op_moe_combine_dx, NULL, NULL) \
    ROW(sl_op_moe_dispatch, NULL, NULL) \
    ROW(sl_op_moe_load, NULL, NULL) \
    ROW(sl_op_moe_slots, NULL, NULL) \
    ROW(sl_op_mse, NULL, "torch.nn.functional.mse_loss") \
    ROW(sl_op_mse_dx, NULL, NULL) \
    ROW(sl_op_mul, "Mul", "torch.mul") \
    ROW(sl_op_neg, "Neg", "torch.neg") \
    ROW(sl_op_neg_dx, NULL, NULL) \
    ROW(sl_op_nll, "NegativeLogLikelihoodLoss", "torch.nn.functional.nll_loss") \
    ROW(sl_op_nll_dx, NULL, NULL) \
    ROW(sl_op_offset, "Add", "torch.add") \
    ROW(sl_op_offset_dx, NULL, NULL) \
    ROW(sl_op_one_hot, "OneHot", "torch.nn.functional.one_hot") \
    ROW(sl_op_opaque, NULL, NULL) \
    ROW(sl_op_opaque_dx, NULL, NULL) \
    ROW(sl_op_pad, "Pad", "torch.nn.functional.pad") \
    ROW(sl_op_pad_dx, NULL, NULL) \
    ROW(sl_op_pow, "Pow", "torch.pow") \
    ROW(sl_op_pow_da, NULL, NULL) \
    ROW(sl_op_pow_db, NULL, NULL) \
    ROW(sl_op_power, "Pow", "torch.pow") \
    ROW(sl_op_power_dx, NULL, NULL) \
    ROW(sl_op_reduce_max, "ReduceMax", "torch.amax") \
    ROW(sl_op_reduce_max_dx, NULL, NULL) \
    ROW(sl_op_reduce_mean, "ReduceMean", "torch.mean") \
    ROW(sl_op_reduce_min, "ReduceMin", "torch.amin") \
    ROW(sl_op_reduce_sum, "ReduceSum", "torch.sum") \
    ROW(sl_op_reduce_var, NULL, "torch.var") \
    ROW(sl_op_reduce_var_dx, NULL, NULL) \
    ROW(sl_op_relative_bias, NULL, NULL) \
    ROW(sl_op_relative_bias_dw, NULL, NULL) \
    ROW(sl_op_relu, "Relu", "torch.nn.functional.relu") \
    ROW(sl_op_relu_dx, NULL, NULL) \
    ROW(sl_op_reshape, "Reshape", "torch.reshape") \
    ROW(sl_op_rmsnorm, "RMSNormalization", "torch.nn.functional.rms_norm") \
    ROW(sl_op_rmsnorm_dw, NULL, NULL) \
    ROW(sl_op_rmsnorm_dx, NULL, NULL) \
    ROW(sl_op_rnn, "RNN", "torch.nn.RNN") \
    ROW(sl_op_rnn_dgates, NULL, NULL) \
    ROW(sl_op_roll, NULL, "torch.roll") \
    ROW(sl_op_rope, "RotaryEmbedding", NULL) \
    ROW(sl_op_rsqrt, NULL, "torch.rsqrt") \
    ROW(sl_op_rsqrt_dx, NULL, NULL) \
    ROW(sl_op_scale, "Mul", "torch.mul") \
    ROW(sl_op_scatter_add, "ScatterElements", "torch.scatter_add") \
    ROW(sl_op_selu, "Selu", "torch.nn.functional.selu") \
    ROW(sl_op_selu_dx, NULL, NULL) \
    ROW(sl_op_shard_enter, NULL, NULL) \
    ROW(sl_op_shard_fan, NULL, NULL) \
    ROW(sl_op_shard_sum, NULL, NULL) \
    ROW(sl_op_sigmoid, "Sigmoid", "torch.sigmoid") \
    ROW(sl_op_sigmoid_dx, NULL, NULL) \
    ROW(sl_op_silu, "Swish", "torch.nn.functional.silu") \
    ROW(sl_op_silu_dx, NULL, NULL) \
    ROW(sl_op_sin, "Sin", "torch.sin") \
    ROW(sl_op_sin_dx, NULL, NULL) \
    ROW(sl_op_slice, "Slice", "torch.narrow") \
    ROW(sl_op_slice_dx, NULL, NULL) \
    ROW(sl_op_softmax, "Softmax", "torch.nn.functional.softmax") \
    ROW(sl_op_softmax_dx, NULL, NULL) \
    ROW(sl_op_softplus, "Softplus", "torch.nn.functional.softplus") \
    ROW(sl_op_softplus_dx, NULL, NULL) \
    ROW(sl_op_split, "Split", "torch.chunk") \
    ROW(sl_op_sqrt, "Sqrt", "torch.sqrt") \
    ROW(sl_op_sqrt_dx, NULL, NULL) \
    ROW(sl_op_sub, "Sub", "torch.sub") \
    ROW(sl_op_sum_to, NULL, "torch.Tensor.sum_to_size") \
    ROW(sl_op_tanh, "Tanh", "torch.tanh") \
    ROW(sl_op_tanh_dx, NULL, NULL) \
    ROW(sl_op_to_float, "Cast", "torch.Tensor.float") \
    ROW(sl_op_to_int, "Cast", "torch.Tensor.int") \
    ROW(sl_op_topk, "TopK", "torch.topk") \
    ROW(sl_op_transpose, "Transpose", "torch.permute") \
    ROW(sl_op_upsample, "Resize", "torch.nn.functional.interpolate") \
    ROW(sl_op_upsample_dx, NULL, NULL) \
    ROW(sl_op_where, "Where", "torch.where") \
    ROW(sl_op_where_d, NULL, NULL)
/* clang-format on */

#define DECLARE(row, onnx, torch) extern const struct sl_op row;
ROWS(DECLARE)
#define POINT(row, onnx, torch) &(row),
const struct sl_op *const sl_op_rows[] = {ROWS(POINT)};
#define NAMES(row, onnx, torch) {onnx, torch},
const struct sl_op_names sl_op_names[] = {ROWS(NAMES)};

const int sl_op_count = SL_COUNT(sl_op_rows);

const struct sl_op *sl_op_find(struct sl_str name) {
    int low = 0, high = sl_op_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *at = sl_op_rows[middle]->name;
        size_t length = strlen(at);
        int order = memcmp(name.at, at, name.length < length ? name.length : length);
        if (order == 0)
            order = (name.length > length) - (name.length < length);
        if (order == 0)
            return sl_op_rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_op_rows[i]->internal ? "" : sl_op_rows[i]->name;
}

const char *sl_op_nearest(const char *name) { return sl_nearest(name, sl_op_count, name_at, NULL); }
