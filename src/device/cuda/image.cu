/* Pooling over images and the gradient of global_avgpool; gradients gather, so that nothing is
 * added to by two threads. */
#include "device/cuda/kernels.cuh"

struct window {
    i64 planes, h, w, oh, ow;
    i64 kernel[2], stride[2], pad[2];
    bool include; /* count padding, of a mean */
};

static window window_of(const sl_cuda_call *call, const sl_shape *x, const sl_shape *y) {
    const union sl_attr *attr = call->instr->attr;
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

static sl_err k_maxpool(const sl_cuda_call *call) {
    window w = window_of(call, &call->instr->in[0].shape, &call->instr->out[0].shape);
    maxpool<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), (int32_t *)call->out[1], in_array(call, 0), w);
    return launched(call);
}

/* A block per plane adds into it in shared order: one thread per pixel looks through the windows of
 * its plane that may have chosen it. The window's size is not an attribute here, so all of them. */
static __global__ void maxpool_dx(array dx, array dy, const int32_t *index, i64 pixels, i64 windows,
                                  bool add) {
    extern __shared__ int32_t chosen[];
    i64 plane = blockIdx.x;
    for (i64 first = 0; first < pixels; first += blockDim.x) {
        i64 pixel = first + threadIdx.x;
        float sum = 0;
        for (i64 at = 0; at < windows; at += blockDim.x) {
            __syncthreads();
            i64 mine = at + threadIdx.x;
            chosen[threadIdx.x] = mine < windows ? index[plane * windows + mine] : -1;
            __syncthreads();
            i64 left = windows - at < blockDim.x ? windows - at : blockDim.x;
            for (i64 k = 0; k < left; k++)
                if (chosen[k] == pixel)
                    sum += get(dy, plane * windows + at + k);
        }
        if (pixel < pixels)
            put(dx, plane * pixels + pixel, sum, add);
    }
}

static sl_err k_maxpool_dx(const sl_cuda_call *call) {
    const int64_t *x = call->instr->out[0].shape.dim, *y = call->instr->in[0].shape.dim;
    maxpool_dx<<<(unsigned)(x[0] * x[1]), 256, 256 * sizeof(int32_t), call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], x[2] * x[3],
        y[2] * y[3], call->add);
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

/* Windows that hold pixel p: those from at.from to at.to. */
static __device__ span windows_of(i64 p, i64 stride, i64 pad, i64 kernel, i64 count) {
    i64 last = (p + pad) / stride, first = (p + pad - kernel + stride) / stride;
    if (p + pad - kernel + 1 <= 0)
        first = 0;
    return {first, last + 1 < count ? last + 1 : count};
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
    window w = window_of(call, &call->instr->in[0].shape, &call->instr->out[0].shape);
    w.include = call->instr->attr[3].i != 0;
    avgpool<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), w, call->add);
    return launched(call);
}

static sl_err k_avgpool_dx(const sl_cuda_call *call) {
    window w = window_of(call, &call->instr->out[0].shape, &call->instr->in[0].shape);
    w.include = call->instr->attr[3].i != 0;
    avgpool_dx<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), w, call->add);
    return launched(call);
}

static __global__ void spread(array dx, array dy, i64 count, i64 plane, bool add) {
    GRID_LOOP(i, count) put(dx, i, get(dy, i / plane) / (float)plane, add);
}

static sl_err k_global_avgpool_dx(const sl_cuda_call *call) {
    const sl_operand *dx = &call->instr->out[0];
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
