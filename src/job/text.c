/* The text form of a job: config.json. */
#include "base/json.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 20, NAME_LIMIT = 128 };

/* ---- writing ---- */

/* Does a later item of the list have the same name as the first one? */
static bool is_replaced(const char *list) {
    size_t name = strcspn(list, "=") + 1;
    for (const char *at = strchr(list, ','); at; at = strchr(at + 1, ','))
        if (strncmp(at + 1, list, name) == 0)
            return true;
    return false;
}

static void write_sizes(struct sl_json_out *json, const char *sizes) {
    sl_json_open(json, '{');
    for (const char *at = sizes; *at;) {
        char name[NAME_LIMIT];
        size_t length = strcspn(at, "=");
        memcpy(name, at, length); /* sl_job_set has checked the length */
        name[length] = 0;
        if (!is_replaced(at))
            sl_json_put_double(json, name, strtod(at + length + 1, NULL));
        at += strcspn(at, ",");
        at += *at == ',';
    }
    sl_json_close(json, '}');
}

static void write_value(struct sl_json_out *json, const struct sl_job_field *f, const void *at) {
    switch (f->kind) {
    case SL_JOB_INT: sl_json_int(json, *(const int64_t *)at); return;
    case SL_JOB_NUMBER: sl_json_double(json, *(const double *)at); return;
    case SL_JOB_FLAG: sl_json_bool(json, *(const bool *)at); return;
    case SL_JOB_CHOICE: sl_json_string(json, f->choices[*(const int *)at]); return;
    case SL_JOB_TEXT: sl_json_string(json, *(const char *const *)at); return;
    case SL_JOB_SIZES: write_sizes(json, *(const char *const *)at); return;
    }
}

static void write_fields(const struct sl_job *job, enum sl_job_role last, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++)
        if (f->role <= last && sl_job_has(job, f->key)) {
            sl_json_key(&json, f->key);
            write_value(&json, f, (const char *)job + f->offset);
        }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

void sl_job_write(const struct sl_job *job, struct sl_text *text) {
    write_fields(job, SL_JOB_WAY, text);
}

void sl_job_write_value(const struct sl_job *job, const struct sl_job_field *field,
                        struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 0};
    write_value(&json, field, (const char *)job + field->offset);
}

void sl_job_write_results(const struct sl_job *job, struct sl_text *text) {
    write_fields(job, SL_JOB_RESULT, text);
}

/* ---- reading ---- */

/* Reads {"L": 4, "C": 128} as "L=4,C=128". */
static sl_err read_sizes(struct sl_json_in *json, struct sl_arena *arena, const char **out) {
    struct sl_text text = {0};
    sl_err err = SL_OK;
    sl_text_put(&text, "");
    SL_TRY_OUT(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY_OUT(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        const char *name = sl_json_unescape(json, arena);
        if (!*name || strlen(name) >= NAME_LIMIT || strpbrk(name, "=,"))
            SL_TRY_OUT(sl_json_fail(json, "'%.64s' cannot be the name of a size", name));
        SL_TRY_OUT(sl_json_take(json, SL_JSON_NUMBER));
        sl_text_printf(&text, "%s%s=", text.length ? "," : "", name);
        sl_text_put_double(&text, json->number);
    }
    *out = sl_arena_dup(arena, text.at, text.length);
out:
    sl_text_free(&text);
    return err;
}

/* Reads a value in the form that sl_job_set takes. Numbers stay as they are written: a seed may not
 * fit into a double. */
static sl_err read_value(struct sl_json_in *json, const struct sl_job_field *f,
                         struct sl_arena *arena, const char **out) {
    switch (f->kind) {
    case SL_JOB_INT:
    case SL_JOB_NUMBER:
        SL_TRY(sl_json_take(json, SL_JSON_NUMBER));
        *out = sl_arena_dup(arena, json->string.at, json->string.length);
        return SL_OK;
    case SL_JOB_FLAG:
        SL_TRY(sl_json_take(json, SL_JSON_BOOL));
        *out = json->boolean ? "true" : "false";
        return SL_OK;
    case SL_JOB_TEXT:
    case SL_JOB_CHOICE: return sl_json_take_string(json, arena, out);
    case SL_JOB_SIZES: return read_sizes(json, arena, out);
    }
    return SL_OK;
}

static sl_err read_fields(struct sl_json_in *json, struct sl_job *job, struct sl_arena *arena) {
    uint64_t seen = 0;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            break;
        const char *value, *key = sl_json_unescape(json, arena);
        const struct sl_job_field *field = sl_job_field_find(key);
        if (!field || field->role == SL_JOB_LOCAL) {
            sl_err err = sl_job_set(job, key, "");
            return sl_json_fail(json, "%s",
                                field || err == SL_OK ? "this field is not part of a file"
                                                      : sl_err_message());
        }
        if (seen >> (field - sl_job_fields) & 1)
            return sl_json_fail(json, "`%s` is given twice", field->key);
        seen |= (uint64_t)1 << (field - sl_job_fields);
        SL_TRY(read_value(json, field, arena, &value));
        if (sl_job_set(job, key, value) != SL_OK)
            return sl_json_fail(json, "%s", sl_err_message());
    }
    SL_TRY(sl_json_next(json));
    return json->event == SL_JSON_END ? SL_OK : sl_json_fail(json, "expected the end of the file");
}

sl_err sl_job_read(struct sl_job *job, const char *file, const char *text, size_t length) {
    struct sl_json_in json;
    struct sl_arena arena = {0};
    sl_json_read(&json, file, text, length);
    sl_err err = read_fields(&json, job, &arena);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_job_read_file(struct sl_job *job, const char *path) {
    char *text;
    size_t length;
    const char *end = strrchr(path, '.');
    SL_TRY(sl_file_read(path, FILE_LIMIT, &text, &length));
    bool toml = end && strcmp(end, ".toml") == 0;
    sl_err err =
        toml ? sl_job_read_toml(job, path, text, length) : sl_job_read(job, path, text, length);
    free(text);
    return err;
}
