/* softmax, log_softmax and their gradients, row by row. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/runs.h"

static void softmax_row(float *y, const float *x, int64_t n) {
    float sum = sum_exp(y, x, max_run(x, n), n);
    for (int64_t i = 0; i < n; i += LANES)
        store_at(y, load_at(y, i, n) * (1.0f / sum), i, n);
}

static void log_softmax_row(float *y, const float *x, int64_t n) {
    float max = max_run(x, n), off = logf(sum_exp(NULL, x, max, n));
    for (int64_t i = 0; i < n; i += LANES)
        store_at(y, (load_at(x, i, n) - max) - off, i, n);
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
        const struct sl_device_cpu_call *call = ctx;                                               \
        struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);                           \
        int64_t from, to, n = rows.n;                                                              \
        sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);                          \
        for (int64_t r = from; r < to; r++)                                                        \
            name##_row((float *)call->out[0] + r * n, ROW_ARGS, n);                                \
    }                                                                                              \
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        run_parts(call, numel_in(call, 0), name##_part);                                           \
    }

#define ROW_ARGS (const float *)call->in[0] + r *n
ROWWISE(softmax)
ROWWISE(log_softmax)
#undef ROW_ARGS
#define ROW_ARGS (const float *)call->in[0] + r *n, (const float *)call->in[1] + r *n
ROWWISE(softmax_dx)
ROWWISE(log_softmax_dx)
#undef ROW_ARGS

ADDING(softmax_dx)
ADDING(log_softmax_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(softmax_kernels)[] = {
    {"log_softmax", k_log_softmax, NULL},
    {ADDING_ROW(log_softmax_dx)},
    {"softmax", k_softmax, NULL},
    {ADDING_ROW(softmax_dx)},
    {0},
};
