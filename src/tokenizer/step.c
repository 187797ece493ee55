/* Reads components: members of an object, and the steps of a component or a Sequence of
 * components. */
#include "tokenizer/bytes.h"
#include "tokenizer/own.h"

/* Returns the position of a word in a list with blanks, or -1. */
static int find_word(const char *list, struct sl_str word) {
    for (int i = 0; *list; i++) {
        size_t length = strcspn(list, " ");
        if (length == word.length && memcmp(list, word.at, length) == 0)
            return i;
        list += length + (list[length] == ' ');
    }
    return -1;
}

sl_err sl_tokenizer_fields_read(struct sl_json_in *json, const char *keys,
                                struct sl_tokenizer_fields *fields, struct sl_str *type) {
    *fields = (struct sl_tokenizer_fields){.keys = keys, .type = "object"};
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        struct sl_str key = json->string;
        int i = find_word(keys, key);
        if (i < 0 && !sl_str_is(key, "type"))
            return sl_json_fail(json, "setting '%.*s' is not known%s%s", (int)key.length, key.at,
                                *keys ? "; known here: " : "", keys);
        if (i >= 0)
            fields->at[i] = *json;
        SL_TRY(sl_json_next(json));
        if (i < 0 && type && json->event == SL_JSON_STRING)
            *type = json->string;
        if (i >= 0)
            fields->has[i] = json->event != SL_JSON_NULL;
        SL_TRY(sl_json_skip(json));
    }
}

sl_err sl_tokenizer_field_bool(struct sl_tokenizer_fields *f, int i, bool *out) {
    if (!f->has[i])
        return SL_OK;
    SL_TRY(sl_json_take(&f->at[i], SL_JSON_BOOL));
    *out = f->at[i].boolean;
    return SL_OK;
}

sl_err sl_tokenizer_field_int(struct sl_tokenizer_fields *f, int i, int64_t high, int64_t *out) {
    return f->has[i] ? sl_json_take_int(&f->at[i], 0, high, out) : SL_OK;
}

struct sl_str sl_tokenizer_unescape(struct sl_str raw, struct sl_arena *arena) {
    char *text = sl_arena_alloc(arena, (int64_t)raw.length + 1);
    return (struct sl_str){text, sl_tokenizer_resolve(raw, true, text)};
}

sl_err sl_tokenizer_field_string(struct sl_tokenizer_fields *f, int i, struct sl_arena *arena,
                                 struct sl_str *out) {
    if (!f->has[i])
        return SL_OK;
    SL_TRY(sl_json_take(&f->at[i], SL_JSON_STRING));
    *out = sl_tokenizer_unescape(f->at[i].string, arena);
    return SL_OK;
}

sl_err sl_tokenizer_field_missing(const struct sl_tokenizer_fields *f, int i,
                                  const struct sl_json_in *json) {
    const char *word = f->keys;
    for (; i > 0; i--)
        word += strcspn(word, " ") + 1;
    return sl_json_fail(json, "'%.*s' is missing", (int)strcspn(word, " "), word);
}

sl_err sl_tokenizer_field_pattern(struct sl_tokenizer_fields *f, int i, struct sl_tokenizer *t,
                                  struct sl_tokenizer_step *step) {
    struct sl_tokenizer_fields kinds;
    struct sl_arena *arena = &t->arena;
    SL_TRY(sl_json_next(&f->at[i]));
    if (f->at[i].event == SL_JSON_STRING) { /* a pattern of a decoder */
        step->pattern = sl_tokenizer_unescape(f->at[i].string, arena);
        return SL_OK;
    }
    if (f->at[i].event != SL_JSON_OBJECT)
        return sl_json_fail(&f->at[i], "expected {\"String\": ...} or {\"Regex\": ...}");
    SL_TRY(sl_tokenizer_fields_read(&f->at[i], "String Regex", &kinds, NULL));
    if (kinds.has[0] == kinds.has[1])
        return sl_json_fail(&f->at[i], "expected one of String and Regex");
    SL_TRY(sl_tokenizer_field_string(&kinds, kinds.has[0] ? 0 : 1, arena, &step->pattern));
    if (kinds.has[0])
        return SL_OK;
    step->rule = sl_tokenizer_pretok_rule(step->pattern);
    sl_err err = sl_tokenizer_regex_open(t, step->pattern, &step->regex);
    return err == SL_OK ? SL_OK : sl_json_fail(&f->at[i], "%s", sl_err_message());
}

