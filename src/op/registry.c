/* The table of ops, in alphabetical order. */
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_op sl_op_add;
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
extern const struct sl_op sl_op_broadcast_mean;
extern const struct sl_op sl_op_broadcast_to;
extern const struct sl_op sl_op_conv2d;
extern const struct sl_op sl_op_conv2d_dw;
extern const struct sl_op sl_op_conv2d_dx;
extern const struct sl_op sl_op_global_avgpool;
extern const struct sl_op sl_op_global_avgpool_dx;
extern const struct sl_op sl_op_layernorm;
extern const struct sl_op sl_op_layernorm_dw;
extern const struct sl_op sl_op_layernorm_dx;
extern const struct sl_op sl_op_lstm;
extern const struct sl_op sl_op_lstm_dgates;
extern const struct sl_op sl_op_lstm_hprev;
extern const struct sl_op sl_op_matmul;
extern const struct sl_op sl_op_maxpool;
extern const struct sl_op sl_op_maxpool_dx;
extern const struct sl_op sl_op_mul;
extern const struct sl_op sl_op_reduce_mean;
extern const struct sl_op sl_op_reduce_sum;
extern const struct sl_op sl_op_reshape;
extern const struct sl_op sl_op_rope;
extern const struct sl_op sl_op_scale;
extern const struct sl_op sl_op_sub;
extern const struct sl_op sl_op_sum_to;
extern const struct sl_op sl_op_upsample;
extern const struct sl_op sl_op_upsample_dx;

const struct sl_op *const sl_ops[] = {
    &sl_op_add,
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
    &sl_op_broadcast_mean,
    &sl_op_broadcast_to,
    &sl_op_conv2d,
    &sl_op_conv2d_dw,
    &sl_op_conv2d_dx,
    &sl_op_global_avgpool,
    &sl_op_global_avgpool_dx,
    &sl_op_layernorm,
    &sl_op_layernorm_dw,
    &sl_op_layernorm_dx,
    &sl_op_lstm,
    &sl_op_lstm_dgates,
    &sl_op_lstm_hprev,
    &sl_op_matmul,
    &sl_op_maxpool,
    &sl_op_maxpool_dx,
    &sl_op_mul,
    &sl_op_reduce_mean,
    &sl_op_reduce_sum,
    &sl_op_reshape,
    &sl_op_rope,
    &sl_op_scale,
    &sl_op_sub,
    &sl_op_sum_to,
    &sl_op_upsample,
    &sl_op_upsample_dx,
};
/* clang-format on */

const int sl_op_count = SL_COUNT(sl_ops);

const struct sl_op *sl_op_find(struct sl_str name) {
    int low = 0, high = sl_op_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *at = sl_ops[middle]->name;
        size_t length = strlen(at);
        int order = memcmp(name.at, at, name.length < length ? name.length : length);
        if (order == 0)
            order = (name.length > length) - (name.length < length);
        if (order == 0)
            return sl_ops[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_ops[i]->internal ? "" : sl_ops[i]->name;
}

const char *sl_op_nearest(const char *name) { return sl_nearest(name, sl_op_count, name_at, NULL); }
