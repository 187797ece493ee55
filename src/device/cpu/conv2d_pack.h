/* The factor of a convolution that is made of images, packed for the tiles.
 *
 * Pixels that lie side by side are loaded together: whole vectors, halves or quarters of them
 * (images 16, 8 or 4 wide), else one by one.
 */
#ifndef SL_DEVICE_CPU_CONV2D_PACK_H
#define SL_DEVICE_CPU_CONV2D_PACK_H

#include "device/cpu/conv2d_source.h"

typedef float half_vector __attribute__((vector_size(VEC_BYTES / 2), aligned(4), may_alias));
typedef float quarter_vector __attribute__((vector_size(VEC_BYTES / 4), aligned(4), may_alias));

/* How many of VL pixels lie side by side: VL, VL / 2, VL / 4 or 1. */
static int run_of(const int32_t *pixel) {
    bool whole = true, half = true, quarter = true;
    for (int i = 1; i < VL; i++) {
        bool next = pixel[i] == pixel[i - 1] + 1;
        whole = whole && next;
        half = half && (next || i == VL / 2);
        quarter = quarter && (next || i % (VL / 4) == 0);
    }
    return whole ? VL : half ? VL / 2 : quarter && VL > 4 ? VL / 4 : 1;
}

/* VL pixels of one tap. */
INLINE void copy_pixels(const float *from, const int32_t *pixel, int run, float *to) {
    if (run == VL) {
        store(to, load(from + pixel[0]));
    } else if (run == VL / 2) {
        for (int i = 0; i < VL; i += VL / 2)
            *(half_vector *)(to + i) = *(const half_vector *)(from + pixel[i]);
    } else if (run == VL / 4) {
        for (int i = 0; i < VL; i += VL / 4)
            *(quarter_vector *)(to + i) = *(const quarter_vector *)(from + pixel[i]);
    } else {
        for (int i = 0; i < VL; i++)
            to[i] = from[pixel[i]];
    }
}

/* B of a convolution: pixels along the lanes. */
INLINE void copy_taps(const struct gemm *g, const int64_t at[4], const int32_t *pixel, int run,
                      float *to) {
    const struct conv_source *s = g->source;
    const int32_t *tap = s->tap_at + at[PACK_P];
    int64_t step = up_to(at[PACK_COUNT], VL);
    for (int64_t k = 0; k < at[PACK_KC]; k++)
        copy_pixels(s->x + tap[k], pixel, run, to + k * step);
}

static void pack_pixels(const struct gemm *g, const int64_t at[4], float *to) {
    const struct conv_source *s = g->source;
    int64_t cols = at[PACK_COUNT];
    for (int64_t j = 0; j < cols; j += VL) {
        int32_t pixel[VL]; /* lanes past the last repeat the first */
        for (int64_t i = 0; i < VL; i++)
            pixel[i] = s->pixel_at[at[PACK_AT] + j + (i < cols - j ? i : 0)];
        switch (run_of(pixel)) {
        case VL: copy_taps(g, at, pixel, VL, to + j); break;
        case VL / 2: copy_taps(g, at, pixel, VL / 2, to + j); break;
        case VL / 4: copy_taps(g, at, pixel, VL / 4, to + j); break;
        default: copy_taps(g, at, pixel, 0, to + j); break;
        }
    }
}

/* VL pixels of VL taps, turned. */
INLINE void turn_taps(const float *x, const int32_t *tap, const int32_t *pixel, int run, float *to,
                      int64_t step) {
    float rows[VL][VL] __attribute__((aligned(VEC_BYTES)));
    vf v[VL];
    for (int i = 0; i < VL; i++)
        copy_pixels(x + tap[i], pixel, run, rows[i]);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        v[i] = load(rows[i]);
    transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        store(to + i * step, v[i]);
}

/* B of conv2d_dw: taps along the lanes, k runs over pixels. */
static void pack_taps(const struct gemm *g, const int64_t at[4], float *to) {
    const struct conv_source *s = g->source;
    int64_t cols = at[PACK_COUNT], kc = at[PACK_KC], step = up_to(cols, VL);
    const int32_t *pixel = s->pixel_at + at[PACK_P];
    for (int64_t j = 0; j < cols; j += VL) {
        int32_t tap[VL];
        for (int64_t i = 0; i < VL; i++)
            tap[i] = s->tap_at[at[PACK_AT] + j + (i < cols - j ? i : 0)];
        for (int64_t k = 0; k < kc; k += VL) {
            int run = k + VL <= kc ? run_of(pixel + k) : 1;
            float *out = to + k * step + j;
            if (run == VL)
                turn_taps(s->x, tap, pixel + k, VL, out, step);
            else if (run == VL / 2)
                turn_taps(s->x, tap, pixel + k, VL / 2, out, step);
            else if (run > 1)
                turn_taps(s->x, tap, pixel + k, VL / 4, out, step);
            for (int64_t i = 0; run == 1 && i < least(VL, kc - k); i++)
                copy_pixels(s->x + pixel[k + i], tap, 0, out + i * step);
        }
    }
}

#endif
