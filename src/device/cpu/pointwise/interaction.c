/* dot_interaction: dot products of all pairs of rows of x [B,F,D]; samples are split over the
 * threads. The gradient of row i is the sum of the other rows, each times the gradient of its
 * pair. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/vec.h"

static INLINE float dot_run(const float *a, const float *b, int64_t n) {
    vf sum = {0};
    for (int64_t i = 0; i < n; i += LANES)
        sum += load_at(a, i, n) * load_at(b, i, n);
    return sum_lanes(sum);
}

static void dot_interaction_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *dim = call->instr->in[0].shape.dim;
    int64_t f = dim[1], n = dim[2], self = call->instr->attr[0].i, from, to;
    int64_t pairs = call->instr->out[0].shape.dim[1];
    sl_device_pool_range(dim[0], 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        const float *x = (const float *)call->in[0] + b * f * n;
        float *y = (float *)call->out[0] + b * pairs;
        for (int64_t i = 0; i < f; i++)
            for (int64_t j = 0; j < i + self; j++)
                *y++ = dot_run(x + i * n, x + j * n, n);
    }
}

static void k_dot_interaction(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0) * call->instr->in[0].shape.dim[1], dot_interaction_part);
}

/* Returns the gradient of the pair (i, j). */
static INLINE float pair_of(const float *dy, int64_t i, int64_t j, int64_t self) {
    int64_t high = i > j ? i : j, low = i > j ? j : i;
    if (i == j)
        return self ? 2 * dy[high * (high + 1) / 2 + low] : 0;
    return dy[high * (high - 1) / 2 + (self ? high : 0) + low];
}

/* dx = or += the sum of the rows of x, each times its factor. */
static INLINE void mix_rows(float *dx, const float *x, const float *factor,
                            struct sl_kernel_rows x_rows, bool add) {
    for (int64_t k = 0; k < x_rows.n; k += LANES) {
        vf sum = add ? load_at(dx, k, x_rows.n) : splat(0);
        for (int64_t j = 0; j < x_rows.count; j++)
            sum += factor[j] * load_at(x + j * x_rows.n, k, x_rows.n);
        store_at(dx, sum, k, x_rows.n);
    }
}

/* Inputs: dy, x. */
static void dot_interaction_dx_part(void *ctx, int thread, int threads) {
    enum { AT_ONCE = 64 };
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *dim = call->instr->in[1].shape.dim;
    int64_t f = dim[1], n = dim[2], self = call->instr->attr[0].i, from, to;
    int64_t pairs = call->instr->in[0].shape.dim[1];
    sl_device_pool_range(dim[0], 1, thread, threads, &from, &to);
    for (int64_t row = from * f; row < to * f; row++) {
        const float *x = (const float *)call->in[1] + row / f * f * n;
        const float *dy = (const float *)call->in[0] + row / f * pairs;
        for (int64_t j = 0; j < f; j += AT_ONCE) {
            struct sl_kernel_rows some = {f - j < AT_ONCE ? f - j : AT_ONCE, n};
            float factor[AT_ONCE];
            for (int64_t k = 0; k < some.count; k++)
                factor[k] = pair_of(dy, row % f, j + k, self);
            mix_rows((float *)call->out[0] + row * n, x + j * n, factor, some, j > 0);
        }
    }
}

static void k_dot_interaction_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1) * call->instr->in[1].shape.dim[1], dot_interaction_dx_part);
}

ADDING(dot_interaction_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(interaction_kernels)[] = {
    {"dot_interaction", k_dot_interaction, NULL},
    {ADDING_ROW(dot_interaction_dx)},
    {0},
};
