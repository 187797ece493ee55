/* Names of categories: classes of pictures, values of columns of text (kind_csv.c finds these). A run
 * keeps them in a file, so that other data get the same numbers:
 *
 *   {"classes": ["cat", "dog"]}
 */
#include "data/source.h"

#include "base/map.h"
#include "base/vec.h"

#include <string.h>

enum { FILE_BYTES = 256 << 20 };

struct sl_data_list *sl_data_list_find(const struct sl_data *data, const char *name) {
    for (int i = 0; i < data->list_count; i++)
        if (strcmp(data->list[i].name, name) == 0)
            return &data->list[i];
    return NULL;
}

struct sl_data_list *sl_data_list_add(struct sl_data *data, const char *name, const char **value,
                                      int64_t count) {
    struct sl_data_list *grown = SL_NEW(&data->arena, struct sl_data_list, data->list_count + 1);
    if (data->list_count)
        memcpy(grown, data->list, sizeof *grown * (size_t)data->list_count);
    data->list = grown;
    grown[data->list_count] = (struct sl_data_list){name, value, count};
    return &grown[data->list_count++];
}

static sl_err read_list(struct sl_data *data, struct sl_json_in *json, const char *name) {
    SL_VEC(const char *) values = {0};
    sl_err err = SL_OK;
    if (json->event != SL_JSON_ARRAY)
        return sl_json_fail(json, "expected a list of names");
    if (sl_data_list_find(data, name))
        return sl_json_fail(json, "'%s' is there twice", name);
    for (;;) {
        SL_TRY_OUT(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            break;
        if (json->event != SL_JSON_STRING)
            SL_TRY_OUT(sl_json_fail(json, "a name must be a string"));
        struct sl_str text = sl_json_unescape_str(json, &data->arena);
        SL_PUSH(&values, sl_arena_dup(&data->arena, text.at, text.length));
    }
    sl_data_list_add(data, name, SL_VEC_FREEZE(&values, &data->arena), values.count);
out:
    SL_VEC_FREE(&values);
    return err;
}

sl_err sl_data_categories_read(struct sl_data *data, const char *name, const char *text,
                               size_t length) {
    struct sl_json_in json;
    sl_json_read(&json, name, text, length);
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            return sl_json_next(&json);
        struct sl_str key = sl_json_unescape_str(&json, &data->arena);
        const char *list = sl_arena_dup(&data->arena, key.at, key.length);
        SL_TRY(sl_json_next(&json));
        SL_TRY(read_list(data, &json, list));
    }
}

sl_err sl_data_categories_open(struct sl_data *data, const char *path) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, FILE_BYTES, &text, &length));
    sl_err err = sl_data_categories_read(data, path, text, length);
    free(text);
    return err;
}

bool sl_data_categories(const struct sl_data *data, struct sl_text *text) {
    struct sl_json_out json = {.text = text};
    if (!data->list_count)
        return false;
    sl_json_open(&json, '{');
    for (int i = 0; i < data->list_count; i++) {
        sl_json_key(&json, data->list[i].name);
        sl_json_open(&json, '[');
        for (int64_t k = 0; k < data->list[i].count; k++)
            sl_json_string(&json, data->list[i].value[k]);
        sl_json_close(&json, ']');
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
    return true;
}

sl_err sl_data_list_unknown(const struct sl_data_list *list, const char *where, const char *value) {
    struct sl_text names = {0};
    for (int64_t i = 0; i < list->count && i < 12; i++)
        sl_text_printf(&names, "%s%s", i ? ", " : "", list->value[i]);
    sl_err err = sl_fail(
        SL_ERR_INPUT, "%s: '%s' is not one of the %lld categories of the run: %s%s", where, value,
        (long long)list->count, names.at ? names.at : "", list->count > 12 ? ", ..." : "");
    sl_text_free(&names);
    return err;
}
