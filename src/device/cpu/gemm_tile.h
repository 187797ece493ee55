/* The innermost loop of every product: a tile of up to MR x NR results in registers.
 *
 *   c[i][j] (+)= sum over k of a[k * a_step + i] * b[k * b_step + j]     i < mr, j < nv * VL
 *
 * A runs down the rows (one broadcast each), B lies along the lanes. Packed or not is only a matter
 * of the steps: a packed sliver of A has step MR, a transposed matrix its row length. k runs
 * upwards with one accumulator per result, so a sum does not depend on the tile it was computed in.
 */
#ifndef SL_DEVICE_CPU_GEMM_TILE_H
#define SL_DEVICE_CPU_GEMM_TILE_H

#include "device/cpu/heavy_vec.h"

#if VL == 16
enum { MR = 14, NV = 2 }; /* 28 of 32 registers */
#elif VL == 8
enum { MR = 6, NV = 2 }; /* 12 of 16 registers */
#else
enum { MR = 4, NV = 2 }; /* 8 of 16 registers */
#endif
enum { NR = NV * VL, LINE = 64 / 4 };

struct tile {
    int64_t kc;
    const float *a, *b;
    int64_t a_step, b_step;
    float *c;
    int64_t ldc;
    int64_t next; /* from the first vector of c and start to the second; VL unless columns jump */
    const float *bias;  /* added to every row; NULL: 0 */
    const float *start; /* added then, row i at i * start_step; NULL: 0 */
    int64_t start_step;
    const float *ahead; /* asked for meanwhile: 2 lines at each of mr steps; NULL: nothing */
    int64_t ahead_step;
    const float *more; /* the same: at each of more_steps more_rows times 2 lines; or NULL */
    int64_t more_steps, more_step, more_rows, more_ld;
    const float *also; /* asked for meanwhile: what c is combined with, rows ldc apart; or NULL */
    int64_t i, j;      /* where the tile lies, for the caller */
};

typedef void tile_fn(const struct tile *tile);

/* Lines of row `row` of c, where a row that does not start a line ends in one more, and of what
 * comes next. */
INLINE void tile_ask(const struct tile *t, int row, int nv) {
    const float *c = t->c + row * t->ldc;
    const float *ahead = t->ahead ? t->ahead + row * t->ahead_step : t->b;
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++)
        __builtin_prefetch(c + j * t->next, 1);
    __builtin_prefetch(c + (nv - 1) * t->next + VL - 1, 1);
    __builtin_prefetch(ahead, 0, 2);
    __builtin_prefetch(ahead + LINE, 0, 2);
    if (t->also) {
        const float *also = t->also + row * t->ldc;
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            __builtin_prefetch(also + j * VL, 0, 2);
        __builtin_prefetch(also + nv * VL - 1, 0, 2);
    }
}

INLINE void tile_ask_more(const struct tile *t, int row) {
    const float *more = t->more + row * t->more_step;
    for (int64_t i = 0; i < t->more_rows; i++) {
        __builtin_prefetch(more + i * t->more_ld, 0, 2);
        __builtin_prefetch(more + i * t->more_ld + LINE, 0, 2);
    }
}

/* steps: of a, of b, and how many. */
INLINE void tile_sum(vf acc[MR][NV], const float *a, const float *b, const int64_t steps[3], int mr,
                     int nv) {
#pragma GCC unroll 2
    for (int64_t k = 0; k < steps[2]; k++) {
        vf bv[NV];
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            bv[j] = load(b + j * VL);
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

INLINE void tile_run(const struct tile *t, int mr, int nv) {
    vf acc[MR][NV];
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            acc[i][j] = (vf){0};
    }
    const float *a = t->a, *b = t->b;
    const int64_t a_step = t->a_step, b_step = t->b_step;
    const bool packed = a_step == mr && b_step == nv * VL;
    /* A short sum is not worth dividing. */
    int64_t chunk = t->kc >= 128 ? t->kc / mr / 2 * 2 : 0, left = t->kc;
    for (int row = 0; row < mr; row++) {
        tile_ask(t, row, nv);
        if (t->more && row < t->more_steps)
            tile_ask_more(t, row);
        int64_t stop = row + 1 < mr ? left - chunk : 0;
        if (packed)
            tile_sum(acc, a, b, (int64_t[]){mr, nv * VL, left - stop}, mr, nv);
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
                acc[i][j] += load(t->bias + j * VL);
        }
    }
    if (t->start) {
#pragma GCC unroll 16
        for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++)
                acc[i][j] += load(t->start + i * t->start_step + j * t->next);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < mr; i++) {
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            store(t->c + i * t->ldc + j * t->next, acc[i][j]);
    }
}

#define TILE(mr)                                                                                   \
    static void tile_##mr##_1(const struct tile *t) { tile_run(t, mr, 1); }                        \
    static void tile_##mr##_2(const struct tile *t) { tile_run(t, mr, 2); }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if VL >= 8
TILE(5)
TILE(6)
#endif
#if VL == 16
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#endif

/* [rows - 1][vectors - 1] */
#define TILES(mr)                                                                                  \
    { tile_##mr##_1, tile_##mr##_2 }
static tile_fn *const tiles[MR][NV] = {
    TILES(1), TILES(2), TILES(3), TILES(4),
#if VL >= 8
    TILES(5), TILES(6),
#endif
#if VL == 16
    TILES(7), TILES(8), TILES(9), TILES(10), TILES(11), TILES(12), TILES(13), TILES(14),
#endif
};

#endif
