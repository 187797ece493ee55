/* Convolutions of 16-bit images with their channels last, by cuDNN graphs. */
#ifndef SL_DEVICE_CUDA_CONV_LAST_H
#define SL_DEVICE_CUDA_CONV_LAST_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns true if cuDNN has a deterministic engine for this conv2d, conv2d_dx or conv2d_dw. */
bool sl_cuda_conv_last_takes(struct sl_cuda_device *cuda, const struct sl_instr *instr);
int64_t sl_cuda_conv_last_bytes(const struct sl_cuda_call *call);
sl_err sl_cuda_conv_last(const struct sl_cuda_call *call);

#ifdef __cplusplus
}
#endif

#endif
