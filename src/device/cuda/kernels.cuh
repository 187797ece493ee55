/* Shared code of kernels: arrays of any float type, launching, sums over a warp and a block. */
#ifndef SL_DEVICE_CUDA_KERNELS_CUH
#define SL_DEVICE_CUDA_KERNELS_CUH

#include "device/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef int64_t i64;

/* A tensor as a kernel sees it. */
struct array {
    void *at;
    int half; /* enum sl_half: 0 is fp32 */
};

static inline array array_of(const sl_operand &operand, const void *at) {
    return {const_cast<void *>(at), sl_half_of(operand.dtype)};
}
static inline array in_array(const sl_cuda_call *call, int i) {
    return i < call->instr->in_count ? array_of(call->instr->in[i], call->in[i]) : array{};
}
static inline array out_array(const sl_cuda_call *call, int i) {
    return array_of(call->instr->out[i], call->out[i]);
}

static __device__ __forceinline__ float from_half(uint16_t raw, int half) {
    return half == SL_HALF_FP16 ? __half2float(__ushort_as_half(raw))
                                : __bfloat162float(__ushort_as_bfloat16(raw));
}
static __device__ __forceinline__ uint16_t to_half(float v, int half) {
    return half == SL_HALF_FP16 ? __half_as_ushort(__float2half_rn(v))
                                : __bfloat16_as_ushort(__float2bfloat16(v));
}
/* Returns the value that a load gives after v was stored. */
static __device__ __forceinline__ float as_stored(array a, float v) {
    return a.half ? from_half(to_half(v, a.half), a.half) : v;
}

static __device__ __forceinline__ float get(array a, i64 i) {
    return a.half ? from_half(((const uint16_t *)a.at)[i], a.half) : ((const float *)a.at)[i];
}
static __device__ __forceinline__ void put(array a, i64 i, float v) {
    if (a.half)
        ((uint16_t *)a.at)[i] = to_half(v, a.half);
    else
        ((float *)a.at)[i] = v;
}
static __device__ __forceinline__ void put(array a, i64 i, float v, bool add) {
    put(a, i, add ? get(a, i) + v : v);
}

/* Eight elements at once. The index i is a multiple of 8 and the array is aligned to 16 bytes. */
struct eight {
    float v[8];
};
static __device__ __forceinline__ eight get8(array a, i64 i) {
    eight e;
    if (a.half) {
        uint4 raw = *(const uint4 *)((const uint16_t *)a.at + i);
        for (int k = 0; k < 4; k++) {
            float2 f = a.half == SL_HALF_FP16
                           ? __half22float2(((const __half2 *)&raw)[k])
                           : __bfloat1622float2(((const __nv_bfloat162 *)&raw)[k]);
            e.v[2 * k] = f.x;
            e.v[2 * k + 1] = f.y;
        }
    } else {
        *(float4 *)e.v = ((const float4 *)((const float *)a.at + i))[0];
        *(float4 *)(e.v + 4) = ((const float4 *)((const float *)a.at + i))[1];
    }
    return e;
}
static __device__ __forceinline__ void put8(array a, i64 i, const eight &e) {
    if (a.half) {
        uint4 raw;
        for (int k = 0; k < 4; k++)
            if (a.half == SL_HALF_FP16)
                ((__half2 *)&raw)[k] = __floats2half2_rn(e.v[2 * k], e.v[2 * k + 1]);
            else
                ((__nv_bfloat162 *)&raw)[k] = __floats2bfloat162_rn(e.v[2 * k], e.v[2 * k + 1]);
        *(uint4 *)((uint16_t *)a.at + i) = raw;
    } else {
        ((float4 *)((float *)a.at + i))[0] = *(const float4 *)e.v;
        ((float4 *)((float *)a.at + i))[1] = *(const float4 *)(e.v + 4);
    }
}
/* Returns true if get8 may read every array. */
template <class... A> static bool fit8(A... arrays) {
    return (((uintptr_t)arrays.at % 16 == 0) && ...);
}

/* Returns the 16-bit type of all arrays, for kernels that are compiled for one type; SL_HALF_NOT if
 * some array is fp32. Absent arrays do not count. */
template <class... A> static int half_of_all(array first, A... rest) {
    return ((!rest.at || rest.half == first.half) && ... && true) ? first.half : SL_HALF_NOT;
}

/* Return 2^x or e^x, computed by the special function unit with a relative error below 2^-21. */
static __device__ __forceinline__ float power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float fast_exp(float x) {
    return power_of_2(x * 1.4426950408889634f);
}

/* Return sums or maxima over a warp, in a fixed order, to every thread. */
static __device__ __forceinline__ float warp_sum(float v) {
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    return v;
}
static __device__ __forceinline__ float warp_max(float v) {
    for (int h = 16; h; h /= 2)
        v = fmaxf(v, __shfl_xor_sync(~0u, v, h));
    return v;
}
/* The same over a block of at most 32 whole warps. */
static __device__ __forceinline__ float block_sum(float v) {
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_sum(v);
    __syncthreads();
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    return warp_sum(lane < warps ? part[lane] : 0);
}
static __device__ __forceinline__ float block_max(float v) {
    __shared__ float part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    v = warp_max(v);
    __syncthreads();
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    return warp_max(lane < warps ? part[lane] : -INFINITY);
}

/* Loops over [0, count) with all threads of the grid. */
#define GRID_LOOP(i, count)                                                                        \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (count);                          \
         i += (i64)gridDim.x * blockDim.x)

enum { THREADS = 256, MAX_BLOCKS = 132 * 16 };

static inline unsigned blocks_for(i64 count, i64 each) {
    i64 blocks = (count + each - 1) / each;
    return (unsigned)(blocks < 1 ? 1 : blocks > MAX_BLOCKS ? MAX_BLOCKS : blocks);
}

static inline sl_err launched(const sl_cuda_call *call) {
    return sl_cuda_check(cudaGetLastError(), call->instr->kernel);
}

/* Shapes of operands. */
static inline i64 numel(const sl_operand &operand) { return operand.numel; }
struct rows {
    i64 count, n;
};
static inline rows rows_of(const sl_operand &operand) {
    i64 n = operand.shape.rank ? operand.shape.dim[operand.shape.rank - 1] : 1;
    return {operand.numel / n, n};
}

/* Returns the number of chunks of rows for sums over the columns of [count, n]; see columns.cuh. */
static inline i64 column_chunks(i64 count) {
    return count < 64 ? 1 : count < 2048 ? 32 : count < 16384 ? 132 : 264;
}
static inline i64 column_scratch(i64 count, i64 n) {
    return column_chunks(count) * n * (i64)sizeof(float);
}

#endif
