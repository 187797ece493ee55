/* Vector types of SL_ISA_VEC_BYTES, and operations that the vector extension of gcc and clang can
 * express. Include vec.h, which adds the rest. */
#ifndef SL_DEVICE_CPU_VEC_TYPES_H
#define SL_DEVICE_CPU_VEC_TYPES_H

#include "device/cpu/isa.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES (SL_ISA_VEC_BYTES / 4)

typedef float vf __attribute__((vector_size(SL_ISA_VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(SL_ISA_VEC_BYTES)));
typedef uint32_t vu __attribute__((vector_size(SL_ISA_VEC_BYTES)));

static INLINE vf splat(float x) { return x - (vf){0}; }

static INLINE vf load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

static INLINE void store(float *p, vf v) { memcpy(p, &v, sizeof v); }

/* Takes a where the mask is all ones, b where it is 0. */
static INLINE vf pick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* Rounds to the nearest bf16, ties to even, in the upper half of each lane; NaN stays NaN. */
static INLINE vu bf16_nearest(vf x) {
    vu bits = (vu)x, nan = (vu)((bits & 0x7FFFFFFFu) > 0x7F800000u);
    vu near = bits + 0x7FFFu + (bits >> 16 & 1);
    return ((nan & (bits | 0x400000u)) | (~nan & near)) & 0xFFFF0000u;
}

static INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7FFFFFFF); }
/* Returns x, which is not negative, with the sign of s. */
static INLINE vf with_sign(vf x, vf s) { return (vf)((vi)x | ((vi)s & INT32_MIN)); }

/* Returns the largest lane. It may ignore a lane that is NaN. */
static INLINE float max_lanes(vf v) {
    float max = v[0];
    for (int i = 1; i < LANES; i++)
        max = v[i] > max ? v[i] : max;
    return max;
}

#endif
