/* Vectors as wide as the instruction set (VEC_BYTES), with the vector extension of gcc and clang.
 *
 * Kernels are written once against this and compiled per instruction set; light_isa_*.h sets the
 * width and adds the few things that the extension cannot say. Everything is static: the same names
 * exist once per file that is compiled.
 */
#ifndef SL_DEVICE_CPU_LIGHT_VEC_H
#define SL_DEVICE_CPU_LIGHT_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(VEC_BYTES)));
typedef uint32_t vu __attribute__((vector_size(VEC_BYTES)));

enum { LANES = VEC_BYTES / 4 };

#define INLINE static inline __attribute__((always_inline))

INLINE vf splat(float x) { return x - (vf){0}; }

INLINE vf load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vf v) { memcpy(p, &v, sizeof v); }

/* a where the mask is all ones, b where it is 0. */
INLINE vf pick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }

/* The nearest bf16, the even one of two, in the upper half; NaN stays NaN. */
INLINE vu bf16_nearest(vf x) {
    vu bits = (vu)x, nan = (vu)((bits & 0x7FFFFFFFu) > 0x7F800000u);
    vu near = bits + 0x7FFFu + (bits >> 16 & 1);
    return ((nan & (bits | 0x400000u)) | (~nan & near)) & 0xFFFF0000u;
}

INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7FFFFFFF); }
/* |x| with the sign of s, for x >= 0. */
INLINE vf with_sign(vf x, vf s) { return (vf)((vi)x | ((vi)s & INT32_MIN)); }

/* A NaN lane may be lost. */
INLINE float max_lanes(vf v) {
    float most = v[0];
    for (int i = 1; i < LANES; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

#endif
