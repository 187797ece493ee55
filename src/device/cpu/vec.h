/* Vectors as wide as the registers of the instruction set (isa.h).
 *
 *   vf, vi, vu     LANES floats, int32_t, uint32_t; + - * / < & << work on them as in C
 *   load, store    whole vectors, any alignment; load_part, store_part, load_n ...: parts of one
 *   vmax, vmin, vsqrt, reciprocal, sum_lanes ...
 */
#ifndef SL_DEVICE_CPU_VEC_H
#define SL_DEVICE_CPU_VEC_H

#include "device/cpu/isa.h"

#if SL_ISA_VEC_BYTES == 64
#include "device/cpu/vec_avx512.h"
#elif SL_ISA_VEC_BYTES == 32
#include "device/cpu/vec_avx2.h"
#else
#include "device/cpu/vec_any.h"
#endif

/* Loads the first n floats, n >= 0. Other lanes become 0; their memory is not accessed. */
static INLINE vf load_n(const float *p, int64_t n) {
    return n >= LANES ? load(p) : load_part(p, n);
}

static INLINE void store_n(float *p, vf x, int64_t n) {
    if (n >= LANES)
        store(p, x);
    else
        store_part(p, x, n);
}

/* Loads lanes from element i on of a row of n. Lanes past the end become 0. */
static INLINE vf load_at(const float *p, int64_t i, int64_t n) {
    return i + LANES <= n ? load(p + i) : load_part(p + i, n - i);
}

static INLINE void store_at(float *p, vf v, int64_t i, int64_t n) {
    if (i + LANES <= n)
        store(p + i, v);
    else
        store_part(p + i, v, n - i);
}

/* y = v, or y += v if `add`, for a whole vector or for its first n lanes. */
static INLINE void put(float *y, vf v, bool add) { store(y, add ? load(y) + v : v); }

static INLINE void put_part(float *y, vf v, int64_t n, bool add) {
    store_part(y, add ? load_part(y, n) + v : v, n);
}

/* Prefetches `count` floats at p, which may point outside of any object. */
static INLINE void prefetch_run(const float *p, int64_t count) {
    for (int64_t i = 0; i < count; i += 16)
        __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)i * sizeof(float)));
}

#endif
