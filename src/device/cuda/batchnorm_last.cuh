/* batchnorm and sums over pixels of images with their channels last. */
#ifndef SL_DEVICE_CUDA_BATCHNORM_LAST_CUH
#define SL_DEVICE_CUDA_BATCHNORM_LAST_CUH

#include "device/cuda/kernels.cuh"

sl_err bn_last(const sl_cuda_call *call); /* for batchnorm and batchnorm_relu */
sl_err bn_last_dx(const sl_cuda_call *call);
sl_err bn_last_dw(const sl_cuda_call *call);
sl_err bn_last_grad(const sl_cuda_call *call);
/* out[0] [C] = the sum of in[0] over all axes except the channels. */
sl_err sum_channels_last(const sl_cuda_call *call);
/* Returns the bytes of scratch that these calls need; 0 if no image has its channels last. */
i64 bn_last_bytes(const sl_cuda_call *call);

#endif
