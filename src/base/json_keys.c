/* Refuses a key that appears twice in one object: one reader would take the first value, another
 * the last. */
#include "base/json_keys.h"

#include "base/sort.h"
#include "base/vec.h"

#include <string.h>

struct key {
    struct sl_str name;
    const char *after; /* position for the message: directly after the key */
};

struct keys {
    SL_VEC(struct key) open;          /* the keys of all open objects, the innermost last */
    int64_t first[SL_JSON_DEPTH + 1]; /* [depth]: index in `open` of the object's first key */
    struct sl_arena names;            /* memory of the keys that were written with escapes */
};

static int compare_names(const void *a, const void *b) {
    const struct key *x = a, *y = b;
    if (x->name.length != y->name.length)
        return x->name.length < y->name.length ? -1 : 1;
    int order = x->name.length ? memcmp(x->name.at, y->name.at, x->name.length) : 0;
    return order ? order : x->after < y->after ? -1 : x->after > y->after;
}

static sl_err close_object(struct keys *keys, struct sl_json_in *json) {
    int64_t first = keys->first[json->depth + 1];
    int64_t count = keys->open.count - first;
    keys->open.count = first;
    if (count < 2)
        return SL_OK;
    struct key *at = keys->open.at + first;
    sl_sort(at, count, sizeof *at, compare_names);
    for (int64_t i = 1; i < count; i++) {
        if (!sl_str_equal(at[i - 1].name, at[i].name))
            continue;
        json->at = at[i].after;
        return sl_json_fail(json, "the key \"%.*s\" appears twice in this object",
                            (int)(at[i].name.length < 60 ? at[i].name.length : 60), at[i].name.at);
    }
    return SL_OK;
}

static void add_key(struct keys *keys, const struct sl_json_in *json) {
    struct key key = {json->string, json->string.at + json->string.length};
    if (memchr(key.name.at, '\\', key.name.length))
        key.name = sl_json_unescape_str(json, &keys->names);
    SL_PUSH(&keys->open, key);
}

sl_err sl_json_check_keys(struct sl_json_in json) {
    struct keys keys = {0};
    sl_err err = SL_OK;
    do {
        /* A syntax error is left to the reader, whose message names what the caller expected. */
        if (sl_json_next(&json) != SL_OK)
            break;
        if (json.event == SL_JSON_OBJECT)
            keys.first[json.depth] = keys.open.count;
        else if (json.event == SL_JSON_KEY)
            add_key(&keys, &json);
        else if (json.event == SL_JSON_OBJECT_END)
            SL_TRY_OUT(close_object(&keys, &json));
    } while (json.event != SL_JSON_END);
out:
    SL_VEC_FREE(&keys.open);
    sl_arena_free(&keys.names);
    return err;
}
