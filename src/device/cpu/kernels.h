/* The kernels of one instruction set, by family; each list ends with a row {0}. */
#ifndef SL_DEVICE_CPU_KERNELS_H
#define SL_DEVICE_CPU_KERNELS_H

#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"

#define KERNELS(family) extern const struct sl_device_cpu_kernel SL_ISA_NAME(family##_kernels)[]

/* device/cpu/product: matrix products and ops made of them; arithmetic limits their speed. */
KERNELS(attention);
KERNELS(attention_grad);
KERNELS(conv2d);
KERNELS(conv2d_dw);
KERNELS(conv2d_dx);
KERNELS(grouped);
KERNELS(lstm);
KERNELS(lstm_grad);
KERNELS(matmul);

/* device/cpu/pointwise: ops that read each element a few times; memory limits their speed. */
KERNELS(adaptive);
KERNELS(batchnorm);
KERNELS(bf16);
KERNELS(binary);
KERNELS(copy);
KERNELS(dropout);
KERNELS(elementwise);
KERNELS(embed);
KERNELS(extrema);
KERNELS(groupnorm);
KERNELS(image);
KERNELS(index);
KERNELS(interaction);
KERNELS(loss);
KERNELS(moe);
KERNELS(norm);
KERNELS(norm_dw);
KERNELS(order);
KERNELS(pad);
KERNELS(reduce);
KERNELS(rope);
KERNELS(shard);
KERNELS(softmax);
KERNELS(unary);
KERNELS(upsample);

#undef KERNELS

#endif
