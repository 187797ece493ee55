/* softmax, log_softmax and their gradients, row by row. */
#ifndef SL_DEVICE_CPU_LIGHT_SOFTMAX_H
#define SL_DEVICE_CPU_LIGHT_SOFTMAX_H

#include "device/cpu/light_norm.h"

static float max_run(const float *x, int64_t n) {
    vf m[4];
    int64_t i = 0;
    for (int k = 0; k < 4; k++)
        m[k] = splat(-INFINITY);
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            m[k] = vmax(m[k], load(x + i + k * LANES));
    for (; i + LANES <= n; i += LANES)
        m[0] = vmax(m[0], load(x + i));
    float most = max_lanes(vmax(vmax(m[0], m[1]), vmax(m[2], m[3])));
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

/* Sum of exp(x - most); the exponentials are stored unless y is NULL. What follows the row in
 * memory is fetched meanwhile: who sums a long row in pieces reads it next. */
INLINE float sum_exp(float *y, const float *x, float most, int64_t n) {
    vf s[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        fetch(x + n + i, 2 * LANES);
        for (int k = 0; k < 2; k++) {
            vf e = vexp(load(x + i + k * LANES) - most);
            s[k] += e;
            if (y)
                store(y + i + k * LANES, e);
        }
    }
    float rest = 0;
    for (; i < n; i += LANES) {
        int64_t left = n - i < LANES ? n - i : LANES;
        vf e = vexp(load_at(x, i, n) - most);
        for (int64_t k = 0; k < left; k++)
            rest += e[k];
        if (y)
            store_at(y, e, i, n);
    }
    return sum_lanes(s[0] + s[1]) + rest;
}

static void softmax_row(float *y, const float *x, int64_t n) {
    float sum = sum_exp(y, x, max_run(x, n), n);
    for (int64_t i = 0; i < n; i += LANES)
        store_at(y, load_at(y, i, n) * (1.0f / sum), i, n);
}

static void log_softmax_row(float *y, const float *x, int64_t n) {
    float most = max_run(x, n), off = logf(sum_exp(NULL, x, most, n));
    for (int64_t i = 0; i < n; i += LANES)
        store_at(y, (load_at(x, i, n) - most) - off, i, n);
}

static void softmax_dx_row(float *dx, const float *dy, const float *y, int64_t n) {
    vf dots = {0};
    for (int64_t i = 0; i < n; i += LANES)
        dots += load_at(dy, i, n) * load_at(y, i, n);
    float dot = sum_lanes(dots);
    for (int64_t i = 0; i < n; i += LANES)
        store_at(dx, load_at(y, i, n) * (load_at(dy, i, n) - dot), i, n);
}

static void log_softmax_dx_row(float *dx, const float *dy, const float *y, int64_t n) {
    float sum = sum_run(dy, n);
    for (int64_t i = 0; i < n; i += LANES)
        store_at(dx, load_at(dy, i, n) - vexp(load_at(y, i, n)) * sum, i, n);
}

#define ROWWISE(name)                                                                              \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        const struct sl_cpu_call *call = ctx;                                                      \
        struct rows rows = rows_of(&call->instr->in[0].shape);                                     \
        int64_t from, to, n = rows.n;                                                              \
        sl_pool_range(rows.count, 1, thread, threads, &from, &to);                                 \
        for (int64_t r = from; r < to; r++)                                                        \
            name##_row((float *)call->out[0] + r * n, ROW_ARGS, n);                                \
    }                                                                                              \
    static void k_##name(const struct sl_cpu_call *call) {                                         \
        split(call, numel_in(call, 0), name##_part);                                               \
    }

#define ROW_ARGS (const float *)call->in[0] + r *n
ROWWISE(softmax)
ROWWISE(log_softmax)
#undef ROW_ARGS
#define ROW_ARGS (const float *)call->in[0] + r *n, (const float *)call->in[1] + r *n
ROWWISE(softmax_dx)
ROWWISE(log_softmax_dx)
#undef ROW_ARGS

#endif
