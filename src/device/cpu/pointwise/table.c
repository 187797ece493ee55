/* The families of pointwise kernels. */
#include "device/cpu/kernels.h"

extern const struct sl_device_cpu_kernel *const SL_ISA_NAME(pointwise)[];

const struct sl_device_cpu_kernel *const SL_ISA_NAME(pointwise)[] = {
    SL_ISA_NAME(adaptive_kernels),    SL_ISA_NAME(batchnorm_kernels),
    SL_ISA_NAME(bf16_kernels),        SL_ISA_NAME(binary_kernels),
    SL_ISA_NAME(copy_kernels),        SL_ISA_NAME(dropout_kernels),
    SL_ISA_NAME(elementwise_kernels), SL_ISA_NAME(embed_kernels),
    SL_ISA_NAME(extrema_kernels),     SL_ISA_NAME(groupnorm_kernels),
    SL_ISA_NAME(image_kernels),       SL_ISA_NAME(index_kernels),
    SL_ISA_NAME(interaction_kernels), SL_ISA_NAME(loss_kernels),
    SL_ISA_NAME(moe_kernels),         SL_ISA_NAME(norm_kernels),
    SL_ISA_NAME(norm_dw_kernels),     SL_ISA_NAME(order_kernels),
    SL_ISA_NAME(pad_kernels),         SL_ISA_NAME(reduce_kernels),
    SL_ISA_NAME(rope_kernels),        SL_ISA_NAME(shard_kernels),
    SL_ISA_NAME(softmax_kernels),     SL_ISA_NAME(unary_kernels),
    SL_ISA_NAME(upsample_kernels),    NULL,
};
