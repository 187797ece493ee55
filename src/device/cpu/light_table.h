/* The table of light kernels: included last, once per instruction set. */
#include "device/cpu/light_adding.h"
#include "device/cpu/light_batchnorm_eval.h"
#include "device/cpu/light_bf16.h"
#include "device/cpu/light_copy.h"
#include "device/cpu/light_dropout.h"
#include "device/cpu/light_elementwise.h"
#include "device/cpu/light_embed.h"
#include "device/cpu/light_image.h"
#include "device/cpu/light_interaction.h"
#include "device/cpu/light_loss.h"
#include "device/cpu/light_norm.h"
#include "device/cpu/light_norm_dw.h"
#include "device/cpu/light_reduce.h"
#include "device/cpu/light_rope.h"
#include "device/cpu/light_softmax.h"
#include "device/cpu/light_upsample.h"

ADDING(batchnorm_dx)
ADDING(batchnorm_eval_dx)
ADDING(cross_entropy_dx)
ADDING(layernorm_dx)
ADDING(rmsnorm_dx)
ADDING(log_softmax_dx)
ADDING(softmax_dx)
ADDING_OWN(rope, rope_scratch)
ADDING(dot_interaction_dx)

extern const struct sl_cpu_kernel LIGHT_TABLE[];

/* clang-format off */
const struct sl_cpu_kernel LIGHT_TABLE[] = {
    {"add", k_add, NULL},
    {"add_layernorm", k_add_layernorm, NULL},
    {"alpha_dropout", k_alpha_dropout, NULL},
    {"alpha_dropout_dx", k_alpha_dropout_dx, NULL},
    {"avgpool", k_avgpool, NULL},
    {"avgpool_dx", k_avgpool_dx, NULL},
    {"batchnorm", k_batchnorm, NULL},
    {"batchnorm_dw", k_batchnorm_dw, NULL},
    {ADDING_ROW(batchnorm_dx)},
    {"batchnorm_eval", k_batchnorm_eval, NULL},
    {"batchnorm_eval_dw", k_batchnorm_eval_dw, NULL},
    {ADDING_ROW(batchnorm_eval_dx)},
    {"bce_with_logits", k_bce_with_logits, mean_scratch},
    {"bce_with_logits_dt", k_bce_with_logits_dt, NULL},
    {"bce_with_logits_dx", k_bce_with_logits_dx, NULL},
    {"bf16_round", k_bf16_round, NULL},
    {"bf16_widen", k_bf16_widen, NULL},
    {"broadcast_mean", k_broadcast_mean, NULL},
    {"broadcast_to", k_broadcast_to, NULL},
    {"concat", k_concat, NULL},
    {"cross_entropy", k_cross_entropy, cross_entropy_scratch},
    {ADDING_ROW(cross_entropy_dx)},
    {"dot_interaction", k_dot_interaction, NULL},
    {ADDING_ROW(dot_interaction_dx)},
    {"dropout", k_dropout, NULL},
    {"embed", k_embed, NULL},
    {"embed_bag", k_embed_bag, NULL},
    {"embed_bag_dw", k_embed_bag_dw, NULL},
    {"embed_dw", k_embed_dw, NULL},
    {"exp", k_exp, NULL},
    {"exp_dx", k_exp_dx, NULL},
    {"gelu", k_gelu, NULL},
    {"gelu_dx", k_gelu_dx, NULL},
    {"global_avgpool", k_global_avgpool, NULL},
    {"global_avgpool_dx", k_global_avgpool_dx, NULL},
    {"identity", k_copy, NULL},
    {"layernorm", k_layernorm, NULL},
    {"layernorm_dw", k_layernorm_dw, norm_dw_scratch},
    {ADDING_ROW(layernorm_dx)},
    {"log_softmax", k_log_softmax, NULL},
    {ADDING_ROW(log_softmax_dx)},
    {"maxpool", k_maxpool, NULL},
    {"maxpool_dx", k_maxpool_dx, NULL},
    {"mse", k_mse, mean_scratch},
    {"mse_dx", k_mse_dx, NULL},
    {"mul", k_mul, NULL},
    {"reduce_mean", k_reduce_mean, sum_scratch},
    {"reduce_sum", k_reduce_sum, sum_scratch},
    {"relu", k_relu, NULL},
    {"relu_dx", k_relu_dx, NULL},
    {"reshape", k_copy, NULL},
    {"rmsnorm", k_rmsnorm, NULL},
    {"rmsnorm_dw", k_rmsnorm_dw, norm_dw_scratch},
    {ADDING_ROW(rmsnorm_dx)},
    {ADDING_ROW(rope)},
    {"scale", k_scale, NULL},
    {"selu", k_selu, NULL},
    {"selu_dx", k_selu_dx, NULL},
    {"sigmoid", k_sigmoid, NULL},
    {"sigmoid_dx", k_sigmoid_dx, NULL},
    {"silu", k_silu, NULL},
    {"silu_dx", k_silu_dx, NULL},
    {"slice", k_slice, NULL},
    {"slice_dx", k_slice_dx, NULL},
    {"softmax", k_softmax, NULL},
    {ADDING_ROW(softmax_dx)},
    {"split", k_split, NULL},
    {"sub", k_sub, NULL},
    {"sum_to", k_sum_to, sum_scratch},
    {"tanh", k_tanh, NULL},
    {"tanh_dx", k_tanh_dx, NULL},
    {"transpose", k_transpose, NULL},
    {"upsample", k_upsample, NULL},
    {"upsample_dx", k_upsample_dx, NULL},
    {0},
};
/* clang-format on */
