/* What the heavy kernels add to the vectors of light_vec.h: any count of lanes, transposition. */
#ifndef SL_DEVICE_CPU_HEAVY_VEC_H
#define SL_DEVICE_CPU_HEAVY_VEC_H

#include "device/cpu/cpu.h"

#define VL (VEC_BYTES / 4) /* LANES, for the preprocessor */

/* The first n floats, n >= 0; lanes past them are 0 and their memory is not touched. */
INLINE vf load_n(const float *p, int64_t n) { return n >= VL ? load(p) : load_part(p, n); }

INLINE void store_n(float *p, vf x, int64_t n) {
    if (n >= VL)
        store(p, x);
    else
        store_part(p, x, n);
}

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
/* The next multiple. */
INLINE int64_t up_to(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* sum + a b with a in every lane. With AVX-512 the multiplication itself spreads a: an operation
 * less where a is wanted once. Contracted like all others (cmake/SluiceRooms.cmake): same bits. */
INLINE vf add_spread(vf sum, const float *a, vf b) {
#if VL == 16
    __asm__("vfmadd231ps %1%{1to16%}, %2, %0" : "+v"(sum) : "m"(*a), "v"(b));
    return sum;
#else
    return sum + *a * b;
#endif
}

/* Rows a and b woven: a0 b0 a1 b1 ... (low halves), and the same of the high halves. */
#if VL == 16
#define WEAVE_LOW(a, b)                                                                            \
    __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define WEAVE_HIGH(a, b)                                                                           \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VL == 8
#define WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define WEAVE_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define WEAVE_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* One stage of the transposition below. */
INLINE void weave(const vf x[VL], vf y[VL]) {
#pragma GCC unroll 8
    for (int i = 0; i < VL / 2; i++) {
        y[2 * i] = WEAVE_LOW(x[i], x[i + VL / 2]);
        y[2 * i + 1] = WEAVE_HIGH(x[i], x[i + VL / 2]);
    }
}

/* x[i][j] <-> x[j][i]: log2(VL) perfect shuffles of the rows. */
INLINE void transpose(vf x[VL]) {
    vf y[VL];
    weave(x, y);
    weave(y, x);
#if VL >= 8
    weave(x, y);
#if VL == 16
    weave(y, x);
#else
    memcpy(x, y, sizeof y);
#endif
#endif
}

#endif
