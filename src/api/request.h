/* Request structs of the public interface: a leading `size_t size` gives the version of a struct.
 *
 *     caller's struct (size bytes)   | known fields | fields of a later version |
 *     copy that the library reads    | known fields |
 */
#ifndef SL_API_REQUEST_H
#define SL_API_REQUEST_H

#include "base/err.h"

/* Sizes of the structs in 0.2, the first version in which they have a size. */
#define SL_PLAN_REQUEST_FIRST (offsetof(struct sl_plan_request, seconds) + sizeof(double))
#define SL_TRAIN_REQUEST_FIRST (offsetof(struct sl_train_request, threads) + sizeof(int))
#define SL_SAMPLES_FIRST (offsetof(struct sl_samples, fingerprint) + sizeof(uint64_t))
#define SL_WRITING_FIRST (offsetof(struct sl_writing, seed) + sizeof(int64_t))
#define SL_EVALUATION_FIRST (offsetof(struct sl_evaluation, accuracy) + sizeof(double))
#define SL_TENSOR_FIRST (offsetof(struct sl_tensor, count) + sizeof(int64_t))

/* Copies the struct that the caller passed into `out` (known_bytes), zero where the
 * caller's struct ends earlier. first_bytes is the size in the first version that had the struct.
 * SL_ERR_USAGE: request is NULL, size is less than first_bytes, or an unknown field is not zero. */
SL_MUST_CHECK sl_err sl_api_request_copy(const char *name, const void *request, void *out,
                                         size_t first_bytes, size_t known_bytes);

/* Fills the struct of a caller, whose `size` is set, from `from` (known_bytes): as many bytes as it
 * has. SL_ERR_USAGE: NULL, or less than first_bytes. */
SL_MUST_CHECK sl_err sl_api_result_put(const char *name, void *result, const void *from,
                                       size_t first_bytes, size_t known_bytes);

#endif
