/* Products by cuBLASLt: y[m,n] = op(a) op(b) in row-major order, in batches, with an epilogue.
 *
 * A plan (descriptors and an algorithm that gives the bits of the heuristic's first one) is made
 * once per shape and kept by the device. The same shape gives the same bits on any stage.
 * Reductions with atomics are excluded.
 */
#ifndef SL_DEVICE_CUDA_GEMM_H
#define SL_DEVICE_CUDA_GEMM_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sl_gemm_tail {
    SL_GEMM_PLAIN,
    SL_GEMM_BIAS,      /* adds bias[n] */
    SL_GEMM_GELU,      /* aux = product, y = gelu(aux), by tanh */
    SL_GEMM_GELU_BIAS, /* aux = product + bias */
    SL_GEMM_DGELU,     /* y = product * gelu'(aux) */
};

/* The key of a plan. It is compared byte by byte, so initialise it with zeros. */
struct sl_gemm {
    int64_t m, n, k;
    int64_t lda, ldb, ldy; /* elements from one stored row to the next */
    int64_t batch, stride_a, stride_b, stride_y;
    int32_t ta, tb;
    int32_t half_in, half_out; /* enum sl_half: of a and b; of y, c and bias */
    int32_t tail;              /* enum sl_gemm_tail */
    int32_t align;             /* alignment of all pointers in bytes */
};

struct sl_gemm_io {
    const void *a, *b;
    const void *c; /* y = product + beta c; c may be y */
    void *y;
    const void *bias;
    void *aux; /* DGELU reads it; the other tails write it */
    float beta;
    cudaStream_t stream;
};

/* Sets the row strides to those of packed matrices. */
void sl_cuda_gemm_pack(struct sl_gemm *gemm);
/* Returns true if the library has an algorithm for it. */
bool sl_cuda_gemm_supported(struct sl_cuda_device *cuda, const struct sl_gemm *gemm);
sl_err sl_cuda_gemm_run(struct sl_cuda_device *cuda, const struct sl_gemm *gemm,
                        const struct sl_gemm_io *io);
void sl_cuda_gemms_close(struct sl_cuda_gemms *gemms);

#ifdef __cplusplus
}
#endif

#endif
