/* Slivers of A and B, copied so that the innermost loop reads them from end to end.
 *
 *   A: [kc][rows], rows <= MR          B: [kc][nv * VL], columns past the matrix are 0
 *
 * Whichever way the matrix lies, one of the copies is a transposition, done in registers. Stores of
 * A are VL wide and overlap: row k + 1 overwrites what row k wrote too much, so that a buffer of A
 * has VL floats more than it needs.
 */
#ifndef SL_DEVICE_CPU_GEMM_PACK_H
#define SL_DEVICE_CPU_GEMM_PACK_H

#include "device/cpu/gemm_tile.h"

struct matrix { /* element (i, j) at i * ld + j; transposed: at j * ld + i */
    const float *at;
    int64_t ld;
    bool transposed;
};

#if VL == 16
/* Four columns of VL rows: rows 4 j + i become quarter j of x[i], then quarters are turned. */
INLINE void turn_four(const float *const row[VL], int64_t k, float *to, int64_t step) {
    __m512 x[4], low, high, more_low, more_high;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_castps128_ps512(_mm_loadu_ps(row[i] + k));
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[4 + i] + k), 1);
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[8 + i] + k), 2);
        x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(row[12 + i] + k), 3);
    }
    low = _mm512_unpacklo_ps(x[0], x[1]);
    high = _mm512_unpackhi_ps(x[0], x[1]);
    more_low = _mm512_unpacklo_ps(x[2], x[3]);
    more_high = _mm512_unpackhi_ps(x[2], x[3]);
    store(to, (vf)_mm512_shuffle_ps(low, more_low, 0x44));
    store(to + step, (vf)_mm512_shuffle_ps(low, more_low, 0xEE));
    store(to + 2 * step, (vf)_mm512_shuffle_ps(high, more_high, 0x44));
    store(to + 3 * step, (vf)_mm512_shuffle_ps(high, more_high, 0xEE));
}

/* VL columns of `rows` rows, turned; whole rows are read, the last one again for those missing. */
INLINE void turn_block(const float *from, int64_t ld, int64_t rows, float *to, int64_t step) {
    const float *row[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        row[i] = from + least(i, rows - 1) * ld;
#pragma GCC unroll 4
    for (int k = 0; k < VL; k += 4)
        turn_four(row, k, to + k * step, step);
}
#else
/* VL columns of `rows` rows, turned; whole rows are read, the last one again for those missing. */
INLINE void turn_block(const float *from, int64_t ld, int64_t rows, float *to, int64_t step) {
    vf x[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        x[i] = load(from + least(i, rows - 1) * ld);
    transpose(x);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        store(to + i * step, x[i]);
}
#endif

/* to[k * step + i] = from[i * ld + k] for i < rows <= VL, k < kc; the other lanes up to VL are 0,
 * or anything where the next k overwrites them (step == rows). */
static void pack_turned(const float *from, int64_t ld, int64_t rows, int64_t kc, float *to,
                        int64_t step) {
    int64_t k = 0;
    for (; rows == VL && k + VL <= kc; k += VL)
        turn_block(from + k, ld, VL, to + k * step, step);
    for (; step == rows && k + VL <= kc; k += VL)
        turn_block(from + k, ld, rows, to + k * step, step);
    for (; k < kc; k += VL) {
        vf x[VL];
        for (int i = 0; i < VL; i++)
            x[i] = i < rows ? load_n(from + i * ld + k, kc - k) : (vf){0};
        transpose(x);
        int64_t end = least(VL, kc - k);
        for (int i = 0; i < end; i++)
            store(to + (k + i) * step, x[i]);
    }
}

/* Rows [i, i + rows) and k in [p, p + kc) of A, which is not transposed. */
static void pack_a(const struct matrix *a, int64_t i, int64_t rows, int64_t p, int64_t kc,
                   float *to) {
    pack_turned(a->at + i * a->ld + p, a->ld, rows, kc, to, rows);
}

/* Columns [j, j + cols), cols <= NR, and k in [p, p + kc) of B. */
static void pack_b(const struct matrix *b, int64_t j, int64_t cols, int64_t p, int64_t kc,
                   float *to) {
    int64_t step = up_to(cols, VL);
    if (b->transposed) {
        for (int64_t v = 0; v < cols; v += VL)
            pack_turned(b->at + (j + v) * b->ld + p, b->ld, least(VL, cols - v), kc, to + v, step);
        return;
    }
    const float *from = b->at + p * b->ld + j;
    for (int64_t k = 0; k < kc; k++)
        for (int64_t v = 0; v < cols; v += VL)
            store(to + k * step + v, load_n(from + k * b->ld + v, cols - v));
}

/* `panels` whole panels of B from column j on, to[panel * kc * NR + ...]: row by row, so that the
 * matrix is read from end to end. */
static void pack_panels(const struct matrix *b, int64_t j, int64_t panels, int64_t p, int64_t kc,
                        float *to) {
    for (int64_t k = 0; k < kc; k++) {
        const float *from = b->at + (p + k) * b->ld + j;
        for (int64_t panel = 0; panel < panels; panel++) {
            float *out = to + (panel * kc + k) * NR;
#pragma GCC unroll 2
            for (int v = 0; v < NV; v++)
                store(out + v * VL, load(from + panel * NR + v * VL));
        }
    }
}

/* sums[i] = or += sum over k of from[k * step + i], i < count <= VL. */
INLINE void sum_sliver(const float *from, int64_t step, int64_t kc, float *sums, int64_t count,
                       bool add) {
    vf sum = {0};
    for (int64_t k = 0; k < kc; k++)
        sum += load_n(from + k * step, count);
    if (add)
        sum += load_n(sums, count);
    store_n(sums, sum, count);
}

#endif
