/* conv2d and its gradients by cuDNN, for images [B,C,H,W]; only deterministic algorithms. If none
 * fits the workspace for the whole batch, it is computed in equal parts, which add to the weight
 * gradient in order; if none fits for one sample, conv_own.cu computes it. The weight gradient is
 * computed in scratch and then added to its accumulator. For 16 bits conv_last.cu is used first. */
#include "device/cuda/conv_last.h"
#include "device/cuda/conv_own.cuh"
#include "device/cuda/conv_patch.h"

static const i64 max_workspace = (i64)256 << 20;

struct conv {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t op;
};

static void close_conv(conv *c) {
    if (c->x)
        cudnnDestroyTensorDescriptor(c->x);
    if (c->y)
        cudnnDestroyTensorDescriptor(c->y);
    if (c->w)
        cudnnDestroyFilterDescriptor(c->w);
    if (c->op)
        cudnnDestroyConvolutionDescriptor(c->op);
}

static sl_err set_image(cudnnTensorDescriptor_t *out, const sl_shape *s, i64 samples, int half) {
    SL_TRY(SL_CUDNN(cudnnCreateTensorDescriptor(out)));
    return SL_CUDNN(cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NCHW, sl_half_dnn(half),
                                               (int)samples, (int)s->dim[1], (int)s->dim[2],
                                               (int)s->dim[3]));
}

struct sizes {
    const sl_shape *x, *w, *y;
    i64 samples; /* samples of a part */
    int half;
    bool tf32; /* factors may be rounded to tf32 */
};

static sl_err open_conv(const sl_cuda_call *call, const sizes &z, conv *c) {
    const sl_shape *w = z.w;
    int half = z.half;
    const union sl_attr *attr = call->instr->attr;
    const int64_t *stride = attr[0].ints.at, *pad = attr[1].ints.at, *gap = attr[2].ints.at;
    cudnnMathType_t math = half || z.tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
    SL_TRY(set_image(&c->x, z.x, z.samples, half));
    SL_TRY(set_image(&c->y, z.y, z.samples, half));
    SL_TRY(SL_CUDNN(cudnnCreateFilterDescriptor(&c->w)));
    SL_TRY(SL_CUDNN(cudnnSetFilter4dDescriptor(c->w, sl_half_dnn(half), CUDNN_TENSOR_NCHW,
                                               (int)w->dim[0], (int)w->dim[1], (int)w->dim[2],
                                               (int)w->dim[3])));
    SL_TRY(SL_CUDNN(cudnnCreateConvolutionDescriptor(&c->op)));
    SL_TRY(SL_CUDNN(cudnnSetConvolution2dDescriptor(c->op, (int)pad[0], (int)pad[1], (int)stride[0],
                                                    (int)stride[1], (int)gap[0], (int)gap[1],
                                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)));
    SL_TRY(SL_CUDNN(cudnnSetConvolutionGroupCount(c->op, (int)attr[3].i)));
    SL_TRY(SL_CUDNN(cudnnSetConvolutionMathType(c->op, math)));
    return SL_CUDNN(cudnnSetStream(call->device->dnn, call->stream));
}

/* Picks the first algorithm of a list that is deterministic and fits the workspace. */
template <class P> static bool pick(const P *list, int count, int *out) {
    for (int i = 0; i < count; i++)
        if (list[i].status == CUDNN_STATUS_SUCCESS && list[i].determinism == CUDNN_DETERMINISTIC &&
            (i64)list[i].memory <= max_workspace) {
            *out = (int)list[i].algo;
            return true;
        }
    return false;
}

enum { NO_ALGORITHM = -1 };

/* Algorithms for parts of this size; NO_ALGORITHM: there is none. */
static int ask_forward(cudnnHandle_t dnn, const conv *c) {
    cudnnConvolutionFwdAlgoPerf_t list[8];
    int count = 0, algo = NO_ALGORITHM;
    if (cudnnGetConvolutionForwardAlgorithm_v7(dnn, c->x, c->w, c->op, c->y, 8, &count, list))
        return NO_ALGORITHM;
    return pick(list, count, &algo) ? algo : NO_ALGORITHM;
}
static int ask_dx(cudnnHandle_t dnn, const conv *c) {
    cudnnConvolutionBwdDataAlgoPerf_t list[8];
    int count = 0, algo = NO_ALGORITHM;
    if (cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, c->w, c->y, c->op, c->x, 8, &count, list))
        return NO_ALGORITHM;
    return pick(list, count, &algo) ? algo : NO_ALGORITHM;
}
static int ask_dw(cudnnHandle_t dnn, const conv *c) {
    cudnnConvolutionBwdFilterAlgoPerf_t list[8];
    int count = 0, algo = NO_ALGORITHM;
    if (cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, c->x, c->y, c->op, c->w, 8, &count,
                                                      list))
        return NO_ALGORITHM;
    return pick(list, count, &algo) ? algo : NO_ALGORITHM;
}

