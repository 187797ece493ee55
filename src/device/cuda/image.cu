/* Pooling over images and the gradient of global_avgpool; gradients gather, so that nothing is
 * added to by two threads. */
#include "device/cuda/kernels.cuh"

struct window {
    i64 planes, h, w, oh, ow;
    i64 kernel[2], stride[2], pad[2];
    bool include; /* count padding, of a mean */
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

struct span {
    i64 from, to;
};
static __device__ span clip(i64 at, i64 stride, i64 pad, i64 kernel, i64 size) {
    i64 from = at * stride - pad, to = from + kernel;
    return {from > 0 ? from : 0, to < size ? to : size};
}

static __global__ void maxpool(array y, int32_t *index, array x, window w) {
    GRID_LOOP(i, w.planes * w.oh * w.ow) {
        i64 plane = i / (w.oh * w.ow) * w.h * w.w;
        span rows = clip(i / w.ow % w.oh, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip(i % w.ow, w.stride[1], w.pad[1], w.kernel[1], w.w);
        i64 best = rows.from * w.w + cols.from;
        float most = get(x, plane + best);
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++) {
                float v = get(x, plane + r * w.w + c);
                if (v > most || (isnan(v) && !isnan(most))) {
                    most = v;
                    best = r * w.w + c;
                }
            }
        put(y, i, most);
        index[i] = (int32_t)best;
    }
}

/* Windows that hold pixel p: those from at.from to at.to. */
static __device__ span windows_of(i64 p, i64 stride, i64 pad, i64 kernel, i64 count) {
    i64 last = (p + pad) / stride, first = (p + pad - kernel + stride) / stride;
    if (p + pad - kernel + 1 <= 0)
        first = 0;
    return {first, last + 1 < count ? last + 1 : count};
}

/* A thread per pixel looks through the windows that hold it, row by row. */
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

/* ---- with channels last: a thread has eight channels of a pixel; planes = samples times n ---- */

/* The largest so far and where it was; a NaN wins. */
static __device__ __forceinline__ void take_larger(eight &most, int32_t *best, const eight &e,
                                                   int32_t at) {
    for (int k = 0; k < 8; k++)
        if (e.v[k] > most.v[k] || (isnan(e.v[k]) && !isnan(most.v[k]))) {
            most.v[k] = e.v[k];
            best[k] = at;
        }
}

static __global__ void maxpool_last(array y, int32_t *index, array x, window w, i64 n) {
    GRID_LOOP(i, w.planes / 8 * w.oh * w.ow) {
        i64 col = i % (n / 8) * 8, out = i / (n / 8), sample = out / (w.oh * w.ow);
        span rows = clip(out / w.ow % w.oh, w.stride[0], w.pad[0], w.kernel[0], w.h);
        span cols = clip(out % w.ow, w.stride[1], w.pad[1], w.kernel[1], w.w);
        i64 from = sample * w.h * w.w;
        int32_t best[8];
        eight most = get8(x, (from + rows.from * w.w + cols.from) * n + col);
        for (int k = 0; k < 8; k++)
            best[k] = (int32_t)(rows.from * w.w + cols.from);
        for (i64 r = rows.from; r < rows.to; r++)
            for (i64 c = cols.from; c < cols.to; c++)
                take_larger(most, best, get8(x, (from + r * w.w + c) * n + col),
                            (int32_t)(r * w.w + c));
        put8(y, out * n + col, most);
        for (int k = 0; k < 8; k++)
            index[out * n + col + k] = best[k];
    }
}

static __global__ void maxpool_last_dx(array dx, array dy, const int32_t *index, window w, i64 n,
                                       bool add) {
    GRID_LOOP(i, w.planes / 8 * w.h * w.w) {
        i64 col = i % (n / 8) * 8, at = i / (n / 8), pixel = at % (w.h * w.w);
        i64 first = at / (w.h * w.w) * w.oh * w.ow;
        span wr = windows_of(pixel / w.w, w.stride[0], w.pad[0], w.kernel[0], w.oh);
        span wc = windows_of(pixel % w.w, w.stride[1], w.pad[1], w.kernel[1], w.ow);
        eight sum = add ? get8(dx, at * n + col) : eight{};
        for (i64 r = wr.from; r < wr.to; r++)
            for (i64 c = wc.from; c < wc.to; c++) {
                i64 from = (first + r * w.ow + c) * n + col;
                eight e = get8(dy, from);
                for (int k = 0; k < 8; k++)
                    sum.v[k] += index[from + k] == pixel ? e.v[k] : 0;
            }
        put8(dx, at * n + col, sum);
    }
}

static sl_err k_maxpool(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->in[0].shape, &call->instr->out[0].shape);
    i64 count = call->instr->out[0].numel;
    if (call->last.in & 1)
        maxpool_last<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
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
        maxpool_last_dx<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(
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

static sl_err k_avgpool(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->in[0].shape, &call->instr->out[0].shape);
    w.include = call->instr->attr[3].i != 0;
    avgpool<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), w, call->add);
    return launched(call);
}

static sl_err k_avgpool_dx(const sl_cuda_call *call) {
    window w = window_of(call->instr->attr, &call->instr->out[0].shape, &call->instr->in[0].shape);
    w.include = call->instr->attr[3].i != 0;
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
