/* Request structs: checks the size that a caller sets, then copies the fields that are known. */
#include "api/request.h"

#include "base/version.h"

#include <string.h>

/* Larger sizes are uninitialised memory. */
enum { MAX_BYTES = 4096 };

sl_err sl_api_request_copy(const char *name, const void *request, void *out, size_t first_bytes,
                           size_t known_bytes) {
    size_t size = 0;
    if (!request)
        return sl_fail(SL_ERR_USAGE, "struct %s: the request is NULL", name);
    memcpy(&size, request, sizeof size);
    if (size < first_bytes)
        return sl_fail(SL_ERR_USAGE,
                       "struct %s: size is %zu, at least %zu is needed; set it to "
                       "sizeof(struct %s)",
                       name, size, first_bytes, name);
    if (size > MAX_BYTES)
        return sl_fail(SL_ERR_USAGE,
                       "struct %s: size is %zu, which no version has; set it to "
                       "sizeof(struct %s)",
                       name, size, name);
    const unsigned char *bytes = request;
    for (size_t i = known_bytes; i < size; i++)
        if (bytes[i])
            return sl_fail(SL_ERR_USAGE,
                           "struct %s: libsluice %s knows its first %zu bytes; byte %zu is set. "
                           "Use a newer library or leave the new fields zero",
                           name, sl_version(), known_bytes, i);
    memset(out, 0, known_bytes);
    memcpy(out, request, size < known_bytes ? size : known_bytes);
    return SL_OK;
}
