/* Sums in double over a block. */
#ifndef SL_DEVICE_CUDA_SUMS_CUH
#define SL_DEVICE_CUDA_SUMS_CUH

#include "device/cuda/kernels.cuh"

static __device__ double block_sum_double(double v) {
    __shared__ double part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    v = lane < warps ? part[lane] : 0;
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    __syncthreads();
    return v;
}

#endif
