/* safetensors: dtypes, sizes and names, shared by reader and writer. */
#include "base/safetensors.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int64_t size_bytes;
} dtypes[SL_ST_DTYPE_COUNT] = {
    [SL_ST_BOOL] = {"BOOL", 1},       [SL_ST_U8] = {"U8", 1},           [SL_ST_I8] = {"I8", 1},
    [SL_ST_F8_E5M2] = {"F8_E5M2", 1}, [SL_ST_F8_E4M3] = {"F8_E4M3", 1}, [SL_ST_I16] = {"I16", 2},
    [SL_ST_U16] = {"U16", 2},         [SL_ST_F16] = {"F16", 2},         [SL_ST_BF16] = {"BF16", 2},
    [SL_ST_I32] = {"I32", 4},         [SL_ST_U32] = {"U32", 4},         [SL_ST_F32] = {"F32", 4},
    [SL_ST_I64] = {"I64", 8},         [SL_ST_U64] = {"U64", 8},         [SL_ST_F64] = {"F64", 8},
};

const char *sl_st_dtype_name(enum sl_st_dtype dtype) { return dtypes[dtype].name; }

int64_t sl_st_dtype_bytes(enum sl_st_dtype dtype) { return dtypes[dtype].size_bytes; }

bool sl_st_dtype_parse(struct sl_str name, enum sl_st_dtype *out) {
    for (int i = 0; i < SL_ST_DTYPE_COUNT; i++)
        if (sl_str_is(name, dtypes[i].name)) {
            *out = (enum sl_st_dtype)i;
            return true;
        }
    return false;
}

int64_t sl_st_size_bytes(enum sl_st_dtype dtype, int rank, const int64_t *dim) {
    int64_t size_bytes = dtypes[dtype].size_bytes;
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(size_bytes, dim[i], &size_bytes) ||
            size_bytes > SL_ST_BYTES_MAX)
            return -1;
    return size_bytes;
}

const char *sl_st_shape_text(const struct sl_st_tensor *tensor, char out[SL_ST_TEXT]) {
    int used = snprintf(out, SL_ST_TEXT, "%s [", dtypes[tensor->dtype].name);
    for (int i = 0; i < tensor->rank; i++)
        used += snprintf(out + used, (size_t)(SL_ST_TEXT - used), "%s%lld", i ? "," : "",
                         (long long)tensor->dim[i]);
    snprintf(out + used, (size_t)(SL_ST_TEXT - used), "]");
    return out;
}

/* Length of the UTF-8 character at `at`, in terminated text. Returns 0 if it is invalid or a
 * control character. */
static int utf8_length(const unsigned char *at) {
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f;
    int length = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0; /* an overlong encoding, a surrogate, or above the last code point */
    return length;
}

bool sl_st_name_ok(const char *name) {
    const unsigned char *at = (const unsigned char *)name;
    if (!*at || strlen(name) > 1000 || strcmp(name, "__metadata__") == 0)
        return false;
    while (*at) {
        int length = utf8_length(at);
        if (!length)
            return false;
        at += length;
    }
    return true;
}
