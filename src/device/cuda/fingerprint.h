/* One number for many bytes in device memory: equal bytes give equal numbers, others almost surely
 * not, and zeros give 0. A sum of integers, so the order does not matter. */
#ifndef SL_DEVICE_CUDA_FINGERPRINT_H
#define SL_DEVICE_CUDA_FINGERPRINT_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_fingerprint; /* a place for the number on the device at hand */

struct sl_rows { /* rows of bytes in matrices of `stride_bytes`; all multiples of 2 */
    const void *at;
    int64_t count, row_bytes, ld_bytes;
    int64_t batch, stride_bytes;
};

sl_err sl_fingerprint_open(struct sl_fingerprint **out);
void sl_fingerprint_close(struct sl_fingerprint *print);
/* Of both; `second` may be NULL. Waits for the stream. */
sl_err sl_fingerprint_take(struct sl_fingerprint *print, const struct sl_rows *first,
                           const struct sl_rows *second, cudaStream_t stream, uint64_t *out);

#ifdef __cplusplus
}
#endif

#endif
