/* The table of ops, in alphabetical order. */
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

/* One line per op, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_op_add) \
    ROW(sl_op_alpha_dropout) \
    ROW(sl_op_alpha_dropout_dx) \
    ROW(sl_op_attention) \
    ROW(sl_op_attention_dqkv) \
    ROW(sl_op_avgpool) \
    ROW(sl_op_avgpool_dx) \
    ROW(sl_op_batchnorm) \
    ROW(sl_op_batchnorm_dw) \
    ROW(sl_op_batchnorm_dx) \
    ROW(sl_op_batchnorm_eval) \
    ROW(sl_op_batchnorm_eval_dw) \
    ROW(sl_op_batchnorm_eval_dx) \
    ROW(sl_op_bce_with_logits) \
    ROW(sl_op_bce_with_logits_dt) \
    ROW(sl_op_bce_with_logits_dx) \
    ROW(sl_op_broadcast_mean) \
    ROW(sl_op_broadcast_to) \
    ROW(sl_op_concat) \
    ROW(sl_op_conv2d) \
    ROW(sl_op_conv2d_dw) \
    ROW(sl_op_conv2d_dx) \
    ROW(sl_op_cross_entropy) \
    ROW(sl_op_cross_entropy_dx) \
    ROW(sl_op_dot_interaction) \
    ROW(sl_op_dot_interaction_dx) \
    ROW(sl_op_dropout) \
    ROW(sl_op_embed) \
    ROW(sl_op_embed_bag) \
    ROW(sl_op_embed_bag_dw) \
    ROW(sl_op_embed_dw) \
    ROW(sl_op_exp) \
    ROW(sl_op_exp_dx) \
    ROW(sl_op_gelu) \
    ROW(sl_op_gelu_dx) \
    ROW(sl_op_global_avgpool) \
    ROW(sl_op_global_avgpool_dx) \
    ROW(sl_op_identity) \
    ROW(sl_op_layernorm) \
    ROW(sl_op_layernorm_dw) \
    ROW(sl_op_layernorm_dx) \
    ROW(sl_op_log_softmax) \
    ROW(sl_op_log_softmax_dx) \
    ROW(sl_op_lstm) \
    ROW(sl_op_lstm_dgates) \
    ROW(sl_op_lstm_hprev) \
    ROW(sl_op_matmul) \
    ROW(sl_op_maxpool) \
    ROW(sl_op_maxpool_dx) \
    ROW(sl_op_mse) \
    ROW(sl_op_mse_dx) \
    ROW(sl_op_mul) \
    ROW(sl_op_reduce_mean) \
    ROW(sl_op_reduce_sum) \
    ROW(sl_op_relu) \
    ROW(sl_op_relu_dx) \
    ROW(sl_op_reshape) \
    ROW(sl_op_rmsnorm) \
    ROW(sl_op_rmsnorm_dw) \
    ROW(sl_op_rmsnorm_dx) \
    ROW(sl_op_rope) \
    ROW(sl_op_scale) \
    ROW(sl_op_selu) \
    ROW(sl_op_selu_dx) \
    ROW(sl_op_sigmoid) \
    ROW(sl_op_sigmoid_dx) \
    ROW(sl_op_silu) \
    ROW(sl_op_silu_dx) \
    ROW(sl_op_slice) \
    ROW(sl_op_slice_dx) \
    ROW(sl_op_softmax) \
    ROW(sl_op_softmax_dx) \
    ROW(sl_op_split) \
    ROW(sl_op_sub) \
    ROW(sl_op_sum_to) \
    ROW(sl_op_tanh) \
    ROW(sl_op_tanh_dx) \
    ROW(sl_op_transpose) \
    ROW(sl_op_upsample) \
    ROW(sl_op_upsample_dx)
/* clang-format on */

#define DECLARE(row) extern const struct sl_op row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_op *const sl_op_rows[] = {ROWS(POINT)};

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
