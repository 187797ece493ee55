/* The innermost loop of every matrix product: a tile of up to MR x NR results in registers.
 *
 *   c[i][j] (+)= sum over k of a[k * a_step + i] * b[k * b_step + j]     i < mr, j < nv * LANES
 *
 * Each element of A is broadcast; B lies along the lanes. Steps allow packed and unpacked operands:
 * a packed sliver of A has step mr, a transposed matrix its row length. k ascends with one
 * accumulator per result, so a sum does not depend on the tile that computes it.
 */
#ifndef SL_DEVICE_CPU_PRODUCT_GEMM_TILE_H
#define SL_DEVICE_CPU_PRODUCT_GEMM_TILE_H

#include "device/cpu/vec.h"

#if LANES == 16
enum { MR = 14, NV = 2 }; /* 28 of 32 registers */
#elif LANES == 8
enum { MR = 6, NV = 2 }; /* 12 of 16 registers */
#else
enum { MR = 4, NV = 2 }; /* 8 of 16 registers */
#endif
enum { NR = NV * LANES, LINE = 64 / 4 };

struct sl_gemm_tile {
    int64_t kc;
    const float *a, *b;
    int64_t a_step, b_step;
    float *c;
    int64_t ldc;
    int64_t
        c_next; /* floats from the first vector of a row of c to the second: LANES unless columns
                 * jump */
    const float *bias;  /* added to every row; NULL: none */
    const float *start; /* added after the bias; row i is at i * start_step; NULL: none */
    int64_t start_step;
    /* Memory to prefetch while the tile computes. NULL: none. */
    const float *next_a; /* 2 cache lines at each of mr steps */
    int64_t next_a_step;
    const float *next_b; /* at each of next_b_steps: 2 cache lines of next_b_rows rows */
    int64_t next_b_steps, next_b_step, next_b_rows, next_b_ld;
    const float *with_c; /* operand that is combined with c later; its rows are ldc apart */
    int64_t i, j;        /* row and column of the tile in c, for the caller */
};

typedef void tile_fn(const struct sl_gemm_tile *tile);

#define gemm_tiles SL_ISA_NAME(gemm_tiles)

/* [rows - 1][vectors - 1]: the tile of this size */
extern tile_fn *const gemm_tiles[MR][NV];

#endif
