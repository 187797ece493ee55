/* Vectors of 16 bytes, for any CPU. */
#ifndef SL_DEVICE_CPU_VEC_ANY_H
#define SL_DEVICE_CPU_VEC_ANY_H

#include "device/cpu/vec_types.h"

/* Loads the first n < LANES floats. Other lanes become 0; their memory is not accessed. */
static inline vf load_part(const float *p, int64_t n) {
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
}

static inline void store_part(float *p, vf v, int64_t n) {
    memcpy(p, &v, (size_t)n * sizeof(float));
}

/* Return the maximum or minimum, or b if either is NaN. */
static inline vf vmax(vf a, vf b) { return pick(a > b, a, b); }
static inline vf vmin(vf a, vf b) { return pick(a < b, a, b); }
static inline vf vsqrt(vf x) {
    for (int i = 0; i < LANES; i++)
        x[i] = sqrtf(x[i]);
    return x;
}

/* Returns x 2^n for integer n in [-150, 150], by two factors, as 2^n alone may overflow. */
static inline vf scale_by_power(vf x, vf n) {
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

/* Returns the 64-bit products of the even lanes. */
static inline vu multiply_even(vu a, vu b) {
    typedef uint64_t wide __attribute__((vector_size(SL_ISA_VEC_BYTES)));
    return (vu)(((wide)a & 0xFFFFFFFFu) * ((wide)b & 0xFFFFFFFFu));
}

/* Take 64-bit words of a and b in turn, from the lower or upper half of each 16 bytes. */
static inline vu interleave_low(vu a, vu b) { return (vu){a[0], a[1], b[0], b[1]}; }
static inline vu interleave_high(vu a, vu b) { return (vu){a[2], a[3], b[2], b[3]}; }

/* Sums the lanes: adds the upper half to the lower half until one lane is left. */
static INLINE float sum_lanes(vf v) { return (v[0] + v[2]) + (v[1] + v[3]); }

/* Returns 1 / x for a positive normal x. */
static INLINE vf reciprocal(vf x) { return 1.0f / x; }

#endif
