/* The innermost loop of every matrix product, for each number of rows and vectors. */
#include "device/cpu/product/gemm_tile.h"

/* sum + a b, where one float a is broadcast. AVX-512 broadcasts within the multiplication, which
 * saves an instruction if a is used once. It is fused like all other products of this file, so the
 * bits are the same. */
static INLINE vf add_spread(vf sum, const float *a, vf b) {
#if LANES == 16
    __asm__("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*a), "v"(b));
    return sum;
#else
    return sum + *a * b;
#endif
}

/* Prefetches row `row` of c and memory for later tiles. Prefetches the row's last element too,
 * because an unaligned row ends in one more cache line. */
static INLINE void tile_prefetch(const struct sl_gemm_tile *t, int row, int nv) {
    const float *c = t->c + row * t->ldc;
    const float *next_a = t->next_a ? t->next_a + row * t->next_a_step : t->b;
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++)
        __builtin_prefetch(c + j * t->c_next, 1);
    __builtin_prefetch(c + (nv - 1) * t->c_next + LANES - 1, 1);
    __builtin_prefetch(next_a, 0, 2);
    __builtin_prefetch(next_a + LINE, 0, 2);
    if (t->with_c) {
        const float *with_c = t->with_c + row * t->ldc;
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            __builtin_prefetch(with_c + j * LANES, 0, 2);
        __builtin_prefetch(with_c + nv * LANES - 1, 0, 2);
    }
}

static INLINE void tile_prefetch_b(const struct sl_gemm_tile *t, int row) {
    const float *next_b = t->next_b + row * t->next_b_step;
    for (int64_t i = 0; i < t->next_b_rows; i++) {
        __builtin_prefetch(next_b + i * t->next_b_ld, 0, 2);
        __builtin_prefetch(next_b + i * t->next_b_ld + LINE, 0, 2);
    }
}

/* steps[]: step of a, step of b, number of k. */
static INLINE void tile_sum(vf acc[MR][NV], const float *a, const float *b, const int64_t steps[3],
                            int mr, int nv) {
#pragma GCC unroll 2
    for (int64_t k = 0; k < steps[2]; k++) {
        vf bv[NV];
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            bv[j] = load(b + j * LANES);
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++)
                acc[i][j] = i % 4 ? add_spread(acc[i][j], a + i, bv[j]) : acc[i][j] + a[i] * bv[j];
        }
        a += steps[0];
        b += steps[1];
    }
}

static INLINE void tile_run(const struct sl_gemm_tile *t, int mr, int nv) {
    vf acc[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            acc[i][j] = (vf){0};
    }
    const float *a = t->a, *b = t->b;
    const int64_t a_step = t->a_step, b_step = t->b_step;
    const bool packed = a_step == mr && b_step == nv * LANES;
    /* The sum over k runs in mr chunks; before each, one row of the result is prefetched. A sum
     * shorter than 128 runs whole after all prefetches. */
    int64_t chunk = t->kc >= 128 ? t->kc / mr / 2 * 2 : 0, left = t->kc;
    for (int row = 0; row < mr; row++) {
        tile_prefetch(t, row, nv);
        if (t->next_b && row < t->next_b_steps)
            tile_prefetch_b(t, row);
        int64_t stop = row + 1 < mr ? left - chunk : 0;
        if (packed)
            tile_sum(acc, a, b, (int64_t[]){mr, nv * LANES, left - stop}, mr, nv);
        else
            tile_sum(acc, a, b, (int64_t[]){a_step, b_step, left - stop}, mr, nv);
        a += (left - stop) * a_step;
        b += (left - stop) * b_step;
        left = stop;
    }
    if (t->bias) {
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++)
                acc[i][j] += load(t->bias + j * LANES);
        }
    }
    if (t->start) {
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++)
                acc[i][j] += load(t->start + i * t->start_step + j * t->c_next);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            store(t->c + i * t->ldc + j * t->c_next, acc[i][j]);
    }
}

#define TILE(mr)                                                                                   \
    static void tile_##mr##_1(const struct sl_gemm_tile *t) { tile_run(t, mr, 1); }                \
    static void tile_##mr##_2(const struct sl_gemm_tile *t) { tile_run(t, mr, 2); }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if LANES >= 8
TILE(5)
TILE(6)
#endif
#if LANES == 16
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif

#define TILES(mr)                                                                                  \
    { tile_##mr##_1, tile_##mr##_2 }
tile_fn *const gemm_tiles[MR][NV] = {
    TILES(1), TILES(2), TILES(3), TILES(4),
#if LANES >= 8
    TILES(5), TILES(6),
#endif
#if LANES == 16
    TILES(7), TILES(8), TILES(9), TILES(10), TILES(11), TILES(12), TILES(13), TILES(14),
#endif
};
