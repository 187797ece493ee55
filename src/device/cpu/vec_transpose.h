/* Transposition of a square of vectors in registers. */
#ifndef SL_DEVICE_CPU_VEC_TRANSPOSE_H
#define SL_DEVICE_CPU_VEC_TRANSPOSE_H

#include "device/cpu/vec.h"

/* Interleave a and b, a0 b0 a1 b1 ...: the low halves, and the high halves. */
#if LANES == 16
#define WEAVE_LOW(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define WEAVE_HIGH(a, b)                                                                           \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif LANES == 8
#define WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* One stage of transpose: a perfect shuffle of the rows. */
static INLINE void weave(const vf x[LANES], vf y[LANES]) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
        y[2 * i] = WEAVE_LOW(x[i], x[i + LANES / 2]);
        y[2 * i + 1] = WEAVE_HIGH(x[i], x[i + LANES / 2]);
    }
}

/* Transposes a LANES x LANES matrix by log2(LANES) perfect shuffles of its rows. */
static INLINE void transpose(vf x[LANES]) {
    vf y[LANES];
    weave(x, y);
    weave(y, x);
#if LANES >= 8
    weave(x, y);
#if LANES == 16
    weave(y, x);
#else
    memcpy(x, y, sizeof y);
#endif
#endif
}

#endif
