/* The operands of attention and their row strides: q, k, v and their gradients may be parts of
 * wider rows (one projection for all three). */
#ifndef SL_DEVICE_CUDA_ATTENTION_CUH
#define SL_DEVICE_CUDA_ATTENTION_CUH

#include "device/cuda/kernels.cuh"

struct att {
    array q, k, v, y, lse, dy, dq, dk, dv;
    i64 q_row, k_row, v_row, dq_row, dk_row, dv_row; /* elements from one position to the next */
    const int32_t *mask;                             /* [B,S] or NULL */
    const int32_t *only; /* [B]: 0 for samples that another kernel computes; NULL: none */
    float *dots;         /* [B,Hq,T] */
    i64 b, t, s, hq, hk, d;
    float scale;
    bool causal;
};

static __host__ __device__ __forceinline__ i64 at_q(const att &z, i64 row, i64 b, i64 t, i64 h) {
    return (b * z.t + t) * row + h * z.d;
}
static __host__ __device__ __forceinline__ i64 at_k(const att &z, i64 row, i64 b, i64 j, i64 h) {
    return (b * z.s + j) * row + h / (z.hq / z.hk) * z.d;
}

static __device__ __forceinline__ bool is_mine(const att &z, i64 b) { return !z.only || z.only[b]; }

static inline i64 row_of(const sl_operand &operand) {
    return operand.row ? operand.row : operand.shape.dim[2] * operand.shape.dim[3];
}

static inline att att_of(const sl_cuda_call *call, int q) {
    const sl_operand *in = call->instr->in;
    att z = {};
    z.q = in_array(call, q);
    z.k = in_array(call, q + 1);
    z.v = in_array(call, q + 2);
    z.q_row = row_of(in[q]);
    z.k_row = row_of(in[q + 1]);
    z.v_row = row_of(in[q + 2]);
    z.b = in[q].shape.dim[0];
    z.t = in[q].shape.dim[1];
    z.hq = in[q].shape.dim[2];
    z.d = in[q].shape.dim[3];
    z.s = in[q + 1].shape.dim[1];
    z.hk = in[q + 1].shape.dim[2];
    z.causal = call->instr->attr[0].i != 0;
    z.scale = (float)call->instr->attr[1].f;
    return z;
}

static inline att att_forward(const sl_cuda_call *call) {
    att z = att_of(call, 0);
    z.mask = call->instr->in_count > 3 ? (const int32_t *)call->in[3] : NULL;
    z.y = out_array(call, 0);
    z.lse = out_array(call, 1);
    return z;
}

static inline att att_backward(const sl_cuda_call *call) {
    att z = att_of(call, 1);
    z.mask = call->instr->in_count > 6 ? (const int32_t *)call->in[6] : NULL;
    z.dy = in_array(call, 0);
    z.y = in_array(call, 4);
    z.lse = in_array(call, 5);
    z.dq = out_array(call, 0);
    z.dk = out_array(call, 1);
    z.dv = out_array(call, 2);
    z.dq_row = row_of(call->instr->out[0]);
    z.dk_row = row_of(call->instr->out[1]);
    z.dv_row = row_of(call->instr->out[2]);
    z.dots = (float *)call->scratch;
    return z;
}

/* Returns true if flash.cu and flash_back.cu support the call. They use tensor cores, for 16 bits
 * and heads of 64. */
bool flash_fits(const att &z);
sl_err flash_forward(const sl_cuda_call *call, const att &z);
sl_err flash_backward(const sl_cuda_call *call, const att &z);

/* attention_cudnn.cu: sets `done` if cuDNN computed all samples. Else z.only names the samples that
 * remain, or is NULL if cuDNN does not support the shape. The bytes are those of scratch, or -1 if
 * it does not. */
sl_err attention_cudnn(const sl_cuda_call *call, att &z, bool back, bool *done);
i64 attention_cudnn_bytes(const sl_cuda_call *call, const att &z, bool back);

/* attention_products.cu: products with stored scores. The scores need this many bytes of
 * scratch. */
bool attention_products_fit(sl_cuda_device *cuda, const att &z, bool back);
i64 attention_products_bytes(const att &z, bool back);
sl_err attention_products(const sl_cuda_call *call, const att &z, bool back);

#endif
