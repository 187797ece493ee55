/* Post-processors: the ids before and after a text. Each processor wraps the result of the one
 * before. */
#include "tokenizer/own.h"

struct sides { /* the ids of one processor */
    struct sl_tokens before, after;
};

static sl_err read_post(struct sl_tokenizer *t, struct sl_json_in *json, int depth);

/* Reads the pair ["[SEP]", 102] under a key. */
static sl_err read_pair(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, int i,
                        struct sl_tokens *out) {
    struct sl_json_in *json = &f->at[i];
    int64_t id;
    if (!f->has[i])
        return sl_tokenizer_field_missing(f, i, json);
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    SL_TRY(sl_json_take_int(json, 0, t->vocab - 1, &id));
    SL_PUSH(out, (int32_t)id);
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_bert(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                        struct sides *sides) {
    SL_TRY(read_pair(t, f, 0, &sides->after));
    return read_pair(t, f, 1, &sides->before);
}

/* Appends the ids of a special token from {"[CLS]": {"id": ..., "ids": [101], "tokens": [...]},
 * ...}. */
static sl_err put_special(struct sl_tokenizer *t, struct sl_json_in json, struct sl_str name,
                          struct sl_tokens *out) {
    struct sl_tokenizer_fields f;
    int64_t id;
    SL_TRY(sl_json_take(&json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END)
            return sl_json_fail(&json, "the template has the token '%.*s', special_tokens has not",
                                (int)name.length, name.at);
        bool found = sl_str_equal(json.string, name);
        SL_TRY(sl_json_next(&json));
        if (!found) {
            SL_TRY(sl_json_skip(&json));
            continue;
        }
        if (json.event != SL_JSON_OBJECT)
            return sl_json_fail(&json, "expected an object");
        SL_TRY(sl_tokenizer_fields_read(&json, "id ids tokens", &f, NULL));
        if (!f.has[1])
            return sl_tokenizer_field_missing(&f, 1, &json);
        SL_TRY(sl_json_take(&f.at[1], SL_JSON_ARRAY));
        for (;;) {
            SL_TRY(sl_json_next(&f.at[1]));
            if (f.at[1].event == SL_JSON_ARRAY_END)
                return SL_OK;
            if (f.at[1].event != SL_JSON_NUMBER || f.at[1].number < 0 ||
                f.at[1].number >= (double)t->vocab)
                return sl_json_fail(&f.at[1], "expected an id below %lld", (long long)t->vocab);
            id = (int64_t)f.at[1].number;
            SL_PUSH(out, (int32_t)id);
        }
    }
}

/* Reads the id of {"SpecialToken": {"id": ..., "type_id": ...}} or {"Sequence": {...}}. */
static sl_err read_piece(struct sl_json_in *json, bool *is_sequence, struct sl_str *id) {
    struct sl_tokenizer_fields kinds, f;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "expected an object");
    SL_TRY(sl_tokenizer_fields_read(json, "Sequence SpecialToken", &kinds, NULL));
    if (kinds.has[0] == kinds.has[1])
        return sl_json_fail(json, "expected one of Sequence and SpecialToken");
    *is_sequence = kinds.has[0];
    struct sl_json_in *inner = &kinds.at[kinds.has[0] ? 0 : 1];
    SL_TRY(sl_json_take(inner, SL_JSON_OBJECT));
    SL_TRY(sl_tokenizer_fields_read(inner, "id type_id", &f, NULL));
    if (!f.has[0])
        return sl_tokenizer_field_missing(&f, 0, inner);
    SL_TRY(sl_json_take(&f.at[0], SL_JSON_STRING));
    *id = f.at[0].string;
    return SL_OK;
}

static sl_err read_template(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                            struct sides *sides) {
    struct sl_json_in *json = &f->at[0];
    int sequences = 0;
    for (int i = 0; i < 3; i += 2)
        if (!f->has[i])
            return sl_tokenizer_field_missing(f, i, json);
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    for (;;) {
        struct sl_str id;
        bool is_sequence;
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            break;
        SL_TRY(read_piece(json, &is_sequence, &id));
        sequences += is_sequence;
        if (!is_sequence)
            SL_TRY(put_special(t, f->at[2], id, sequences ? &sides->after : &sides->before));
    }
    return sequences == 1
               ? SL_OK
               : sl_json_fail(json, "the template of a single text has it %d times", sequences);
}

static sl_err read_nothing(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sides *sides) {
    (void)t;
    (void)f;
    (void)sides;
    return SL_OK;
}

static const struct post {
    const char *name, *keys;
    sl_err (*read)(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, struct sides *sides);
} posts[] = {
    {"BertProcessing", "sep cls", read_bert},
    {"ByteLevel", "add_prefix_space trim_offsets use_regex", read_nothing},
    {"RobertaProcessing", "sep cls trim_offsets add_prefix_space", read_bert},
    {"TemplateProcessing", "single pair special_tokens", read_template},
};

static void wrap(struct sl_tokenizer *t, const struct sides *sides) {
    struct sl_tokens before = {0};
    for (int64_t i = 0; i < sides->before.count; i++)
        SL_PUSH(&before, sides->before.at[i]);
    for (int64_t i = 0; i < t->before.count; i++)
        SL_PUSH(&before, t->before.at[i]);
    for (int64_t i = 0; i < sides->after.count; i++)
        SL_PUSH(&t->after, sides->after.at[i]);
    SL_VEC_FREE(&t->before);
    t->before = before;
}

static sl_err read_list(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, int depth) {
    if (!f->has[0])
        return sl_tokenizer_field_missing(f, 0, &f->at[0]);
    if (depth == SL_TOKENIZER_NESTING)
        return sl_json_fail(&f->at[0], "Sequences nest deeper than %d", SL_TOKENIZER_NESTING);
    SL_TRY(sl_json_take(&f->at[0], SL_JSON_ARRAY));
    for (;;) {
        SL_TRY(sl_json_next(&f->at[0]));
        if (f->at[0].event == SL_JSON_ARRAY_END)
            return SL_OK;
        SL_TRY(read_post(t, &f->at[0], depth + 1));
    }
}

/* Reads a processor whose first event has been read. */
static sl_err read_post(struct sl_tokenizer *t, struct sl_json_in *json, int depth) {
    struct sl_tokenizer_fields f;
    struct sl_str type;
    struct sides sides = {{0}, {0}};
    sl_err err = SL_OK;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "expected an object: a post-processor");
    SL_TRY(sl_tokenizer_find_type(*json, &type));
    if (sl_str_is(type, "Sequence")) {
        SL_TRY(sl_tokenizer_fields_read(json, "processors", &f, NULL));
        return read_list(t, &f, depth);
    }
    for (int i = 0; i < SL_COUNT(posts); i++) {
        if (!sl_str_is(type, posts[i].name))
            continue;
        SL_TRY(sl_tokenizer_fields_read(json, posts[i].keys, &f, NULL));
        err = posts[i].read(t, &f, &sides);
        if (err == SL_OK)
            wrap(t, &sides);
        SL_VEC_FREE(&sides.before);
        SL_VEC_FREE(&sides.after);
        return err;
    }
    return sl_json_fail(json, "post-processor '%.*s' is not known", (int)type.length, type.at);
}

sl_err sl_tokenizer_post_read(struct sl_tokenizer *t, struct sl_json_in *json) {
    SL_TRY(sl_json_next(json));
    return json->event == SL_JSON_NULL ? SL_OK : read_post(t, json, 0);
}
