/* conv2d and its gradients by cuDNN, for images [B,C,H,W]; only deterministic algorithms. The
 * weight gradient is computed in scratch and then added to its accumulator. For 16 bits
 * conv_last.cu has precedence. */
#include "device/cuda/conv_last.h"
#include "device/cuda/kernels.cuh"

static const i64 max_workspace = (i64)256 << 20;

struct conv {
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t op;
};

static void close_conv(conv *c) {
    cudnnDestroyTensorDescriptor(c->x);
    cudnnDestroyTensorDescriptor(c->y);
    cudnnDestroyTensorDescriptor(c->bias);
    cudnnDestroyFilterDescriptor(c->w);
    cudnnDestroyConvolutionDescriptor(c->op);
}

static sl_err set_image(cudnnTensorDescriptor_t *out, const sl_shape *s, int half) {
    SL_TRY(SL_CUDNN(cudnnCreateTensorDescriptor(out)));
    return SL_CUDNN(cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NCHW, sl_half_dnn(half),
                                               (int)s->dim[0], (int)s->dim[1], (int)s->dim[2],
                                               (int)s->dim[3]));
}

static sl_err open_conv(const sl_cuda_call *call, const sl_shape *x, const sl_shape *w,
                        const sl_shape *y, int half, conv *c) {
    const union sl_attr *attr = call->instr->attr;
    const int64_t *stride = attr[0].ints.at, *pad = attr[1].ints.at, *gap = attr[2].ints.at;
    cudnnMathType_t math = half || call->device->tf32 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
    SL_TRY(set_image(&c->x, x, half));
    SL_TRY(set_image(&c->y, y, half));
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

/* The first algorithm of a list that is deterministic and fits the workspace. */
template <class P> static sl_err pick(const P *list, int count, int *out) {
    for (int i = 0; i < count; i++)
        if (list[i].status == CUDNN_STATUS_SUCCESS && list[i].determinism == CUDNN_DETERMINISTIC &&
            (i64)list[i].memory <= max_workspace) {
            *out = (int)list[i].algo;
            return SL_OK;
        }
    return sl_fail(SL_ERR_REFUSED,
                   "cuDNN has no deterministic algorithm for a convolution of this shape");
}

static int half_of(const sl_cuda_call *call) { return sl_half_of(call->instr->in[0].dtype); }

/* fp32 images in a 16-bit convolution (pixels from the host, or an fp32 result) are converted in
 * scratch, after the workspace. */
static __global__ void convert(array y, array x, i64 count, bool add) {
    GRID_LOOP(i, count) put(y, i, get(x, i), add);
}

static i64 image_bytes(const sl_operand &operand) { return (operand.numel * 4 + 255) / 256 * 256; }

static void *room_at(const sl_cuda_call *call, i64 used) {
    return (char *)call->scratch + max_workspace + used;
}

/* Input i, converted to the dtype of the convolution. */
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

static sl_err run_forward(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    cudnnHandle_t dnn = call->device->dnn;
    cudnnConvolutionFwdAlgoPerf_t list[8];
    float one = 1, zero = 0;
    int count, algo = 0;
    i64 used = 0;
    SL_TRY(
        open_conv(call, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape, half, c));
    SL_TRY(SL_CUDNN(
        cudnnGetConvolutionForwardAlgorithm_v7(dnn, c->x, c->w, c->op, c->y, 8, &count, list)));
    SL_TRY(pick(list, count, &algo));
    const void *x = in_type(call, 0, half, &used), *w = in_type(call, 1, half, &used);
    void *y = out_type(call, half, used);
    SL_TRY(SL_CUDNN(cudnnConvolutionForward(dnn, &one, c->x, x, c->w, w, c->op,
                                            (cudnnConvolutionFwdAlgo_t)algo, call->scratch,
                                            (size_t)max_workspace, &zero, c->y, y)));
    if (instr->in_count > 2 && call->in[2]) {
        const int64_t *dim = instr->out[0].shape.dim;
        add_bias<<<blocks_for(instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
            array{y, half}, in_array(call, 2), instr->out[0].numel, dim[2] * dim[3], dim[1]);
    }
    return finish(call, y, half);
}

static sl_err run_dx(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    cudnnHandle_t dnn = call->device->dnn;
    cudnnConvolutionBwdDataAlgoPerf_t list[8];
    float one = 1, zero = 0;
    int count, algo = 0;
    i64 used = 0;
    SL_TRY(
        open_conv(call, &instr->out[0].shape, &instr->in[1].shape, &instr->in[0].shape, half, c));
    SL_TRY(SL_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn, c->w, c->y, c->op, c->x, 8,
                                                                &count, list)));
    SL_TRY(pick(list, count, &algo));
    const void *dy = in_type(call, 0, half, &used), *w = in_type(call, 1, half, &used);
    void *dx = out_type(call, half, used);
    SL_TRY(SL_CUDNN(cudnnConvolutionBackwardData(dnn, &one, c->w, w, c->y, dy, c->op,
                                                 (cudnnConvolutionBwdDataAlgo_t)algo, call->scratch,
                                                 (size_t)max_workspace, &zero, c->x, dx)));
    return finish(call, dx, half);
}

