/* Vectors of 32 bytes: AVX2 and FMA. */
#ifndef SL_DEVICE_CPU_VEC_AVX2_H
#define SL_DEVICE_CPU_VEC_AVX2_H

#include "device/cpu/vec_types.h"

#if SL_ISA_VEC_BYTES != 32
#error "only for SL_ISA_VEC_BYTES == 32; include vec.h"
#endif

#include <immintrin.h>

static inline __m256i first_lanes(int64_t n) {
    static const int32_t mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(mask + 8 - n));
}

/* Loads the first n < LANES floats. Other lanes become 0; their memory is not accessed. */
static inline vf load_part(const float *p, int64_t n) {
    return (vf)_mm256_maskload_ps(p, first_lanes(n));
}

static inline void store_part(float *p, vf v, int64_t n) {
    _mm256_maskstore_ps(p, first_lanes(n), (__m256)v);
}

/* Return the maximum or minimum, or b if either is NaN. */
static inline vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
static inline vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
static inline vf vsqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }

/* Returns x 2^n for integer n in [-150, 150], by two factors, as 2^n alone may overflow. */
static inline vf scale_by_power(vf x, vf n) {
    vi whole = (vi)_mm256_cvtps_epi32((__m256)n), half = whole >> 1;
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

/* Returns the 64-bit products of the even lanes. */
static inline vu multiply_even(vu a, vu b) { return (vu)_mm256_mul_epu32((__m256i)a, (__m256i)b); }

/* Take 64-bit words of a and b in turn, from the lower or upper half of each 16 bytes. */
static inline vu interleave_low(vu a, vu b) {
    return (vu)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b);
}

static inline vu interleave_high(vu a, vu b) {
    return (vu)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
}

/* Sums the lanes: adds the upper half to the lower half until one lane is left. */
static INLINE float sum_lanes(vf v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

/* Returns 1 / x for a positive normal x. */
static INLINE vf reciprocal(vf x) { return 1.0f / x; }

#endif
