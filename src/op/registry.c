/* The table of ops, in alphabetical order. */
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_op sl_op_add;
extern const struct sl_op sl_op_alpha_dropout;
extern const struct sl_op sl_op_alpha_dropout_dx;
extern const struct sl_op sl_op_attention;
extern const struct sl_op sl_op_attention_dqkv;
extern const struct sl_op sl_op_avgpool;
extern const struct sl_op sl_op_avgpool_dx;
extern const struct sl_op sl_op_batchnorm;
extern const struct sl_op sl_op_batchnorm_dw;
extern const struct sl_op sl_op_batchnorm_dx;
extern const struct sl_op sl_op_batchnorm_eval;
extern const struct sl_op sl_op_batchnorm_eval_dw;
extern const struct sl_op sl_op_batchnorm_eval_dx;
extern const struct sl_op sl_op_bce_with_logits;
extern const struct sl_op sl_op_bce_with_logits_dt;
extern const struct sl_op sl_op_bce_with_logits_dx;
extern const struct sl_op sl_op_broadcast_mean;
extern const struct sl_op sl_op_broadcast_to;
extern const struct sl_op sl_op_concat;
extern const struct sl_op sl_op_conv2d;
extern const struct sl_op sl_op_conv2d_dw;
extern const struct sl_op sl_op_conv2d_dx;
extern const struct sl_op sl_op_cross_entropy;
extern const struct sl_op sl_op_cross_entropy_dx;
extern const struct sl_op sl_op_dot_interaction;
extern const struct sl_op sl_op_dot_interaction_dx;
extern const struct sl_op sl_op_dropout;
extern const struct sl_op sl_op_embed;
extern const struct sl_op sl_op_embed_bag;
extern const struct sl_op sl_op_embed_bag_dw;
extern const struct sl_op sl_op_embed_dw;
extern const struct sl_op sl_op_exp;
extern const struct sl_op sl_op_exp_dx;
extern const struct sl_op sl_op_gelu;
extern const struct sl_op sl_op_gelu_dx;
extern const struct sl_op sl_op_global_avgpool;
extern const struct sl_op sl_op_global_avgpool_dx;
extern const struct sl_op sl_op_identity;
extern const struct sl_op sl_op_layernorm;
extern const struct sl_op sl_op_layernorm_dw;
extern const struct sl_op sl_op_layernorm_dx;
extern const struct sl_op sl_op_log_softmax;
extern const struct sl_op sl_op_log_softmax_dx;
extern const struct sl_op sl_op_lstm;
extern const struct sl_op sl_op_lstm_dgates;
extern const struct sl_op sl_op_lstm_hprev;
extern const struct sl_op sl_op_matmul;
extern const struct sl_op sl_op_maxpool;
extern const struct sl_op sl_op_maxpool_dx;
extern const struct sl_op sl_op_mse;
extern const struct sl_op sl_op_mse_dx;
extern const struct sl_op sl_op_mul;
extern const struct sl_op sl_op_reduce_mean;
extern const struct sl_op sl_op_reduce_sum;
extern const struct sl_op sl_op_relu;
extern const struct sl_op sl_op_relu_dx;
extern const struct sl_op sl_op_reshape;
extern const struct sl_op sl_op_rmsnorm;
extern const struct sl_op sl_op_rmsnorm_dw;
extern const struct sl_op sl_op_rmsnorm_dx;
extern const struct sl_op sl_op_rope;
extern const struct sl_op sl_op_scale;
extern const struct sl_op sl_op_selu;
extern const struct sl_op sl_op_selu_dx;
extern const struct sl_op sl_op_sigmoid;
extern const struct sl_op sl_op_sigmoid_dx;
extern const struct sl_op sl_op_silu;
extern const struct sl_op sl_op_silu_dx;
extern const struct sl_op sl_op_slice;
extern const struct sl_op sl_op_slice_dx;
extern const struct sl_op sl_op_softmax;
extern const struct sl_op sl_op_softmax_dx;
extern const struct sl_op sl_op_split;
extern const struct sl_op sl_op_sub;
extern const struct sl_op sl_op_sum_to;
extern const struct sl_op sl_op_tanh;
extern const struct sl_op sl_op_tanh_dx;
extern const struct sl_op sl_op_transpose;
extern const struct sl_op sl_op_upsample;
extern const struct sl_op sl_op_upsample_dx;

/* One op per line: parallel additions then merge without conflict. */
/* clang-format off */
const struct sl_op *const sl_op_rows[] = {
    &sl_op_add,
    &sl_op_alpha_dropout,
    &sl_op_alpha_dropout_dx,
    &sl_op_attention,
    &sl_op_attention_dqkv,
    &sl_op_avgpool,
    &sl_op_avgpool_dx,
    &sl_op_batchnorm,
    &sl_op_batchnorm_dw,
    &sl_op_batchnorm_dx,
    &sl_op_batchnorm_eval,
    &sl_op_batchnorm_eval_dw,
    &sl_op_batchnorm_eval_dx,
    &sl_op_bce_with_logits,
    &sl_op_bce_with_logits_dt,
    &sl_op_bce_with_logits_dx,
    &sl_op_broadcast_mean,
    &sl_op_broadcast_to,
    &sl_op_concat,
    &sl_op_conv2d,
    &sl_op_conv2d_dw,
    &sl_op_conv2d_dx,
    &sl_op_cross_entropy,
    &sl_op_cross_entropy_dx,
    &sl_op_dot_interaction,
    &sl_op_dot_interaction_dx,
    &sl_op_dropout,
    &sl_op_embed,
    &sl_op_embed_bag,
    &sl_op_embed_bag_dw,
    &sl_op_embed_dw,
    &sl_op_exp,
    &sl_op_exp_dx,
    &sl_op_gelu,
    &sl_op_gelu_dx,
    &sl_op_global_avgpool,
    &sl_op_global_avgpool_dx,
    &sl_op_identity,
    &sl_op_layernorm,
    &sl_op_layernorm_dw,
    &sl_op_layernorm_dx,
    &sl_op_log_softmax,
    &sl_op_log_softmax_dx,
    &sl_op_lstm,
    &sl_op_lstm_dgates,
    &sl_op_lstm_hprev,
    &sl_op_matmul,
    &sl_op_maxpool,
    &sl_op_maxpool_dx,
    &sl_op_mse,
    &sl_op_mse_dx,
    &sl_op_mul,
    &sl_op_reduce_mean,
    &sl_op_reduce_sum,
    &sl_op_relu,
    &sl_op_relu_dx,
    &sl_op_reshape,
    &sl_op_rmsnorm,
    &sl_op_rmsnorm_dw,
    &sl_op_rmsnorm_dx,
    &sl_op_rope,
    &sl_op_scale,
    &sl_op_selu,
    &sl_op_selu_dx,
    &sl_op_sigmoid,
    &sl_op_sigmoid_dx,
    &sl_op_silu,
    &sl_op_silu_dx,
    &sl_op_slice,
    &sl_op_slice_dx,
    &sl_op_softmax,
    &sl_op_softmax_dx,
    &sl_op_split,
    &sl_op_sub,
    &sl_op_sum_to,
    &sl_op_tanh,
    &sl_op_tanh_dx,
    &sl_op_transpose,
    &sl_op_upsample,
    &sl_op_upsample_dx,
};
/* clang-format on */

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
