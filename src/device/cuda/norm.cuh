/* Rows of norms: one warp per row, the row in registers if it fits (a multiple of 8, up to 1024
 * elements). */
#ifndef SL_DEVICE_CUDA_NORM_CUH
#define SL_DEVICE_CUDA_NORM_CUH

#include "device/cuda/columns.cuh"

enum { WARPS = 4, KEPT = 4 /* groups of eight per lane */ };

static inline bool fits(i64 n) { return n % 8 == 0 && n <= 32 * 8 * KEPT; }
static inline unsigned row_blocks(i64 rows_) { return (unsigned)((rows_ + WARPS - 1) / WARPS); }

/* Lane l has the groups of eight l, l + 32, ...; the k-th begins at element at(k, lane). */
static __device__ __forceinline__ i64 at(int k, int lane) { return (k * 32 + lane) * 8; }

static __device__ __forceinline__ eight ones() { return {{1, 1, 1, 1, 1, 1, 1, 1}}; }

#endif
