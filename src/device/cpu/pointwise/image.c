/* Pooling of images [B,C,H,W]: planes are split over the threads. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/runs.h"

enum { POOL_KERNEL, POOL_STRIDE, POOL_PAD, POOL_INCLUDE };

/* One side of a window, without what lies outside the image. */
struct span {
    int64_t from, to;
};

static struct span span_of(const union sl_attr *attr, int direction, int64_t at, int64_t size) {
    int64_t from = at * attr[POOL_STRIDE].ints.at[direction] - attr[POOL_PAD].ints.at[direction];
    int64_t to = from + attr[POOL_KERNEL].ints.at[direction];
    return (struct span){from > 0 ? from : 0, to < size ? to : size};
}

/* Planes [from, to) of a part, with the sizes of a plane of x (h, w) and of y (oh, ow). */
struct planes {
    int64_t from, to;
    int64_t h, w, oh, ow;
};

static struct planes planes_of(const struct sl_shape *x, const struct sl_shape *y, int thread,
                               int threads) {
    struct planes p = {.h = x->dim[2], .w = x->dim[3], .oh = y->dim[2], .ow = y->dim[3]};
    sl_device_pool_range(x->dim[0] * x->dim[1], 1, thread, threads, &p.from, &p.to);
    return p;
}

/* Returns the index of the maximum: the first of equal values. A NaN counts as the largest. */
static int32_t find_largest(const float *x, int64_t width, struct span row, struct span col) {
    int64_t best = row.from * width + col.from;
    for (int64_t r = row.from; r < row.to; r++)
        for (int64_t i = r * width + col.from; i < r * width + col.to; i++)
            if (x[i] > x[best] || (isnan(x[i]) && !isnan(x[best])))
                best = i;
    return (int32_t)best;
}

static void maxpool_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct planes p =
        planes_of(&call->instr->in[0].shape, &call->instr->out[0].shape, thread, threads);
    for (int64_t plane = p.from; plane < p.to; plane++) {
        const float *x = (const float *)call->in[0] + plane * p.h * p.w;
        float *y = (float *)call->out[0] + plane * p.oh * p.ow;
        int32_t *index = (int32_t *)call->out[1] + plane * p.oh * p.ow;
        for (int64_t i = 0; i < p.oh * p.ow; i++) {
            struct span row = span_of(call->instr->attr, 0, i / p.ow, p.h);
            struct span col = span_of(call->instr->attr, 1, i % p.ow, p.w);
            index[i] = find_largest(x, p.w, row, col);
            y[i] = x[index[i]];
        }
    }
}

static void k_maxpool(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), maxpool_part);
}

static void maxpool_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct planes p =
        planes_of(&call->instr->out[0].shape, &call->instr->in[0].shape, thread, threads);
    for (int64_t plane = p.from; plane < p.to; plane++) {
        float *dx = (float *)call->out[0] + plane * p.h * p.w;
        const float *dy = (const float *)call->in[0] + plane * p.oh * p.ow;
        const int32_t *index = (const int32_t *)call->in[1] + plane * p.oh * p.ow;
        if (!call->add)
            memset(dx, 0, (size_t)(p.h * p.w) * sizeof *dx);
        for (int64_t i = 0; i < p.oh * p.ow; i++)
            dx[index[i]] += dy[i];
    }
}

static void k_maxpool_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), maxpool_dx_part);
}

/* Returns 1 / the number of elements that the mean of a window counts. */
static float window_share(const union sl_attr *attr, struct span row, struct span col) {
    const int64_t *kernel = attr[POOL_KERNEL].ints.at;
    int64_t inside = (row.to - row.from) * (col.to - col.from);
    return 1.0f / (float)(attr[POOL_INCLUDE].i ? kernel[0] * kernel[1] : inside);
}

static void avgpool_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    struct planes p =
        planes_of(&call->instr->in[0].shape, &call->instr->out[0].shape, thread, threads);
    for (int64_t i = p.from * p.oh * p.ow; i < p.to * p.oh * p.ow; i++) {
        const float *x = (const float *)call->in[0] + i / (p.oh * p.ow) * p.h * p.w;
        struct span row = span_of(attr, 0, i / p.ow % p.oh, p.h);
        struct span col = span_of(attr, 1, i % p.ow, p.w);
        float sum = 0;
        for (int64_t r = row.from; r < row.to; r++)
            for (int64_t c = col.from; c < col.to; c++)
                sum += x[r * p.w + c];
        ((float *)call->out[0])[i] = sum * window_share(attr, row, col);
    }
}

static void k_avgpool(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), avgpool_part);
}

static void avgpool_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    struct planes p =
        planes_of(&call->instr->out[0].shape, &call->instr->in[0].shape, thread, threads);
    if (!call->add)
        memset((float *)call->out[0] + p.from * p.h * p.w, 0,
               (size_t)((p.to - p.from) * p.h * p.w) * sizeof(float));
    for (int64_t i = p.from * p.oh * p.ow; i < p.to * p.oh * p.ow; i++) {
        float *dx = (float *)call->out[0] + i / (p.oh * p.ow) * p.h * p.w;
        struct span row = span_of(attr, 0, i / p.ow % p.oh, p.h);
        struct span col = span_of(attr, 1, i % p.ow, p.w);
        float each = ((const float *)call->in[0])[i] * window_share(attr, row, col);
        for (int64_t r = row.from; r < row.to; r++)
            for (int64_t c = col.from; c < col.to; c++)
                dx[r * p.w + c] += each;
    }
}

static void k_avgpool_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), avgpool_dx_part);
}

static void global_avgpool_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t count = numel_out(call, 0), n = numel_in(call, 0) / count, from, to;
    sl_device_pool_range(count, 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++)
        ((float *)call->out[0])[i] = sum_run((const float *)call->in[0] + i * n, n) / (float)n;
}

static void k_global_avgpool(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), global_avgpool_part);
}

static void global_avgpool_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t count = numel_in(call, 0), n = numel_out(call, 0) / count, from, to;
    sl_device_pool_range(count, 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        float each = ((const float *)call->in[0])[i] / (float)n, *dx = call->out[0];
        for (int64_t j = i * n; j < (i + 1) * n; j++)
            dx[j] = call->add ? dx[j] + each : each;
    }
}

static void k_global_avgpool_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), global_avgpool_dx_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(image_kernels)[] = {
    {"avgpool", k_avgpool, NULL},
    {"avgpool_dx", k_avgpool_dx, NULL},
    {"global_avgpool", k_global_avgpool, NULL},
    {"global_avgpool_dx", k_global_avgpool_dx, NULL},
    {"maxpool", k_maxpool, NULL},
    {"maxpool_dx", k_maxpool_dx, NULL},
    {0},
};
