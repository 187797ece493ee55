/* Fingerprints of bytes in device memory: equal bytes have equal ones, others almost surely not. A
 * sum of integers, so the order in which blocks add does not matter. */
#ifndef SL_DEVICE_CUDA_FINGERPRINT_H
#define SL_DEVICE_CUDA_FINGERPRINT_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_fingerprint {
    unsigned long long sum, nonzero; /* nonzero: how many 16-bit words are not 0 */
};

struct sl_cuda_rows { /* rows of bytes in matrices of `stride_bytes`; all multiples of 2 */
    const void *at;
    int64_t count, row_bytes, ld_bytes;
    int64_t batch, stride_bytes;
};

/* Of all `count` of them together. `place`: device memory to work in. Waits for the stream. */
sl_err sl_cuda_fingerprint_take(struct sl_fingerprint *place, const struct sl_cuda_rows *rows,
                                int count, cudaStream_t stream, struct sl_fingerprint *out);

#ifdef __cplusplus
}
#endif

#endif
