/* Pooling over images and the gradient of global_avgpool. A thread gathers the gradient of its
 * pixel, so no two threads add to the same element. */
#include "device/cuda/kernels.cuh"

struct window {
    i64 planes, h, w, oh, ow;
    i64 kernel[2], stride[2], pad[2];
    bool include; /* a mean counts padding too */
};

static window window_of(const union sl_attr *attr, const sl_shape *x, const sl_shape *y) {
    window w = {x->dim[0] * x->dim[1], x->dim[2], x->dim[3], y->dim[2], y->dim[3]};
    for (int i = 0; i < 2; i++) {
        w.kernel[i] = attr[0].ints.at[i];
        w.stride[i] = attr[1].ints.at[i] ? attr[1].ints.at[i] : w.kernel[i];
        w.pad[i] = attr[2].ints.at[i];
    }
    return w;
}

struct span { /* a range of rows or columns of an image */
    int from, to;
};
static __device__ span clip(int at, int stride, int pad, int kernel, int size) {
    int from = at * stride - pad, to = from + kernel;
    return {from > 0 ? from : 0, to < size ? to : size};
}

static __global__ void maxpool(array y, int32_t *index, array x, window w) {
    GRID_LOOP(i, w.planes * w.oh * w.ow) {
        i64 plane = i / (w.oh * w.ow) * w.h * w.w;
        span rows = clip(i / w.ow % w.oh, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip(i % w.ow, w.stride[1], w.pad[1], w.kernel[1], w.w);
        i64 best = rows.from * w.w + cols.from;
        float max = get(x, plane + best);
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++) {
                float v = get(x, plane + r * w.w + c);
                if (v > max || (isnan(v) && !isnan(max))) {
                    max = v;
                    best = r * w.w + c;
                }
            }
        put(y, i, max);
        index[i] = (int32_t)best;
    }
}

/* Returns the windows that contain pixel p, as a range. */
static __device__ span windows_of(int p, int stride, int pad, int kernel, int count) {
    int last = (p + pad) / stride, first = (p + pad - kernel + stride) / stride;
    if (p + pad - kernel + 1 <= 0)
        first = 0;
    return {first, last + 1 < count ? last + 1 : count};
}

/* One thread per pixel: it visits the windows that contain the pixel, row by row. */
static __global__ void maxpool_dx(array dx, array dy, const int32_t *index, window w, bool add) {
    GRID_LOOP(i, w.planes * w.h * w.w) {
        i64 plane = i / (w.h * w.w) * w.oh * w.ow, pixel = i % (w.h * w.w);
        span wr = windows_of(pixel / w.w, w.stride[0], w.pad[0], w.kernel[0], w.oh);
        span wc = windows_of(pixel % w.w, w.stride[1], w.pad[1], w.kernel[1], w.ow);
        float sum = 0;
        for (i64 r = wr.from; r < wr.to; r++)
            for (i64 c = wc.from; c < wc.to; c++)
                if (index[plane + r * w.ow + c] == pixel)
                    sum += get(dy, plane + r * w.ow + c);
        put(dx, i, sum, add);
    }
}

/* ---- with channels last: a thread has eight channels of a pixel; planes = samples times n ----
 *
 * I is the integer type that counts threads; 64-bit divisions would take longer than all the
 * rest. */

template <class I> struct spot { /* position of element i in images of h x w */
    I col, image, row, column;
    __device__ __forceinline__ spot(I i, i64 n, i64 h, i64 w)
        : col(i % (I)(n / 8) * 8), image(i / (I)(n / 8)), row(image / (I)w), column(image % (I)w) {
        image = row / (I)h;
        row %= (I)h;
    }
};

/* Keeps the maximum and its index. A NaN counts as the largest. */
static __device__ __forceinline__ void take_larger(eight &max, int32_t *best, const eight &e,
                                                   int32_t at) {
    for (int k = 0; k < 8; k++)
        if (e.v[k] > max.v[k] || (isnan(e.v[k]) && !isnan(max.v[k]))) {
            max.v[k] = e.v[k];
            best[k] = at;
        }
}

