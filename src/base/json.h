/* JSON: a writer onto sl_text, and a pull reader that allocates nothing.
 *
 * The reader hands out one event after another, so that an importer builds its own object and a
 * hostile file cannot make us allocate more than the importer asks for. Depth is limited to
 * SL_JSON_DEPTH, numbers are finite doubles, and after SL_JSON_END nothing but white space may
 * follow. Strings come raw (escapes unresolved); sl_json_unescape resolves them.
 */
#ifndef SL_BASE_JSON_H
#define SL_BASE_JSON_H

#include "base/text.h"

enum { SL_JSON_DEPTH = 64 };

/* Writer: puts commas, quotes and escapes; `indent` 0 = one line. */
struct sl_json_out {
    struct sl_text *text;
    int depth, indent;
    bool filled[SL_JSON_DEPTH]; /* has the container at this depth an item already? */
    bool after_key;
};

void sl_json_open(struct sl_json_out *json, char bracket); /* '{' or '[' */
void sl_json_close(struct sl_json_out *json, char bracket);
void sl_json_key(struct sl_json_out *json, const char *key);
void sl_json_string(struct sl_json_out *json, const char *value);
void sl_json_int(struct sl_json_out *json, int64_t value);
void sl_json_double(struct sl_json_out *json, double value); /* not finite: null */
void sl_json_bool(struct sl_json_out *json, bool value);
void sl_json_null(struct sl_json_out *json);

/* key and value in one */
void sl_json_put_string(struct sl_json_out *json, const char *key, const char *value);
void sl_json_put_int(struct sl_json_out *json, const char *key, int64_t value);
void sl_json_put_double(struct sl_json_out *json, const char *key, double value);
void sl_json_put_bool(struct sl_json_out *json, const char *key, bool value);

enum sl_json_event {
    SL_JSON_END,
    SL_JSON_OBJECT,     /* { */
    SL_JSON_OBJECT_END, /* } */
    SL_JSON_ARRAY,
    SL_JSON_ARRAY_END,
    SL_JSON_KEY, /* string holds the key */
    SL_JSON_STRING,
    SL_JSON_NUMBER,
    SL_JSON_BOOL,
    SL_JSON_NULL,
};

struct sl_json_in {
    const char *file;
    const char *start, *at, *end;
    int depth;
    char stack[SL_JSON_DEPTH];
    int expect; /* private: what may come next */
    enum sl_json_event event;
    struct sl_str string; /* of a number: as it is written, for those that a double cannot hold */
    double number;
    bool boolean;
};

void sl_json_read(struct sl_json_in *json, const char *file, const char *text, size_t length);
SL_MUST_CHECK sl_err sl_json_next(struct sl_json_in *json);

/* Having just read the first event of a value, skip the rest of it. */
SL_MUST_CHECK sl_err sl_json_skip(struct sl_json_in *json);

/* Next event must be this kind (a value inside an object or array). */
SL_MUST_CHECK sl_err sl_json_take(struct sl_json_in *json, enum sl_json_event kind);
SL_MUST_CHECK sl_err sl_json_take_int(struct sl_json_in *json, int64_t low, int64_t high,
                                      int64_t *out);
SL_MUST_CHECK sl_err sl_json_take_double(struct sl_json_in *json, double *out);
/* A string value, unescaped into the arena. */
SL_MUST_CHECK sl_err sl_json_take_string(struct sl_json_in *json, struct sl_arena *arena,
                                         const char **out);

/* Unescape `json->string` into the arena. */
char *sl_json_unescape(const struct sl_json_in *json, struct sl_arena *arena);

/* file:line:column: message, at the current place. */
sl_err sl_json_fail(const struct sl_json_in *json, const char *fmt, ...) SL_PRINTF(2, 3);

#endif
