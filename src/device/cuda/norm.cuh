/* Rows of norms. A row of up to 8192 elements, a multiple of 8, stays in the registers of its warps:
 * 1, 2, 4 or 8 warps share a row of up to 1024, 2048, 4096 or 8192 elements. */
#ifndef SL_DEVICE_CUDA_NORM_CUH
#define SL_DEVICE_CUDA_NORM_CUH

#include "device/cuda/columns.cuh"

enum { WARPS = 4, KEPT = 4 /* groups of eight per lane */, MAX_SHARED = 8 };

static inline bool fits(i64 n) { return n % 8 == 0 && n <= 32 * 8 * KEPT * MAX_SHARED; }
static inline unsigned row_blocks(i64 rows_) { return (unsigned)((rows_ + WARPS - 1) / WARPS); }
/* Returns how many warps share a row: as many as leave column_rows(n) rows for eight warps. */
static inline int warps_of(i64 n) { return COLUMN_ROWS / column_rows(n); }

/* W warps share a row. Lane l of warp w has the groups of eight 32 w + l, 32 (W + w) + l, ... Its
 * group k begins at element at<W>(k). */
template <int W> static __device__ __forceinline__ i64 at(int k) {
    int warp = threadIdx.x / 32 % W, lane = threadIdx.x % 32;
    return ((k * W + warp) * 32 + lane) * 8;
}

/* Returns the sums over the warps of a row, in a fixed order. All threads of the block call it. */
template <int W> static __device__ __forceinline__ float2 row_sums(float a, float b) {
    float2 sum = {warp_sum(a), warp_sum(b)};
    if (W == 1)
        return sum;
    __shared__ float2 part[MAX_SHARED];
    int warp = threadIdx.x / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[warp] = sum;
    __syncthreads();
    sum = {0, 0};
    for (int i = 0; i < W; i++) {
        float2 one = part[warp / W * W + i];
        sum.x += one.x;
        sum.y += one.y;
    }
    return sum;
}

static __device__ __forceinline__ eight ones() { return {{1, 1, 1, 1, 1, 1, 1, 1}}; }

#endif
