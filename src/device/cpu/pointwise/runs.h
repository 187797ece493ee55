/* Operations on contiguous runs of floats. The order of a sum depends only on its length. */
#ifndef SL_DEVICE_CPU_POINTWISE_RUNS_H
#define SL_DEVICE_CPU_POINTWISE_RUNS_H

#include "device/cpu/vec_math.h"

/* y = x, or y += x if add. */
static inline void copy_run(float *y, const float *x, int64_t n, bool add) {
    if (!add) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return;
    }
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, load(y + i) + load(x + i));
    if (i < n)
        put_part(y + i, load_part(x + i, n - i), n - i, true);
}

static inline float sum_run(const float *x, int64_t n) {
    vf s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            s[k] += load(x + i + k * LANES);
    for (; i + LANES <= n; i += LANES)
        s[0] += load(x + i);
    if (i < n)
        s[1] += load_part(x + i, n - i);
    return sum_lanes((s[0] + s[1]) + (s[2] + s[3]));
}

static inline float max_run(const float *x, int64_t n) {
    vf m[4];
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        m[k] = splat(-INFINITY);
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            m[k] = vmax(m[k], load(x + i + k * LANES));
    for (; i + LANES <= n; i += LANES)
        m[0] = vmax(m[0], load(x + i));
    float max = max_lanes(vmax(vmax(m[0], m[1]), vmax(m[2], m[3])));
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

/* Returns the sum of exp(x - max) and stores the exponentials unless y is NULL. Prefetches the
 * floats behind the run, because a caller that sums a long row in pieces reads them next. */
static INLINE float sum_exp(float *y, const float *x, float max, int64_t n) {
    vf s[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        prefetch_run(x + n + i, 2 * LANES);
        for (int k = 0; k < 2; k++) {
            vf e = vexp(load(x + i + k * LANES) - max);
            s[k] += e;
            if (y)
                store(y + i + k * LANES, e);
        }
    }
    float rest = 0;
    for (; i < n; i += LANES) {
        int64_t left = n - i < LANES ? n - i : LANES;
        vf e = vexp(load_at(x, i, n) - max);
        for (int64_t k = 0; k < left; k++)
            rest += e[k];
        if (y)
            store_at(y, e, i, n);
    }
    return sum_lanes(s[0] + s[1]) + rest;
}

#endif