static sl_err run_dw(const sl_cuda_call *call, conv *c, int half) {
    const sl_instr *instr = call->instr;
    cudnnHandle_t dnn = call->device->dnn;
    cudnnConvolutionBwdFilterAlgoPerf_t list[8];
    float one = 1, zero = 0;
    int count, algo = 0;
    i64 used = 0;
    SL_TRY(
        open_conv(call, &instr->in[1].shape, &instr->out[0].shape, &instr->in[0].shape, half, c));
    SL_TRY(SL_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(dnn, c->x, c->y, c->op, c->w, 8,
                                                                  &count, list)));
    SL_TRY(pick(list, count, &algo));
    const void *dy = in_type(call, 0, half, &used), *x = in_type(call, 1, half, &used);
    void *dw = out_type(call, half, used);
    SL_TRY(SL_CUDNN(cudnnConvolutionBackwardFilter(
        dnn, &one, c->x, x, c->y, dy, c->op, (cudnnConvolutionBwdFilterAlgo_t)algo, call->scratch,
        (size_t)max_workspace, &zero, c->w, dw)));
    return finish(call, dw, half);
}

/* For fp16 in this layout cuDNN selects algorithms that a CUDA graph cannot record, so compute in
 * fp32. */
static sl_err closing(const sl_cuda_call *call, int half,
                      sl_err (*run)(const sl_cuda_call *call, conv *c, int half)) {
    conv c = {};
    if (sl_cuda_conv_last_takes(call->device, call->instr))
        return sl_cuda_conv_last(call);
    sl_err err = run(call, &c, half == SL_HALF_FP16 ? SL_HALF_NOT : half);
    close_conv(&c);
    return err;
}

static sl_err k_conv2d(const sl_cuda_call *call) {
    return closing(call, sl_half_of(call->instr->out[0].dtype), run_forward);
}
static sl_err k_conv2d_dx(const sl_cuda_call *call) { return closing(call, half_of(call), run_dx); }
/* Never with channels last: layout.c does not know it. */
static sl_err k_conv_transpose2d(const sl_cuda_call *call) {
    conv c = {};
    sl_err err = run_dx(call, &c, half_of(call) == SL_HALF_FP16 ? SL_HALF_NOT : half_of(call));
    close_conv(&c);
    return err;
}
static i64 conv_transpose_bytes(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    return max_workspace + image_bytes(instr->in[0]) + image_bytes(instr->in[1]) +
           image_bytes(instr->out[0]);
}
static sl_err k_conv2d_dw(const sl_cuda_call *call) { return closing(call, half_of(call), run_dw); }

static i64 conv_bytes(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
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
