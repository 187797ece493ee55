/* attention by cuDNN: forward, and a deterministic backward, for 16 bits and as many key heads as
 * query heads. */
#ifndef SL_DEVICE_CUDA_ATTENTION_DNN_H
#define SL_DEVICE_CUDA_ATTENTION_DNN_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The key of a plan. It is compared byte by byte, so initialise it with zeros. Members that end
 * in _row count elements from one position to the next; dq, dk, dv are used in a backward pass
 * only. */
struct sl_dnn_attention {
    int64_t batch, heads, queries, keys, width; /* width is the number of features of a head */
    int64_t q_row, k_row, v_row, dq_row, dk_row, dv_row;
    int32_t causal, masked, backward;
    int32_t half; /* enum sl_half of all operands except lse and dots, which are fp32 */
};

struct sl_dnn_attention_io {
    const void *q, *k, *v, *dy;
    void *y, *dq, *dk, *dv;
    float *lse, *dots; /* [batch, heads, queries]; dots is scratch of a backward pass */
    /* [batch], used if `masked`: from this position on there is padding */
    const int32_t *query_counts, *key_counts;
    void *workspace;
    float scale;
    cudaStream_t stream;
};

/* Returns the bytes of the workspace; -1 if cuDNN does not support the call. */
int64_t sl_cuda_dnn_attention_bytes(struct sl_cuda_device *cuda,
                                    const struct sl_dnn_attention *key);
sl_err sl_cuda_dnn_attention_run(struct sl_cuda_device *cuda, const struct sl_dnn_attention *key,
                                 const struct sl_dnn_attention_io *io);

#ifdef __cplusplus
}
#endif

#endif
