/* Slivers of A and B: copies that the innermost loop reads contiguously. */
#include "device/cpu/product/gemm_pack.h"

#include "device/cpu/sizes.h"
#include "device/cpu/vec_transpose.h"

#if LANES == 16
/* Transposes four columns of LANES rows: rows 4 j + i become quarter j of x[i], then the quarters
 * are transposed. */
static INLINE void turn_four(const float *const row[LANES], int64_t k, float *to, int64_t step) {
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

/* Transposes LANES columns of `rows` rows. Missing rows repeat the last one. */
static INLINE void turn_block(const float *from, int64_t ld, int64_t rows, float *to,
                              int64_t step) {
    const float *row[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        row[i] = from + min_i64(i, rows - 1) * ld;
#pragma GCC unroll 4
    for (int k = 0; k < LANES; k += 4)
        turn_four(row, k, to + k * step, step);
}
#else
/* Transposes LANES columns of `rows` rows. Missing rows repeat the last one. */
static INLINE void turn_block(const float *from, int64_t ld, int64_t rows, float *to,
                              int64_t step) {
    vf x[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        x[i] = load(from + min_i64(i, rows - 1) * ld);
    transpose(x);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        store(to + i * step, x[i]);
}
#endif

void gemm_pack_turned(const float *from, int64_t ld, int64_t rows, int64_t kc, float *to,
                      int64_t step) {
    int64_t k = 0;
    for (; rows == LANES && k + LANES <= kc; k += LANES)
        turn_block(from + k, ld, LANES, to + k * step, step);
    for (; step == rows && k + LANES <= kc; k += LANES)
        turn_block(from + k, ld, rows, to + k * step, step);
    for (; k < kc; k += LANES) {
        vf x[LANES];
        for (int i = 0; i < LANES; i++)
            x[i] = i < rows ? load_n(from + i * ld + k, kc - k) : (vf){0};
        transpose(x);
        int64_t end = min_i64(LANES, kc - k);
        for (int i = 0; i < end; i++)
            store(to + (k + i) * step, x[i]);
    }
}

void gemm_pack_a(const struct sl_gemm_matrix *a, int64_t i, int64_t rows, int64_t p, int64_t kc,
                 float *to) {
    gemm_pack_turned(a->at + i * a->ld + p, a->ld, rows, kc, to, rows);
}

void gemm_pack_b(const struct sl_gemm_matrix *b, int64_t j, int64_t cols, int64_t p, int64_t kc,
                 float *to) {
    int64_t step = round_up(cols, LANES);
    if (b->transposed) {
        for (int64_t v = 0; v < cols; v += LANES)
            gemm_pack_turned(b->at + (j + v) * b->ld + p, b->ld, min_i64(LANES, cols - v), kc,
                             to + v, step);
        return;
    }
    const float *from = b->at + p * b->ld + j;
    for (int64_t k = 0; k < kc; k++)
        for (int64_t v = 0; v < cols; v += LANES)
            store(to + k * step + v, load_n(from + k * b->ld + v, cols - v));
}

void gemm_pack_panels(const struct sl_gemm_matrix *b, int64_t j, int64_t panels, int64_t p,
                      int64_t kc, float *to) {
    for (int64_t k = 0; k < kc; k++) {
        const float *from = b->at + (p + k) * b->ld + j;
        for (int64_t panel = 0; panel < panels; panel++) {
            float *out = to + (panel * kc + k) * NR;
#pragma GCC unroll 2
            for (int v = 0; v < NV; v++)
                store(out + v * LANES, load(from + panel * NR + v * LANES));
        }
    }
}
