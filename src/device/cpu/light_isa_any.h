/* Vectors for any CPU: 16 bytes, and what the vector extension of gcc and clang cannot say. */
#ifndef SL_DEVICE_CPU_LIGHT_ISA_ANY_H
#define SL_DEVICE_CPU_LIGHT_ISA_ANY_H

#define VEC_BYTES 16
#include "device/cpu/light_vec.h"

/* The first n < LANES floats; the others are 0 and are not touched in memory. */
static inline vf load_part(const float *p, int64_t n) {
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

static inline void store_part(float *p, vf v, int64_t n) {
    memcpy(p, &v, (size_t)n * sizeof(float));
}

/* The larger or smaller; b where either is NaN. */
static inline vf vmax(vf a, vf b) { return pick(a > b, a, b); }
static inline vf vmin(vf a, vf b) { return pick(a < b, a, b); }
static inline vf vsqrt(vf x) {
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
}

/* x 2^n for whole n in [-150, 150]; twice, because one factor would leave the range. */
static inline vf scale_by_power(vf x, vf n) {
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

/* The 64-bit products of the even lanes. */
static inline vu multiply_even(vu a, vu b) {
    typedef uint64_t wide __attribute__((vector_size(VEC_BYTES)));
    return (vu)(((wide)a & 0xFFFFFFFFu) * ((wide)b & 0xFFFFFFFFu));
}

/* The 64-bit words of a and b in turn, from the lower or upper half of each 16 bytes. */
static inline vu interleave_low(vu a, vu b) { return (vu){a[0], a[1], b[0], b[1]}; }
static inline vu interleave_high(vu a, vu b) { return (vu){a[2], a[3], b[2], b[3]}; }

/* Halves are added until one is left. */
INLINE float sum_lanes(vf v) { return (v[0] + v[2]) + (v[1] + v[3]); }

/* 1 / x for positive normal x. */
INLINE vf reciprocal(vf x) { return 1.0f / x; }

#endif