template <class I>
static __global__ void maxpool_last(array y, int32_t *index, array x, window w, i64 n) {
    GRID_LOOP(i, w.planes / 8 * w.oh * w.ow) {
        spot<I> s((I)i, n, w.oh, w.ow);
        span rows = clip((int)s.row, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip((int)s.column, w.stride[1], w.pad[1], w.kernel[1], w.w);
        i64 col = s.col, from = s.image * w.h * w.w,
            out = (s.image * w.oh + s.row) * w.ow + s.column;
        int32_t best[8];
        eight max = get8(x, (from + rows.from * w.w + cols.from) * n + col);
        for (int k = 0; k < 8; k++)
            best[k] = (int32_t)(rows.from * w.w + cols.from);
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++)
                take_larger(max, best, get8(x, (from + r * w.w + c) * n + col),
                            (int32_t)(r * w.w + c));
        put8(y, out * n + col, max);
        for (int k = 0; k < 8; k++)
            index[out * n + col + k] = best[k];
    }
}

template <class I>
static __global__ void maxpool_last_dx(array dx, array dy, const int32_t *index, window w, i64 n,
                                       bool add) {
    GRID_LOOP(i, w.planes / 8 * w.h * w.w) {
        spot<I> s((I)i, n, w.h, w.w);
        int pixel = (int)(s.row * w.w + s.column);
        i64 col = s.col, first = s.image * w.oh * w.ow, at = s.image * w.h * w.w + pixel;
        span wr = windows_of((int)s.row, w.stride[0], w.pad[0], w.kernel[0], w.oh);
        span wc = windows_of((int)s.column, w.stride[1], w.pad[1], w.kernel[1], w.ow);
        eight sum = add ? get8(dx, at * n + col) : eight{};
        for (i64 r = wr.from; r < wr.to; r++)
            for (i64 c = wc.from; c < wc.to; c++) {
                i64 from = (first + r * w.ow + c) * n + col;
                eight e = get8(dy, from);
                int32_t best[8];
                *(int4 *)best = *(const int4 *)(index + from);
                *(int4 *)(best + 4) = *(const int4 *)(index + from + 4);
                for (int k = 0; k < 8; k++)
                    sum.v[k] += best[k] == pixel ? e.v[k] : 0;
            }
        put8(dx, at * n + col, sum);
    }
}

static sl_err k_maxpool(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->in[0].shape, &call->instr->out[0].shape);
    i64 count = call->instr->out[0].numel;
    if (call->last.in & 1)
        (count < INT32_MAX
             ? maxpool_last<unsigned>
             : maxpool_last<i64>)<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), (int32_t *)call->out[1], in_array(call, 0), w,
            call->instr->in[0].shape.dim[1]);
    else
        maxpool<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), (int32_t *)call->out[1], in_array(call, 0), w);
    return launched(call);
}

static sl_err k_maxpool_dx(const sl_cuda_call *call) {
    window w =
        window_of(call->instr->attr + 1, &call->instr->out[0].shape, &call->instr->in[0].shape);
    i64 count = call->instr->out[0].numel;
    if (call->last.in & 1)
        (count < INT32_MAX
             ? maxpool_last_dx<unsigned>
             : maxpool_last_dx<i64>)<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], w,
            call->instr->in[0].shape.dim[1], call->add);
    else
        maxpool_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], w, call->add);
    return launched(call);
}

static __device__ float divisor(const window &w, span rows, span cols) {
    return w.include ? (float)(w.kernel[0] * w.kernel[1])
                     : (float)((rows.to - rows.from) * (cols.to - cols.from));
}

static __global__ void avgpool(array y, array x, window w, bool add) {
    GRID_LOOP(i, w.planes * w.oh * w.ow) {
        i64 plane = i / (w.oh * w.ow) * w.h * w.w;
        span rows = clip(i / w.ow % w.oh, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip(i % w.ow, w.stride[1], w.pad[1], w.kernel[1], w.w);
        float sum = 0;
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++)
                sum += get(x, plane + r * w.w + c);
        put(y, i, sum / divisor(w, rows, cols), add);
    }
}

static __global__ void avgpool_dx(array dx, array dy, window w, bool add) {
    GRID_LOOP(i, w.planes * w.h * w.w) {
        i64 plane = i / (w.h * w.w) * w.oh * w.ow;
        span wr = windows_of(i / w.w % w.h, w.stride[0], w.pad[0], w.kernel[0], w.oh);
        span wc = windows_of(i % w.w, w.stride[1], w.pad[1], w.kernel[1], w.ow);
        float sum = 0;
        for (i64 r = wr.from; r < wr.to; r++)
            for (i64 c = wc.from; c < wc.to; c++) {
                span rows = clip(r, w.stride[0], w.pad[0], w.kernel[0], w.h);
                span cols = clip(c, w.stride[1], w.pad[1], w.kernel[1], w.w);
                sum += get(dy, plane + r * w.ow + c) / divisor(w, rows, cols);
            }
        put(dx, i, sum, add);
    }
}

