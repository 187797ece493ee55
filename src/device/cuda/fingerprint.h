/* Fingerprints of bytes in device memory: equal bytes have equal fingerprints, different bytes
 * almost surely different ones. They are sums of integers, so the order of blocks does not matter.
 */
#ifndef SL_DEVICE_CUDA_FINGERPRINT_H
#define SL_DEVICE_CUDA_FINGERPRINT_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_fingerprint {
    unsigned long long sum, nonzero; /* `nonzero` counts the 16-bit words that are not 0 */
};

/* rows of bytes that are `stride_bytes` apart; all numbers are multiples of 2 */
struct sl_cuda_rows {
    const void *at;
    int64_t count, row_bytes, ld_bytes;
    int64_t batch, stride_bytes;
};

/* Computes one fingerprint of all `count` matrices. `place` is device memory for it. Waits for the
 * stream. */
sl_err sl_cuda_fingerprint_take(struct sl_fingerprint *place, const struct sl_cuda_rows *rows,
                                int count, cudaStream_t stream, struct sl_fingerprint *out);

#ifdef __cplusplus
}
#endif

#endif