/* Opens the convolution for the largest parts of the batch that have an algorithm. */
static sl_err open_parts(const sl_cuda_call *call, sizes *z, conv *c, int *algo,
                         int (*ask)(cudnnHandle_t dnn, const conv *c)) {
    i64 batch = z->x->dim[0];
    for (z->samples = batch; z->samples > 0; z->samples--) {
        if (batch % z->samples)
            continue;
        close_conv(c);
        *c = {};
        SL_TRY(open_conv(call, *z, c));
        if ((*algo = ask(call->device->dnn, c)) != NO_ALGORITHM)
            break;
    }
    return SL_OK;
}

/* Returns the bytes of the samples before sample b. */
static i64 before(const sizes &z, const sl_shape *image, i64 b) {
    return b * image->dim[1] * image->dim[2] * image->dim[3] * (z.half ? 2 : 4);
}

/* Converts fp32 images of a 16-bit convolution (pixels from the host, or an fp32 result) in
 * scratch, behind the workspace. */
static __global__ void convert(array y, array x, i64 count, bool add) {
    GRID_LOOP(i, count) put(y, i, get(x, i), add);
}

static i64 image_bytes(const sl_operand &operand) { return (operand.numel * 4 + 255) / 256 * 256; }

static void *room_at(const sl_cuda_call *call, i64 used) {
    return (char *)call->scratch + max_workspace + used;
}

/* Returns input i, converted to the dtype of the convolution. */
static const void *in_type(const sl_cuda_call *call, int i, int half, i64 *used) {
    if (sl_half_of(call->instr->in[i].dtype) == half)
        return call->in[i];
    void *at = room_at(call, *used);
    i64 count = call->instr->in[i].numel;
    *used += image_bytes(call->instr->in[i]);
    convert<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        array{at, half}, in_array(call, i), count, false);
    return at;
}

static sl_err finish(const sl_cuda_call *call, void *made, int half) {
    if (made == call->out[0])
        return SL_OK;
    i64 count = call->instr->out[0].numel;
    convert<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), array{made, half}, count, call->add);
    return launched(call);
}

static void *out_type(const sl_cuda_call *call, int half, i64 used) {
    bool same = sl_half_of(call->instr->out[0].dtype) == half && !call->add;
    return same ? call->out[0] : room_at(call, used);
}

static __global__ void add_bias(array y, array bias, i64 count, i64 plane, i64 channels) {
    GRID_LOOP(i, count) put(y, i, get(y, i) + get(bias, i / plane % channels));
}

/* 16-bit numbers are tf32 numbers. */
static bool tf32_of(const sl_cuda_call *call) {
    return call->device->tf32 || sl_half_of(call->instr->in[0].dtype) ||
           sl_half_of(call->instr->out[0].dtype);
}

static conv_own own_of(const sl_cuda_call *call, const sizes &z, const void *x, const void *w,
                       const void *y) {
    const union sl_attr *attr = call->instr->attr;
    conv_own own = {};
    own.x = {(void *)x, z.half};
    own.w = {(void *)w, z.half};
    own.y = {(void *)y, z.half};
    for (int i = 0; i < 4; i++) {
        own.xs[i] = z.x->dim[i];
        own.ws[i] = z.w->dim[i];
        own.ys[i] = z.y->dim[i];
    }
    for (int i = 0; i < 2; i++) {
        own.stride[i] = attr[0].ints.at[i];
        own.pad[i] = attr[1].ints.at[i];
        own.gap[i] = attr[2].ints.at[i];
    }
    return own;
}

static sl_err run_forward(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    sizes z = {&instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape, 0, half,
               tf32_of(call)};
    float one = 1, zero = 0;
    int algo = NO_ALGORITHM;
    i64 used = 0;
    SL_TRY(open_parts(call, &z, c, &algo, ask_forward));
    const void *x = in_type(call, 0, half, &used), *w = in_type(call, 1, half, &used);
    void *y = out_type(call, half, used);
    if (algo == NO_ALGORITHM)
        conv_own_forward(call, own_of(call, z, x, w, y));
    for (i64 b = 0; algo != NO_ALGORITHM && b < z.x->dim[0]; b += z.samples)
        SL_TRY(SL_CUDNN(cudnnConvolutionForward(
            call->device->dnn, &one, c->x, (const char *)x + before(z, z.x, b), c->w, w, c->op,
            (cudnnConvolutionFwdAlgo_t)algo, call->scratch, (size_t)max_workspace, &zero, c->y,
            (char *)y + before(z, z.y, b))));
    if (instr->in_count > 2 && call->in[2]) {
        const int64_t *dim = instr->out[0].shape.dim;
        add_bias<<<blocks_for(instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
            array{y, half}, in_array(call, 2), instr->out[0].numel, dim[2] * dim[3], dim[1]);
    }
    return finish(call, y, half);
}

