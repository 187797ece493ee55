/* Arithmetic of sizes. */
#ifndef SL_DEVICE_CPU_SIZES_H
#define SL_DEVICE_CPU_SIZES_H

#include <stdint.h>

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

#endif