template <class I>
static __global__ void avgpool_last(array y, array x, window w, i64 n, bool add) {
    GRID_LOOP(i, w.planes / 8 * w.oh * w.ow) {
        spot<I> s((I)i, n, w.oh, w.ow);
        span rows = clip((int)s.row, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip((int)s.column, w.stride[1], w.pad[1], w.kernel[1], w.w);
        i64 from = s.image * w.h * w.w,
            at = ((s.image * w.oh + s.row) * w.ow + s.column) * n + s.col;
        eight sum = {}, old = add ? get8(y, at) : eight{};
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++) {
                eight e = get8(x, (from + r * w.w + c) * n + s.col);
                for (int k = 0; k < 8; k++)
                    sum.v[k] += e.v[k];
            }
        for (int k = 0; k < 8; k++)
            sum.v[k] = old.v[k] + sum.v[k] / divisor(w, rows, cols);
        put8(y, at, sum);
    }
}

template <class I>
static __global__ void avgpool_last_dx(array dx, array dy, window w, i64 n, bool add) {
    GRID_LOOP(i, w.planes / 8 * w.h * w.w) {
        spot<I> s((I)i, n, w.h, w.w);
        span wr = windows_of((int)s.row, w.stride[0], w.pad[0], w.kernel[0], w.oh);
        span wc = windows_of((int)s.column, w.stride[1], w.pad[1], w.kernel[1], w.ow);
        i64 first = s.image * w.oh * w.ow,
            at = ((s.image * w.h + s.row) * w.w + s.column) * n + s.col;
        eight sum = add ? get8(dx, at) : eight{};
        for (i64 r = wr.from; r < wr.to; r++)
            for (i64 c = wc.from; c < wc.to; c++) {
                span rows = clip((int)r, w.stride[0], w.pad[0], w.kernel[0], w.h);
                span cols = clip((int)c, w.stride[1], w.pad[1], w.kernel[1], w.w);
                float by = divisor(w, rows, cols);
                eight e = get8(dy, (first + r * w.ow + c) * n + s.col);
                for (int k = 0; k < 8; k++)
                    sum.v[k] += e.v[k] / by;
            }
        put8(dx, at, sum);
    }
}

static sl_err k_avgpool(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->in[0].shape, &call->instr->out[0].shape);
    i64 count = call->instr->out[0].numel;
    w.include = call->instr->attr[3].i != 0;
    if (call->last.in & 1) {
        (count < INT32_MAX
             ? avgpool_last<unsigned>
             : avgpool_last<i64>)<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), w, call->instr->in[0].shape.dim[1], call->add);
        return launched(call);
    }
    avgpool<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), w, call->add);
    return launched(call);
}

static sl_err k_avgpool_dx(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->out[0].shape, &call->instr->in[0].shape);
    i64 count = call->instr->out[0].numel;
    w.include = call->instr->attr[3].i != 0;
    if (call->last.in & 1) {
        (count < INT32_MAX
             ? avgpool_last_dx<unsigned>
             : avgpool_last_dx<i64>)<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), w, call->instr->in[0].shape.dim[1], call->add);
        return launched(call);
    }
    avgpool_dx<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), w, call->add);
    return launched(call);
}

static __global__ void spread(array dx, array dy, i64 count, i64 plane, bool add) {
    GRID_LOOP(i, count) put(dx, i, get(dy, i / plane) / (float)plane, add);
}

static __global__ void spread_last(array dx, array dy, i64 count, i64 plane, i64 n, bool add) {
    GRID_LOOP(i, count)
    put(dx, i, get(dy, i / (plane * n) * n + i % n) / (float)plane, add);
}

static sl_err k_global_avgpool_dx(const sl_cuda_call *call) {
    const sl_operand *dx = &call->instr->out[0];
    if (call->last.out & 1) {
        spread_last<<<blocks_for(dx->numel, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), in_array(call, 0), dx->numel, dx->shape.dim[2] * dx->shape.dim[3],
            dx->shape.dim[1], call->add);
        return launched(call);
    }
    spread<<<blocks_for(dx->numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), dx->numel, dx->shape.dim[2] * dx->shape.dim[3],
        call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_images[] = {
    {"avgpool", k_avgpool},
    {"avgpool_dx", k_avgpool_dx},
    {"global_avgpool_dx", k_global_avgpool_dx},
    {"maxpool", k_maxpool},
    {"maxpool_dx", k_maxpool_dx},
    {},
};
/* clang-format on */
