/* Vectors of 64 bytes: AVX-512 F, BW, DQ, VL. */
#ifndef SL_DEVICE_CPU_VEC_AVX512_H
#define SL_DEVICE_CPU_VEC_AVX512_H

#include "device/cpu/vec_types.h"

#if SL_ISA_VEC_BYTES != 64
#error "only for SL_ISA_VEC_BYTES == 64; include vec.h"
#endif

#include <immintrin.h>

static inline __mmask16 first_lanes(int64_t n) { return (__mmask16)((1u << n) - 1); }

/* Loads the first n < LANES floats. Other lanes become 0; their memory is not accessed. */
static inline vf load_part(const float *p, int64_t n) {
    return (vf)_mm512_maskz_loadu_ps(first_lanes(n), p);
}

static inline void store_part(float *p, vf v, int64_t n) {
    _mm512_mask_storeu_ps(p, first_lanes(n), (__m512)v);
}

/* Return the maximum or minimum, or b if either is NaN. */
static inline vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
static inline vf vmin(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
static inline vf vsqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }

/* Returns x 2^n for an integer n. */
static inline vf scale_by_power(vf x, vf n) { return (vf)_mm512_scalef_ps((__m512)x, (__m512)n); }

/* Returns the 64-bit products of the even lanes. */
static inline vu multiply_even(vu a, vu b) { return (vu)_mm512_mul_epu32((__m512i)a, (__m512i)b); }

/* Take 64-bit words of a and b in turn, from the lower or upper half of each 16 bytes. */
static inline vu interleave_low(vu a, vu b) {
    return (vu)_mm512_unpacklo_epi64((__m512i)a, (__m512i)b);
}

static inline vu interleave_high(vu a, vu b) {
    return (vu)_mm512_unpackhi_epi64((__m512i)a, (__m512i)b);
}

/* Sums the lanes: adds the upper half to the lower half until one lane is left. */
static INLINE float sum_lanes(vf v) {
    __m256 high = _mm512_extractf32x8_ps((__m512)v, 1);
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), high);
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Returns 1 / x for a positive normal x, by a 14-bit estimate and one Newton step. This is 4 times
 * faster than a division. */
static INLINE vf reciprocal(vf x) {
    vf r = (vf)_mm512_rcp14_ps((__m512)x);
    return r * (2.0f - x * r);
}

#endif
