/* upsample: every pixel becomes a block of equal pixels; the gradient sums each block. */
#include "device/cpu/pointwise/kernel.h"

#include <string.h>

/* Rows [from, to) of the small image, counted over all planes. A pixel becomes `high` x `wide`
 * pixels. */
struct blocks {
    int64_t from, to, n, high, wide;
};

static struct blocks blocks_of(const struct sl_device_cpu_call *call, const struct sl_shape *small,
                               int thread, int threads) {
    struct blocks b = {.n = small->dim[3],
                       .high = call->instr->attr[0].ints.at[0],
                       .wide = call->instr->attr[0].ints.at[1]};
    sl_device_pool_range(sl_graph_shape_numel(small, 1) / b.n, 1, thread, threads, &b.from, &b.to);
    return b;
}

static void upsample_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct blocks b = blocks_of(call, &call->instr->in[0].shape, thread, threads);
    int64_t out = b.n * b.wide;
    for (int64_t r = b.from; r < b.to; r++) {
        const float *x = (const float *)call->in[0] + r * b.n;
        float *y = (float *)call->out[0] + r * b.high * out;
        for (int64_t i = 0; i < b.n; i++)
            for (int64_t k = 0; k < b.wide; k++)
                y[i * b.wide + k] = x[i];
        for (int64_t k = 1; k < b.high; k++)
            memcpy(y + k * out, y, (size_t)out * sizeof *y);
    }
}

static void k_upsample(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), upsample_part);
}

static void upsample_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct blocks b = blocks_of(call, &call->instr->out[0].shape, thread, threads);
    int64_t in = b.n * b.wide;
    for (int64_t r = b.from; r < b.to; r++) {
        const float *dy = (const float *)call->in[0] + r * b.high * in;
        float *dx = (float *)call->out[0] + r * b.n;
        for (int64_t i = 0; i < b.n; i++) {
            float sum = 0;
            for (int64_t k = 0; k < b.high * b.wide; k++)
                sum += dy[k / b.wide * in + i * b.wide + k % b.wide];
            dx[i] = call->add ? dx[i] + sum : sum;
        }
    }
}

static void k_upsample_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), upsample_dx_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(upsample_kernels)[] = {
    {"upsample", k_upsample, NULL},
    {"upsample_dx", k_upsample_dx, NULL},
    {0},
};