sl_err sl_tokenizer_field_behavior(struct sl_tokenizer_fields *f, int i,
                                   enum sl_tokenizer_behavior *out) {
    static const char names[] = "Removed Isolated MergedWithPrevious MergedWithNext Contiguous";
    if (!f->has[i])
        return SL_OK;
    SL_TRY(sl_json_take(&f->at[i], SL_JSON_STRING));
    struct sl_str name = f->at[i].string;
    int found = find_word(names, name);
    if (found < 0)
        return sl_json_fail(&f->at[i], "behavior '%.*s' is not known; known: %s", (int)name.length,
                            name.at, names);
    *out = (enum sl_tokenizer_behavior)found;
    return SL_OK;
}

/* ---- components ---- */

struct reader {
    struct sl_tokenizer *t;
    const struct sl_tokenizer_table *table;
    struct sl_tokenizer_steps *steps;
    int depth;
};

sl_err sl_tokenizer_find_type(struct sl_json_in json, struct sl_str *type) {
    int inside = json.depth;
    *type = (struct sl_str){NULL, 0};
    for (;;) {
        SL_TRY(sl_json_next(&json));
        if (json.event == SL_JSON_OBJECT_END && json.depth < inside)
            return sl_json_fail(&json, "a component without a type");
        bool is_type = sl_str_is(json.string, "type");
        SL_TRY(sl_json_next(&json));
        if (is_type && json.event == SL_JSON_STRING) {
            *type = json.string;
            return SL_OK;
        }
        SL_TRY(sl_json_skip(&json));
    }
}

static sl_err find_op(const struct reader *r, struct sl_json_in *json,
                      const struct sl_tokenizer_op **out) {
    struct sl_str type;
    struct sl_text known = {0};
    SL_TRY(sl_tokenizer_find_type(*json, &type));
    for (const struct sl_tokenizer_op *op = r->table->ops; op->name; op++) {
        if (sl_str_is(type, op->name)) {
            *out = op;
            sl_text_free(&known);
            return SL_OK;
        }
        sl_text_printf(&known, "%s%s", known.length ? ", " : "", op->name);
    }
    sl_err err = sl_json_fail(json, "%s '%.*s' is not known; known: %s", r->table->kind,
                              (int)type.length, type.at, known.at);
    sl_text_free(&known);
    return err;
}

static sl_err read_component(struct reader *r, struct sl_json_in *json);

static sl_err check_growth(const struct reader *r, const struct sl_json_in *json) {
    int64_t growth = 1;
    for (int64_t i = 0; i < r->steps->count && growth <= SL_TOKENIZER_GROWTH; i++)
        growth *= r->steps->at[i].growth > 1 ? r->steps->at[i].growth : 1;
    if (growth > SL_TOKENIZER_GROWTH)
        return sl_json_fail(json, "the %s can make a text more than %d times longer",
                            r->table->kind, SL_TOKENIZER_GROWTH);
    return SL_OK;
}

static sl_err read_list(struct reader *r, struct sl_json_in *json) {
    SL_TRY(sl_json_take(json, SL_JSON_ARRAY));
    if (++r->depth > SL_TOKENIZER_NESTING)
        return sl_json_fail(json, "Sequences nest deeper than %d", SL_TOKENIZER_NESTING);
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END)
            break;
        SL_TRY(read_component(r, json));
    }
    r->depth--;
    return SL_OK;
}

/* Reads a component whose first event has been read. */
static sl_err read_component(struct reader *r, struct sl_json_in *json) {
    const struct sl_tokenizer_op *op;
    struct sl_tokenizer_fields fields;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "expected an object: a %s", r->table->kind);
    SL_TRY(find_op(r, json, &op));
    SL_TRY(sl_tokenizer_fields_read(json, op->list ? op->list : op->keys, &fields, NULL));
    fields.type = op->name;
    if (op->list)
        return fields.has[0] ? read_list(r, &fields.at[0])
                             : sl_tokenizer_field_missing(&fields, 0, json);
    struct sl_tokenizer_step step = {.op = op, .rule = SL_PRETOK_NONE};
    for (int i = 0; i < SL_TOKENIZER_KEYS; i++)
        fields.at[i].file = json->file;
    if (op->read) {
        sl_err err = op->read(r->t, &fields, &step);
        if (err != SL_OK)
            return sl_err_context(err, "%s %s", r->table->kind, op->name);
    }
    if (r->steps->count == SL_TOKENIZER_STEPS)
        return sl_json_fail(json, "more than %d steps in a %s", SL_TOKENIZER_STEPS, r->table->kind);
    SL_PUSH(r->steps, step);
    return check_growth(r, json);
}

sl_err sl_tokenizer_steps_read(struct sl_tokenizer *t, struct sl_json_in *json,
                               const struct sl_tokenizer_table *table,
                               struct sl_tokenizer_steps *steps) {
    struct reader r = {.t = t, .table = table, .steps = steps};
    SL_TRY(sl_json_next(json));
    return json->event == SL_JSON_NULL ? SL_OK : read_component(&r, json);
}
