/* The families of product kernels. */
#include "device/cpu/kernels.h"

/* gru.c */
extern const struct sl_device_cpu_kernel SL_ISA_NAME(gru_kernels)[];

extern const struct sl_device_cpu_kernel *const SL_ISA_NAME(product)[];

const struct sl_device_cpu_kernel *const SL_ISA_NAME(product)[] = {
    SL_ISA_NAME(attention_kernels),
    SL_ISA_NAME(attention_grad_kernels),
    SL_ISA_NAME(conv2d_kernels),
    SL_ISA_NAME(conv2d_dw_kernels),
    SL_ISA_NAME(conv2d_dx_kernels),
    SL_ISA_NAME(grouped_kernels),
    SL_ISA_NAME(gru_kernels),
    SL_ISA_NAME(lstm_kernels),
    SL_ISA_NAME(lstm_grad_kernels),
    SL_ISA_NAME(matmul_kernels),
    NULL,
};
