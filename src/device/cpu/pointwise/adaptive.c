/* adaptive_avgpool and relative_bias, with their gradients. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/runs.h"
#include "op/relative.h"

/* The bin of output place i of n covers pixels [bin_from, bin_to) of `size`. */
static INLINE int64_t bin_from(int64_t i, int64_t n, int64_t size) { return i * size / n; }
static INLINE int64_t bin_to(int64_t i, int64_t n, int64_t size) {
    return ((i + 1) * size + n - 1) / n;
}

struct bin {
    int64_t top, bottom, left, n;
};

static INLINE struct bin bin_of(const int64_t x[4], const int64_t y[4], int64_t i) {
    int64_t row = i / y[3], column = i % y[3], left = bin_from(column, y[3], x[3]);
    return (struct bin){bin_from(row, y[2], x[2]), bin_to(row, y[2], x[2]), left,
                        bin_to(column, y[3], x[3]) - left};
}

enum { WIDTH = 1024 }; /* columns that are summed at once */

/* y (+)= the mean of each bin in one row of y. Adds up the rows of x of that bin row first, if they
 * are short. */
static void pool_row(float *y, const float *x, const int64_t xs[4], const int64_t ys[4],
                     int64_t row, bool add) {
    float sums[WIDTH];
    struct bin bin = bin_of(xs, ys, row * ys[3]);
    bool is_short = xs[3] <= WIDTH;
    if (is_short)
        memcpy(sums, x + bin.top * xs[3], (size_t)xs[3] * sizeof *sums);
    for (int64_t r = bin.top + 1; is_short && r < bin.bottom; r++)
        copy_run(sums, x + r * xs[3], xs[3], true);
    for (int64_t i = 0; i < ys[3]; i++) {
        float sum = 0;
        bin = bin_of(xs, ys, row * ys[3] + i);
        for (int64_t r = bin.top; !is_short && r < bin.bottom; r++)
            sum += sum_run(x + r * xs[3] + bin.left, bin.n);
        if (is_short)
            sum = sum_run(sums + bin.left, bin.n);
        y[i] = (add ? y[i] : 0) + sum / (float)((bin.bottom - bin.top) * bin.n);
    }
}

/* dx += dy / count, over the bins of one plane. */
static void spread_plane(float *dx, const float *dy, const int64_t xs[4], const int64_t ys[4]) {
    for (int64_t i = 0; i < ys[2] * ys[3]; i++) {
        struct bin bin = bin_of(xs, ys, i);
        float each = dy[i] / (float)((bin.bottom - bin.top) * bin.n);
        for (int64_t r = bin.top; r < bin.bottom; r++)
            for (int64_t k = 0; k < bin.n; k++)
                dx[r * xs[3] + bin.left + k] += each;
    }
}

static void adaptive_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *x = call->instr->in[0].shape.dim, *y = call->instr->out[0].shape.dim;
    int64_t from, to;
    sl_device_pool_range(x[0] * x[1], 1, thread, threads, &from, &to);
    for (int64_t p = from; p < to; p++)
        for (int64_t row = 0; row < y[2]; row++)
            pool_row((float *)call->out[0] + (p * y[2] + row) * y[3],
                     (const float *)call->in[0] + p * x[2] * x[3], x, y, row, call->add);
}

static void adaptive_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *x = call->instr->out[0].shape.dim, *y = call->instr->in[0].shape.dim;
    int64_t from, to;
    sl_device_pool_range(x[0] * x[1], 1, thread, threads, &from, &to);
    for (int64_t p = from; p < to; p++) {
        float *dx = (float *)call->out[0] + p * x[2] * x[3];
        if (!call->add)
            memset(dx, 0, (size_t)(x[2] * x[3]) * sizeof *dx);
        spread_plane(dx, (const float *)call->in[0] + p * y[2] * y[3], x, y);
    }
}

static void k_adaptive_avgpool(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), adaptive_part);
}
static void k_adaptive_avgpool_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), adaptive_dx_part);
}

/* ---- relative_bias: bucket by bucket of the few distances ---- */

static struct sl_relative relative_of(const struct sl_device_cpu_call *call, int64_t buckets) {
    const union sl_attr *attr = call->instr->attr;
    return (struct sl_relative){buckets, attr[3].i, attr[2].i != 0};
}

/* Writes the buckets of the distances 1 - queries to keys - 1 into scratch. */
static const int32_t *buckets_of(const struct sl_device_cpu_call *call, int64_t buckets) {
    struct sl_relative relative = relative_of(call, buckets);
    int64_t queries = call->instr->attr[0].i, keys = call->instr->attr[1].i;
    int32_t *out = call->scratch;
    for (int64_t d = 0; d < queries + keys - 1; d++)
        out[d] = (int32_t)sl_op_relative_bucket(&relative, d - (queries - 1));
    return out;
}

static int64_t bucket_bytes(const struct sl_instr *instr, int threads) {
    (void)threads;
    return (instr->attr[0].i + instr->attr[1].i) * (int64_t)sizeof(int32_t);
}

static void relative_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *y = call->instr->out[0].shape.dim;
    const float *table = call->in[0];
    const int32_t *bucket = call->scratch;
    int64_t from, to;
    sl_device_pool_range(y[0] * y[1], 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        float *out = (float *)call->out[0] + r * y[2];
        const int32_t *row = bucket + y[1] - 1 - r % y[1];
        for (int64_t j = 0; j < y[2]; j++)
            out[j] = (call->add ? out[j] : 0) + table[row[j] * y[0] + r / y[1]];
    }
}

static void k_relative_bias(const struct sl_device_cpu_call *call) {
    buckets_of(call, call->instr->in[0].shape.dim[0]);
    run_parts(call, numel_out(call, 0), relative_part);
}

static void relative_dw_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const int64_t *dy = call->instr->in[0].shape.dim, *dw = call->instr->out[0].shape.dim;
    const int32_t *bucket = call->scratch;
    float *out = call->out[0];
    int64_t from, to;
    sl_device_pool_range(dw[1], 1, thread, threads, &from, &to);
    for (int64_t h = from; h < to; h++) {
        for (int64_t b = 0; b < dw[0] && !call->add; b++)
            out[b * dw[1] + h] = 0;
        for (int64_t i = 0; i < dy[1]; i++) {
            const float *in = (const float *)call->in[0] + (h * dy[1] + i) * dy[2];
            for (int64_t j = 0; j < dy[2]; j++)
                out[bucket[dy[1] - 1 - i + j] * dw[1] + h] += in[j];
        }
    }
}

static void k_relative_bias_dw(const struct sl_device_cpu_call *call) {
    buckets_of(call, call->instr->out[0].shape.dim[0]);
    run_parts(call, numel_in(call, 0), relative_dw_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(adaptive_kernels)[] = {
    {"adaptive_avgpool", k_adaptive_avgpool, NULL},
    {"adaptive_avgpool_dx", k_adaptive_avgpool_dx, NULL},
    {"relative_bias", k_relative_bias, bucket_bytes},
    {"relative_bias_dw", k_relative_bias_dw, bucket_bytes},
    {0},
};
