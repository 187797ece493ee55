/* Convolutions over patches: stride and size of the filter are equal, without padding. */
#ifndef SL_DEVICE_CUDA_CONV_PATCH_H
#define SL_DEVICE_CUDA_CONV_PATCH_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Is this conv2d, conv2d_dx or conv2d_dw one? All operands then have their channels in front. */
bool sl_cuda_conv_patch_takes(const struct sl_instr *instr);
int64_t sl_cuda_conv_patch_bytes(const struct sl_instr *instr);
sl_err sl_cuda_conv_patch(const struct sl_cuda_call *call);

#ifdef __cplusplus
}
#endif

#endif