static sl_err run_dx(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    sizes z = {&instr->out[0].shape, &instr->in[1].shape, &instr->in[0].shape, 0, half,
               tf32_of(call)};
    float one = 1, zero = 0;
    int algo = NO_ALGORITHM;
    i64 used = 0;
    SL_TRY(open_parts(call, &z, c, &algo, ask_dx));
    const void *dy = in_type(call, 0, half, &used), *w = in_type(call, 1, half, &used);
    void *dx = out_type(call, half, used);
    if (algo == NO_ALGORITHM)
        conv_own_dx(call, own_of(call, z, dx, w, dy));
    for (i64 b = 0; algo != NO_ALGORITHM && b < z.x->dim[0]; b += z.samples)
        SL_TRY(SL_CUDNN(cudnnConvolutionBackwardData(
            call->device->dnn, &one, c->w, w, c->y, (const char *)dy + before(z, z.y, b), c->op,
            (cudnnConvolutionBwdDataAlgo_t)algo, call->scratch, (size_t)max_workspace, &zero, c->x,
            (char *)dx + before(z, z.x, b))));
    return finish(call, dx, half);
}

static sl_err run_dw(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    sizes z = {&instr->in[1].shape, &instr->out[0].shape, &instr->in[0].shape, 0, half,
               tf32_of(call)};
    float one = 1, zero = 0;
    int algo = NO_ALGORITHM;
    i64 used = 0;
    SL_TRY(open_parts(call, &z, c, &algo, ask_dw));
    const void *dy = in_type(call, 0, half, &used), *x = in_type(call, 1, half, &used);
    void *dw = out_type(call, half, used);
    if (algo == NO_ALGORITHM)
        conv_own_dw(call, own_of(call, z, x, dw, dy));
    for (i64 b = 0; algo != NO_ALGORITHM && b < z.x->dim[0]; b += z.samples)
        SL_TRY(SL_CUDNN(cudnnConvolutionBackwardFilter(
            call->device->dnn, &one, c->x, (const char *)x + before(z, z.x, b), c->y,
            (const char *)dy + before(z, z.y, b), c->op, (cudnnConvolutionBwdFilterAlgo_t)algo,
            call->scratch, (size_t)max_workspace, b ? &one : &zero, c->w, dw)));
    return finish(call, dw, half);
}

/* For 16 bits in this layout cuDNN selects algorithms that a CUDA graph cannot record, so compute in
 * fp32, or tf32, which has these numbers. */
static sl_err closing(const sl_cuda_call *call,
                      sl_err (*run)(const sl_cuda_call *call, conv *c, int half)) {
    conv c = {};
    if (sl_cuda_conv_patch_takes(call->instr))
        return sl_cuda_conv_patch(call);
    if (sl_cuda_conv_last_takes(call->device, call->instr))
        return sl_cuda_conv_last(call);
    sl_err err = run(call, &c, SL_HALF_NOT);
    close_conv(&c);
    return err;
}

static sl_err k_conv2d(const sl_cuda_call *call) { return closing(call, run_forward); }
static sl_err k_conv2d_dx(const sl_cuda_call *call) { return closing(call, run_dx); }
static sl_err k_conv2d_dw(const sl_cuda_call *call) { return closing(call, run_dw); }
/* Never with channels last: layout.c does not know it. */
static sl_err k_conv_transpose2d(const sl_cuda_call *call) {
    conv c = {};
    sl_err err = run_dx(call, &c, SL_HALF_NOT);
    close_conv(&c);
    return err;
}
static i64 conv_transpose_bytes(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    return max_workspace + image_bytes(instr->in[0]) + image_bytes(instr->in[1]) +
           image_bytes(instr->out[0]);
}
static i64 conv_bytes(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    if (sl_cuda_conv_patch_takes(call->instr))
        return sl_cuda_conv_patch_bytes(instr);
    if (sl_cuda_conv_last_takes(call->device, instr))
        return sl_cuda_conv_last_bytes(call);
    return max_workspace + image_bytes(instr->in[0]) + image_bytes(instr->in[1]) +
           image_bytes(instr->out[0]);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_convolutions[] = {
    {"conv2d", k_conv2d, NULL, true, conv_bytes},
    {"conv2d_dw", k_conv2d_dw, NULL, true, conv_bytes},
    {"conv2d_dx", k_conv2d_dx, NULL, true, conv_bytes},
    {"conv_transpose2d", k_conv_transpose2d, NULL, true, conv_transpose_bytes},
    {},
};
/* clang-format on */
