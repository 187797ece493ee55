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

/* Copies the struct that the caller passed into `out` (known_bytes), zero where the
 * caller's struct ends earlier. first_bytes is the size in the first version that had the struct.
 * SL_ERR_USAGE: request is NULL, size is less than first_bytes, or an unknown field is not zero. */
SL_MUST_CHECK sl_err sl_api_request_copy(const char *name, const void *request, void *out,
                                         size_t first_bytes, size_t known_bytes);

#endif
