/* groupnorm, adaptive_avgpool, relative_bias and their gradients. One block computes a group or
 * channel, elsewhere one thread an element. All orders are fixed. */
#include "device/cuda/sums.cuh"
#include "op/relative.h"

struct groups {
    i64 b, c, plane, groups, channels, each;
};

static groups groups_of(const sl_shape *x, i64 numel_x, const sl_shape *mean) {
    groups z = {x->dim[0], x->dim[1], 1, mean->dim[1], 1, 1};
    z.plane = numel_x / (z.b * z.c);
    z.channels = z.c / z.groups;
    z.each = z.channels * z.plane;
    return z;
}

static unsigned threads_of(const groups &z) { return z.each >= 1024 ? 512 : 128; }

struct affine { /* both may be absent */
    array w, b;
    float eps;
};
struct normalised {
    array y, mean, rstd;
};

static __global__ void normalise(normalised m, array x, affine f, groups z) {
    array w = f.w, b = f.b;
    i64 g = blockIdx.x, first = g * z.each;
    double sum = 0, squares = 0;
    for (i64 i = threadIdx.x; i < z.each; i += blockDim.x)
        sum += (double)get(x, first + i);
    double mean = block_sum_double(sum) / (double)z.each;
    for (i64 i = threadIdx.x; i < z.each; i += blockDim.x) {
        double off = (double)get(x, first + i) - mean;
        squares += off * off;
    }
    float rstd = (float)(1 / sqrt(block_sum_double(squares) / (double)z.each + (double)f.eps));
    if (threadIdx.x == 0) {
        put(m.mean, g, (float)mean);
        put(m.rstd, g, rstd);
    }
    for (i64 i = threadIdx.x; i < z.each; i += blockDim.x) {
        i64 c = (first + i) / z.plane % z.c;
        float v = (get(x, first + i) - (float)mean) * rstd * (w.at ? get(w, c) : 1);
        put(m.y, first + i, v + (b.at ? get(b, c) : 0));
    }
}

static sl_err k_groupnorm(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    groups z = groups_of(&instr->in[0].shape, instr->in[0].numel, &instr->out[1].shape);
    affine f = {in_array(call, 1), in_array(call, 2), (float)instr->attr[1].f};
    normalised m = {out_array(call, 0), out_array(call, 1), out_array(call, 2)};
    normalise<<<(unsigned)(z.b * z.groups), threads_of(z), 0, call->stream>>>(m, in_array(call, 0),
                                                                              f, z);
    return launched(call);
}

/* Inputs: dy, x, mean, rstd, w (optional). */
struct back {
    array dy, x, mean, rstd, w;
};

static back back_of(const sl_cuda_call *call) {
    return {in_array(call, 0), in_array(call, 1), in_array(call, 2), in_array(call, 3),
            in_array(call, 4)};
}

static __global__ void normalise_dx(array dx, back s, groups z, bool add) {
    i64 g = blockIdx.x, first = g * z.each;
    float mean = get(s.mean, g), rstd = get(s.rstd, g);
    double sum = 0, dot = 0;
    for (i64 i = first + threadIdx.x; i < first + z.each; i += blockDim.x) {
        float dy = get(s.dy, i) * (s.w.at ? get(s.w, i / z.plane % z.c) : 1);
        sum += (double)dy;
        dot += (double)(dy * (get(s.x, i) - mean) * rstd);
    }
    float by_1 = (float)(block_sum_double(sum) / (double)z.each);
    float by_x = (float)(block_sum_double(dot) / (double)z.each);
    for (i64 i = first + threadIdx.x; i < first + z.each; i += blockDim.x) {
        float dy = get(s.dy, i) * (s.w.at ? get(s.w, i / z.plane % z.c) : 1);
        put(dx, i, rstd * (dy - by_1 - (get(s.x, i) - mean) * rstd * by_x), add);
    }
}

static sl_err k_groupnorm_dx(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    groups z = groups_of(&instr->in[1].shape, instr->in[1].numel, &instr->in[2].shape);
    normalise_dx<<<(unsigned)(z.b * z.groups), threads_of(z), 0, call->stream>>>(
        out_array(call, 0), back_of(call), z, call->add);
    return launched(call);
}

/* One block per channel. */
static __global__ void normalise_dw(array dw, back s, groups z, bool add) {
    i64 c = blockIdx.x;
    double sum = 0;
    for (i64 i = threadIdx.x; i < z.b * z.plane; i += blockDim.x) {
        i64 b = i / z.plane, at = (b * z.c + c) * z.plane + i % z.plane;
        i64 g = b * z.groups + c / z.channels;
        sum += (double)(get(s.dy, at) * (get(s.x, at) - get(s.mean, g)) * get(s.rstd, g));
    }
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        put(dw, c, (float)sum, add);
}

static sl_err k_groupnorm_dw(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    groups z = groups_of(&instr->in[1].shape, instr->in[1].numel, &instr->in[2].shape);
    normalise_dw<<<(unsigned)z.c, 256, 0, call->stream>>>(out_array(call, 0), back_of(call), z,
                                                          call->add);
    return launched(call);
}

