/* conv2d and its gradients for images [B,C,H,W] by simple loops: for shapes for which cuDNN has no
 * deterministic algorithm. */
#ifndef SL_DEVICE_CUDA_CONV_OWN_CUH
#define SL_DEVICE_CUDA_CONV_OWN_CUH

#include "device/cuda/kernels.cuh"

struct conv_own {
    array x, w, y;                 /* x, w, y, or their gradients */
    i64 xs[4], ws[4], ys[4];       /* sizes [B,C,H,W], [K,C/groups,R,S], [B,K,H,W] */
    i64 stride[2], pad[2], gap[2]; /* gap is the dilation */
};

void conv_own_forward(const sl_cuda_call *call, const conv_own &z);
void conv_own_dx(const sl_cuda_call *call, const conv_own &z); /* writes x */
void conv_own_dw(const sl_cuda_call *call, const conv_own &z); /* writes w */

#endif
