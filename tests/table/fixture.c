/* A safetensors file: u64 length of the header, the header as JSON, the tensors' bytes.
 *
 *   {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2,3],
 *                                              "data_offsets": [from, to]}, ...}
 */
#include "fixture.h"

#include "base/json.h"

enum { LIMIT_BYTES = 4 << 20 };

static sl_err read_texts(struct sl_fixture *fx, struct sl_json_in *json) {
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        struct sl_fixture_text text;
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        text.key = sl_json_unescape(json, &fx->arena);
        SL_TRY(sl_json_take_string(json, &fx->arena, &text.value));
        SL_PUSH(&fx->texts, text);
    }
}

static sl_err read_pair(struct sl_json_in *json, int64_t pair[2]) {
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (int i = 0; i < 2; i++)
        SL_TRY(sl_json_take_int(json, 0, LIMIT_BYTES, &pair[i]));
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_tensor(struct sl_fixture *fx, struct sl_json_in *json, const char *name,
                          size_t data) {
    const char *dtype = "";
    int64_t range[2] = {0, 0};
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        if (sl_str_is(json->string, "dtype")) {
            SL_TRY(sl_json_take_string(json, &fx->arena, &dtype));
        } else if (sl_str_is(json->string, "data_offsets")) {
            SL_TRY(read_pair(json, range));
        } else {
            SL_TRY(sl_json_next(json));
            SL_TRY(sl_json_skip(json));
        }
    }
    if (range[0] > range[1] || (range[1] - range[0]) % 4 || data + (size_t)range[1] > fx->length)
        return sl_json_fail(json, "tensor '%s' lies outside the file", name);
    struct sl_fixture_tensor tensor = {.name = name, .count = (range[1] - range[0]) / 4};
    void *copy = sl_vec_freeze(&fx->arena, fx->bytes + data + range[0], tensor.count, 4);
    if (strcmp(dtype, "F32") == 0)
        tensor.f = copy;
    else
        tensor.i = copy;
    sl_map_put(&fx->names, sl_str(name), fx->tensors.count);
    SL_PUSH(&fx->tensors, tensor);
    return SL_OK;
}

static sl_err read_header(struct sl_fixture *fx, const char *path, size_t header) {
    struct sl_json_in json;
    sl_json_read(&json, path, fx->bytes + 8, header);
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            return SL_OK;
        const char *name = sl_json_unescape(&json, &fx->arena);
        if (strcmp(name, "__metadata__") == 0)
            SL_TRY(read_texts(fx, &json));
        else
            SL_TRY(read_tensor(fx, &json, name, header + 8));
    }
}

sl_err sl_fixture_open(struct sl_fixture *fx, const char *path) {
    uint64_t header = 0;
    *fx = (struct sl_fixture){0};
    SL_TRY(sl_file_read(path, LIMIT_BYTES, &fx->bytes, &fx->length));
    if (fx->length >= 8)
        memcpy(&header, fx->bytes, 8);
    if (fx->length < 8 || header > fx->length - 8)
        return sl_fail(SL_ERR_INPUT, "%s: not a safetensors file", path);
    return read_header(fx, path, (size_t)header);
}

void sl_fixture_close(struct sl_fixture *fx) {
    SL_VEC_FREE(&fx->tensors);
    SL_VEC_FREE(&fx->texts);
    sl_map_free(&fx->names);
    sl_arena_free(&fx->arena);
    free(fx->bytes);
}

const struct sl_fixture_tensor *sl_fixture_find(const struct sl_fixture *fx, const char *name) {
    const int64_t *index = sl_map_find(&fx->names, sl_str(name));
    return index ? &fx->tensors.at[*index] : NULL;
}

const char *sl_fixture_text(const struct sl_fixture *fx, const char *key) {
    for (int64_t i = 0; i < fx->texts.count; i++)
        if (strcmp(fx->texts.at[i].key, key) == 0)
            return fx->texts.at[i].value;
    return NULL;
}
