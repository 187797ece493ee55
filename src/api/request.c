/* Request structs: checks the size that the caller sets, then copies the known fields. */
#include "api/request.h"

#include "base/version.h"

#include <string.h>

/* A larger size must be uninitialised memory. */
enum { MAX_BYTES = 4096 };

static sl_err read_size(const char *name, const void *record, size_t first_bytes, size_t *size) {
    if (!record)
        return sl_fail(SL_ERR_USAGE, "struct %s: the pointer is NULL", name);
    memcpy(size, record, sizeof *size);
    if (*size < first_bytes)
        return sl_fail(SL_ERR_USAGE,
                       "struct %s: size is %zu, at least %zu is needed; set it to "
                       "sizeof(struct %s)",
                       name, *size, first_bytes, name);
    if (*size > MAX_BYTES)
        return sl_fail(SL_ERR_USAGE,
                       "struct %s: size is %zu, which no version has; set it to "
                       "sizeof(struct %s)",
                       name, *size, name);
    return SL_OK;
}

sl_err sl_api_request_copy(const char *name, const void *request, void *out, size_t first_bytes,
                           size_t known_bytes) {
    size_t size = 0;
    SL_TRY(read_size(name, request, first_bytes, &size));
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

/* Does not change the caller's `size`. */
sl_err sl_api_result_put(const char *name, void *result, const void *from, size_t first_bytes,
                         size_t known_bytes) {
    size_t size = 0;
    SL_TRY(read_size(name, result, first_bytes, &size));
    size_t bytes = (size < known_bytes ? size : known_bytes) - sizeof size;
    memset((char *)result + sizeof size, 0, size - sizeof size);
    memcpy((char *)result + sizeof size, (const char *)from + sizeof size, bytes);
    return SL_OK;
}
