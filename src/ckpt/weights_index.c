/* model.safetensors.index.json: {"metadata": {...}, "weight_map": {"a.weight": "model-1.safetensors"}} */
#include "base/json.h"
#include "base/vec.h"
#include "ckpt/weights.h"

#include <string.h>

static sl_err check_file(const struct sl_json_in *json, const char *name) {
    size_t length = strlen(name);
    if (length < 13 || length > 255 || strchr(name, '/') || name[0] == '.' ||
        strcmp(name + length - 12, ".safetensors") != 0)
        return sl_json_fail(json, "'%.80s' is not the name of a .safetensors file in this folder",
                            name);
    return SL_OK;
}

static sl_err read_map(struct sl_json_in *json, struct sl_ckpt_index *out) {
    SL_VEC(const char *) names = {0};
    SL_VEC(const char *) files = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY_OUT(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        const char *name = sl_json_unescape(json, &out->arena), *file = NULL;
        SL_TRY_OUT(sl_json_take_string(json, &out->arena, &file));
        SL_TRY_OUT(check_file(json, file));
        SL_PUSH(&names, name);
        SL_PUSH(&files, file);
    }
    out->count = names.count;
    out->names = SL_VEC_FREEZE(&names, &out->arena);
    out->files = SL_VEC_FREEZE(&files, &out->arena);
out:
    SL_VEC_FREE(&names);
    SL_VEC_FREE(&files);
    return err;
}

sl_err sl_ckpt_index_read(const char *file, const char *text, size_t length,
                          struct sl_ckpt_index *out) {
    struct sl_json_in json;
    bool found = false;
    *out = (struct sl_ckpt_index){0};
    sl_json_read(&json, file, text, length);
    SL_TRY(sl_json_next(&json));
    if (json.event != SL_JSON_OBJECT)
        return sl_json_fail(&json, "expected an object");
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            break;
        if (sl_str_is(json.string, "weight_map")) {
            SL_TRY(read_map(&json, out));
            found = true;
        } else {
            SL_TRY(sl_json_next(&json));
            SL_TRY(sl_json_skip(&json));
        }
    }
    SL_TRY(sl_json_next(&json));
    if (!found || !out->count)
        return sl_fail(SL_ERR_INPUT, "%s: no tensors: 'weight_map' is missing or empty", file);
    return SL_OK;
}

void sl_ckpt_index_close(struct sl_ckpt_index *index) { sl_arena_free(&index->arena); }
