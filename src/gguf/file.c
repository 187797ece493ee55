/* Writes the bytes of a GGUF file; everything is little-endian. */
#include "gguf/gguf.h"

#include <string.h>

enum { U32 = 4, I32 = 5, F32 = 6, FLAG = 7, STRING = 8, LIST = 9 }; /* types of values */

static const struct {
    enum sl_st_dtype dtype;
    int type; /* number of the type in ggml */
} types[] = {{SL_ST_F32, 0}, {SL_ST_F16, 1}, {SL_ST_BF16, 30}};

static void put(struct sl_text *text, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(value >> (8 * i));
        sl_text_put_bytes(text, &byte, 1);
    }
}

static void put_text(struct sl_text *text, const char *value) {
    put(text, strlen(value), 8);
    sl_text_put_bytes(text, value, strlen(value));
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void put_key(struct sl_gguf *g, const char *key, int type) {
    put_text(&g->keys, key);
    put(&g->keys, (uint64_t)type, 4);
    g->key_count++;
}

static void put_list(struct sl_gguf *g, const char *key, int type, int64_t count) {
    put_key(g, key, LIST);
    put(&g->keys, (uint64_t)type, 4);
    put(&g->keys, (uint64_t)count, 8);
}

void sl_gguf_put_string(struct sl_gguf *g, const char *key, const char *value) {
    put_key(g, key, STRING);
    put_text(&g->keys, value);
}

void sl_gguf_put_u32(struct sl_gguf *g, const char *key, int64_t value) {
    put_key(g, key, U32);
    put(&g->keys, (uint64_t)value, 4);
}

void sl_gguf_put_f32(struct sl_gguf *g, const char *key, double value) {
    put_key(g, key, F32);
    put(&g->keys, bits_of((float)value), 4);
}

void sl_gguf_put_flag(struct sl_gguf *g, const char *key, bool value) {
    put_key(g, key, FLAG);
    put(&g->keys, value, 1);
}

void sl_gguf_put_strings(struct sl_gguf *g, const char *key, const char *const *values,
                         int64_t count) {
    put_list(g, key, STRING, count);
    for (int64_t i = 0; i < count; i++)
        put_text(&g->keys, values[i]);
}

void sl_gguf_put_i32s(struct sl_gguf *g, const char *key, const int32_t *values, int64_t count) {
    put_list(g, key, I32, count);
    for (int64_t i = 0; i < count; i++)
        put(&g->keys, (uint32_t)values[i], 4);
}

void sl_gguf_put_f32s(struct sl_gguf *g, const char *key, const float *values, int64_t count) {
    put_list(g, key, F32, count);
    for (int64_t i = 0; i < count; i++)
        put(&g->keys, bits_of(values[i]), 4);
}

void sl_gguf_put_tensor(struct sl_gguf *g, const char *name, enum sl_st_dtype dtype, int rank,
                        const int64_t *dim) {
    int64_t bytes = sl_st_size_bytes(dtype, rank, dim);
    put_text(&g->tensors, name);
    put(&g->tensors, (uint64_t)rank, 4);
    for (int k = rank - 1; k >= 0; k--)
        put(&g->tensors, (uint64_t)dim[k], 8);
    for (int i = 0; i < SL_COUNT(types); i++)
        if (types[i].dtype == dtype)
            put(&g->tensors, (uint64_t)types[i].type, 4);
    put(&g->tensors, (uint64_t)g->data_bytes, 8);
    g->tensor_count++;
    g->data_bytes += (bytes + SL_GGUF_ALIGN - 1) / SL_GGUF_ALIGN * SL_GGUF_ALIGN;
}

void sl_gguf_head(const struct sl_gguf *g, struct sl_text *out) {
    sl_text_put(out, "GGUF");
    put(out, 3, 4);
    put(out, (uint64_t)g->tensor_count, 8);
    put(out, (uint64_t)g->key_count, 8);
    sl_text_put_bytes(out, g->keys.at, g->keys.length);
    sl_text_put_bytes(out, g->tensors.at, g->tensors.length);
    while (out->length % SL_GGUF_ALIGN)
        sl_text_put_bytes(out, "", 1);
}

void sl_gguf_free(struct sl_gguf *g) {
    sl_text_free(&g->keys);
    sl_text_free(&g->tensors);
}
