/* Request structs of the public interface. A leading `size_t size` identifies the version of a
 * struct.
 *
 *     caller's struct (size bytes)   | known fields | fields of a later version |
 *     copy that the library reads    | known fields | */
#ifndef SL_API_REQUEST_H
#define SL_API_REQUEST_H

#include "base/err.h"

/* Sizes of the structs in version 0.2, the first in which they state their size. */
#define SL_PLAN_REQUEST_FIRST (offsetof(struct sl_plan_request, seconds) + sizeof(double))
#define SL_TRAIN_REQUEST_FIRST (offsetof(struct sl_train_request, threads) + sizeof(int))
#define SL_SAMPLES_FIRST (offsetof(struct sl_samples, fingerprint) + sizeof(uint64_t))
#define SL_WRITING_FIRST (offsetof(struct sl_writing, seed) + sizeof(int64_t))
#define SL_EVALUATION_FIRST (offsetof(struct sl_evaluation, accuracy) + sizeof(double))
#define SL_TENSOR_FIRST (offsetof(struct sl_tensor, count) + sizeof(int64_t))

/* Copies the caller's struct to `out` (known_bytes), with zeros where the caller's struct is
 * shorter. first_bytes is its size in the first version that had the struct. SL_ERR_USAGE: request
 * is NULL, size is less than first_bytes, or an unknown field is not zero. */
SL_MUST_CHECK sl_err sl_api_request_copy(const char *name, const void *request, void *out,
                                         size_t first_bytes, size_t known_bytes);

/* Fills the caller's struct, whose `size` is set, from `from` (known_bytes), as far as it reaches.
 * SL_ERR_USAGE: it is NULL, or shorter than first_bytes. */
SL_MUST_CHECK sl_err sl_api_result_put(const char *name, void *result, const void *from,
                                       size_t first_bytes, size_t known_bytes);

#endif
