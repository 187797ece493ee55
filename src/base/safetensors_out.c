/* safetensors writer: the header, then the bytes of each tensor. */
#include "base/json.h"
#include "base/map.h"
#include "base/safetensors.h"
#include "base/sort.h"

#include <string.h>

void sl_st_writer_open(struct sl_st_writer *writer, struct sl_st_sink sink) {
    *writer = (struct sl_st_writer){.sink = sink};
}

void sl_st_writer_note(struct sl_st_writer *writer, const char *key, const char *value) {
    SL_ASSERT(!writer->header_bytes);
    struct sl_st_note note = {sl_arena_dup(&writer->arena, key, strlen(key)),
                              sl_arena_dup(&writer->arena, value, strlen(value))};
    SL_PUSH(&writer->notes, note);
}

sl_err sl_st_writer_add(struct sl_st_writer *writer, const struct sl_st_tensor *tensor) {
    SL_ASSERT(!writer->header_bytes);
    struct sl_st_entry entry = {*tensor, writer->entries.count};
    if (!sl_st_name_ok(tensor->name))
        return sl_fail(
            SL_ERR_INPUT,
            "tensor name '%s' is empty, too long, not UTF-8 or holds a control character",
            tensor->name);
    if (tensor->rank < 0 || tensor->rank > SL_ST_RANK)
        return sl_fail(SL_ERR_INPUT, "tensor '%s' has %d axes, at most %d can be stored",
                       tensor->name, tensor->rank, SL_ST_RANK);
    entry.tensor.size_bytes = sl_st_size_bytes(tensor->dtype, tensor->rank, tensor->dim);
    if (entry.tensor.size_bytes < 0)
        return sl_fail(SL_ERR_INPUT, "tensor '%s' has an impossible shape", tensor->name);
    entry.tensor.name = sl_arena_dup(&writer->arena, tensor->name, strlen(tensor->name));
    SL_PUSH(&writer->entries, entry);
    return SL_OK;
}

static int by_element(const void *a, const void *b) {
    const struct sl_st_entry *x = a, *y = b;
    int64_t size_x = sl_st_dtype_bytes(x->tensor.dtype),
            size_y = sl_st_dtype_bytes(y->tensor.dtype);
    if (size_x != size_y)
        return size_x > size_y ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static sl_err check_unique(const struct sl_st_writer *writer) {
    struct sl_map names = {0};
    sl_err err = SL_OK;
    for (int64_t i = 0; i < writer->entries.count && err == SL_OK; i++) {
        const char *name = writer->entries.at[i].tensor.name;
        if (sl_map_find(&names, sl_str(name)))
            err = sl_fail(SL_ERR_INPUT, "tensor '%s' is written twice", name);
        sl_map_put(&names, sl_str(name), i);
    }
    sl_map_free(&names);
    return err;
}

static void put_entry(struct sl_json_out *json, const struct sl_st_tensor *tensor) {
    sl_json_key(json, tensor->name);
    sl_json_open(json, '{');
    sl_json_put_string(json, "dtype", sl_st_dtype_name(tensor->dtype));
    sl_json_key(json, "shape");
    sl_json_open(json, '[');
    for (int i = 0; i < tensor->rank; i++)
        sl_json_int(json, tensor->dim[i]);
    sl_json_close(json, ']');
    sl_json_key(json, "data_offsets");
    sl_json_open(json, '[');
    sl_json_int(json, tensor->offset);
    sl_json_int(json, tensor->offset + tensor->size_bytes);
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

/* Writes the eight bytes of the length, then the JSON, padded so that the data starts at a multiple
 * of eight. */
static void put_header(struct sl_st_writer *writer, struct sl_text *text) {
    struct sl_json_out json = {.text = text};
    sl_text_put_bytes(text, "\0\0\0\0\0\0\0", 8);
    sl_json_open(&json, '{');
    if (writer->notes.count) {
        sl_json_key(&json, "__metadata__");
        sl_json_open(&json, '{');
        for (int64_t i = 0; i < writer->notes.count; i++)
            sl_json_put_string(&json, writer->notes.at[i].key, writer->notes.at[i].value);
        sl_json_close(&json, '}');
    }
    for (int64_t i = 0; i < writer->entries.count; i++)
        put_entry(&json, &writer->entries.at[i].tensor);
    sl_json_close(&json, '}');
    while (text->length % 8)
        sl_text_put(text, " ");
    uint64_t length = text->length - 8;
    for (int i = 0; i < 8; i++)
        text->at[i] = (char)(unsigned char)(length >> (8 * i));
}

/* Skips entries that have no bytes. */
static void settle(struct sl_st_writer *writer) {
    while (writer->at < writer->entries.count &&
           writer->entries.at[writer->at].tensor.size_bytes == 0)
        writer->at++;
    writer->missing =
        writer->at < writer->entries.count ? writer->entries.at[writer->at].tensor.size_bytes : 0;
}

sl_err sl_st_writer_start(struct sl_st_writer *writer, struct sl_text *header) {
    struct sl_text text = {0};
    int64_t at = 0;
    sl_err err = SL_OK;
    SL_ASSERT(!writer->header_bytes);
    SL_TRY(check_unique(writer));
    sl_sort(writer->entries.at, writer->entries.count, sizeof *writer->entries.at, by_element);
    for (int64_t i = 0; i < writer->entries.count; i++) {
        struct sl_st_tensor *tensor = &writer->entries.at[i].tensor;
        tensor->offset = at;
        at += tensor->size_bytes;
        if (at > SL_ST_BYTES_MAX - SL_ST_HEADER_MAX)
            return sl_fail(SL_ERR_INPUT, "tensors of more than 2^53 bytes in one file");
    }
    put_header(writer, &text);
    if (text.length - 8 > SL_ST_HEADER_MAX)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT,
                           "too many tensors for one safetensors file: a header of "
                           "%zu bytes (limit %d)",
                           text.length - 8, SL_ST_HEADER_MAX));
    writer->header_bytes = (int64_t)text.length;
    settle(writer);
    SL_TRY_OUT(writer->sink.write(writer->sink.ctx, text.at, text.length));
    if (header)
        sl_text_put_bytes(header, text.at, text.length);
out:
    sl_text_free(&text);
    return err;
}

const struct sl_st_entry *sl_st_writer_next(const struct sl_st_writer *writer) {
    SL_ASSERT(writer->header_bytes);
    return writer->at < writer->entries.count ? &writer->entries.at[writer->at] : NULL;
}

sl_err sl_st_writer_put(struct sl_st_writer *writer, const void *bytes, int64_t size_bytes) {
    SL_ASSERT(writer->header_bytes && size_bytes <= writer->missing);
    SL_TRY(writer->sink.write(writer->sink.ctx, bytes, (size_t)size_bytes));
    writer->missing -= size_bytes;
    if (writer->missing == 0 && size_bytes) {
        writer->at++;
        settle(writer);
    }
    return SL_OK;
}

void sl_st_writer_close(struct sl_st_writer *writer) {
    SL_VEC_FREE(&writer->entries);
    SL_VEC_FREE(&writer->notes);
    sl_arena_free(&writer->arena);
    *writer = (struct sl_st_writer){0};
}