/* ---- adaptive_avgpool: bin i of n over `size` pixels ---- */

struct pool {
    i64 planes, h, w, oh, ow;
};

static pool pool_of(const sl_shape *x, const sl_shape *y) {
    return {x->dim[0] * x->dim[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3]};
}
static __device__ i64 bin_from(i64 i, i64 n, i64 size) { return i * size / n; }
static __device__ i64 bin_to(i64 i, i64 n, i64 size) { return ((i + 1) * size + n - 1) / n; }

static __global__ void pool_mean(array y, array x, pool z, bool add) {
    GRID_LOOP(i, z.planes * z.oh * z.ow) {
        i64 row = i / z.ow % z.oh, column = i % z.ow, plane = i / (z.oh * z.ow);
        i64 top = bin_from(row, z.oh, z.h), bottom = bin_to(row, z.oh, z.h);
        i64 left = bin_from(column, z.ow, z.w), right = bin_to(column, z.ow, z.w);
        float sum = 0;
        for (i64 h = top; h < bottom; h++)
            for (i64 w = left; w < right; w++)
                sum += get(x, (plane * z.h + h) * z.w + w);
        put(y, i, sum / (float)((bottom - top) * (right - left)), add);
    }
}

/* One thread per pixel of dx: it adds the bins that hold the pixel. */
static __global__ void pool_mean_dx(array dx, array dy, pool z, bool add) {
    GRID_LOOP(i, z.planes * z.h * z.w) {
        i64 h = i / z.w % z.h, w = i % z.w, plane = i / (z.h * z.w);
        float sum = 0;
        for (i64 r = h * z.oh / z.h; r < z.oh && bin_from(r, z.oh, z.h) <= h; r++)
            for (i64 c = w * z.ow / z.w; c < z.ow && bin_from(c, z.ow, z.w) <= w; c++) {
                i64 rows_ = bin_to(r, z.oh, z.h) - bin_from(r, z.oh, z.h);
                i64 columns = bin_to(c, z.ow, z.w) - bin_from(c, z.ow, z.w);
                sum += get(dy, (plane * z.oh + r) * z.ow + c) / (float)(rows_ * columns);
            }
        put(dx, i, sum, add);
    }
}

static sl_err k_adaptive_avgpool(const sl_cuda_call *call) {
    pool_mean<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        pool_of(&call->instr->in[0].shape, &call->instr->out[0].shape), call->add);
    return launched(call);
}
static sl_err k_adaptive_avgpool_dx(const sl_cuda_call *call) {
    pool_mean_dx<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        pool_of(&call->instr->out[0].shape, &call->instr->in[0].shape), call->add);
    return launched(call);
}

/* ---- relative_bias ---- */

struct bias {
    sl_relative relative;
    i64 heads, queries, keys;
};

static bias bias_of(const sl_cuda_call *call, i64 buckets, i64 heads) {
    const union sl_attr *attr = call->instr->attr;
    return {{buckets, attr[3].i, (int)attr[2].i}, heads, attr[0].i, attr[1].i};
}

static __global__ void look_up(array y, array table, bias b, bool add) {
    GRID_LOOP(i, b.heads * b.queries * b.keys) {
        i64 distance = i % b.keys - i / b.keys % b.queries;
        i64 bucket = sl_op_relative_bucket(&b.relative, distance);
        put(y, i, get(table, bucket * b.heads + i / (b.queries * b.keys)), add);
    }
}

/* One block per bucket and head. */
static __global__ void sum_buckets(array dw, array dy, bias b, bool add) {
    i64 bucket = blockIdx.x / b.heads, head = blockIdx.x % b.heads;
    double sum = 0;
    for (i64 i = threadIdx.x; i < b.queries * b.keys; i += blockDim.x)
        if (sl_op_relative_bucket(&b.relative, i % b.keys - i / b.keys) == bucket)
            sum += (double)get(dy, head * b.queries * b.keys + i);
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        put(dw, blockIdx.x, (float)sum, add);
}

static sl_err k_relative_bias(const sl_cuda_call *call) {
    const int64_t *table = call->instr->in[0].shape.dim;
    look_up<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), bias_of(call, table[0], table[1]), call->add);
    return launched(call);
}
static sl_err k_relative_bias_dw(const sl_cuda_call *call) {
    const int64_t *table = call->instr->out[0].shape.dim;
    sum_buckets<<<(unsigned)(table[0] * table[1]), 256, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), bias_of(call, table[0], table[1]), call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_groupnorms[] = {
    {"adaptive_avgpool", k_adaptive_avgpool},
    {"adaptive_avgpool_dx", k_adaptive_avgpool_dx},
    {"groupnorm", k_groupnorm},
    {"groupnorm_dw", k_groupnorm_dw},
    {"groupnorm_dx", k_groupnorm_dx},
    {"relative_bias", k_relative_bias},
    {"relative_bias_dw", k_relative_bias_dw},
    {},
};
/* clang-format on */
