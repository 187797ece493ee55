/* JSON: a writer into sl_text, and a pull reader.
 *
 * The reader returns one event per call and the caller builds its own object: a hostile file cannot
 * force allocations. A first pass refuses objects that repeat a key; it alone stores keys, those
 * of the objects that are open. Depth is limited to SL_JSON_DEPTH and numbers are finite
 * doubles. Only white space may follow the top-level value. Strings are raw (escapes not resolved);
 * sl_json_unescape resolves them.
 */
#ifndef SL_BASE_JSON_H
#define SL_BASE_JSON_H

#include "base/text.h"

enum { SL_JSON_DEPTH = 64 };

/* The writer, which inserts commas, quotes and escapes. With indent 0 it writes one line. */
struct sl_json_out {
    struct sl_text *text;
    int depth, indent;
    bool filled[SL_JSON_DEPTH]; /* true if the container at this depth has an item */
    bool after_key;
};

void sl_json_open(struct sl_json_out *json, char bracket); /* '{' or '[' */
void sl_json_close(struct sl_json_out *json, char bracket);
void sl_json_key(struct sl_json_out *json, const char *key);
void sl_json_string(struct sl_json_out *json, const char *value);
void sl_json_int(struct sl_json_out *json, int64_t value);
void sl_json_double(struct sl_json_out *json, double value); /* writes null if it is infinite */
void sl_json_bool(struct sl_json_out *json, bool value);
void sl_json_null(struct sl_json_out *json);

/* Writes a key and its value in one call. */
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
    int expect;  /* state of the reader; callers do not read it */
    bool is_new; /* nothing was read yet and keys are not checked; callers do not read it */
    enum sl_json_event event;
    struct sl_str string; /* for a number, its text: a double is not exact above 2^53 */
    double number;
    bool boolean;
};

void sl_json_read(struct sl_json_in *json, const char *file, const char *text, size_t length);
SL_MUST_CHECK sl_err sl_json_next(struct sl_json_in *json);

/* Skip the rest of the value whose first event was just read. */
SL_MUST_CHECK sl_err sl_json_skip(struct sl_json_in *json);

/* Reads the next event of an object or array; fails unless it is of this kind. */
SL_MUST_CHECK sl_err sl_json_take(struct sl_json_in *json, enum sl_json_event kind);
SL_MUST_CHECK sl_err sl_json_take_int(struct sl_json_in *json, int64_t low, int64_t high,
                                      int64_t *out);
SL_MUST_CHECK sl_err sl_json_take_double(struct sl_json_in *json, double *out);
/* Reads a string and unescapes it into the arena. */
SL_MUST_CHECK sl_err sl_json_take_string(struct sl_json_in *json, struct sl_arena *arena,
                                         const char **out);

/* Unescape `json->string` into the arena; the slice may have zero bytes inside. */
char *sl_json_unescape(const struct sl_json_in *json, struct sl_arena *arena);
struct sl_str sl_json_unescape_str(const struct sl_json_in *json, struct sl_arena *arena);

/* Fail with "file:line:column: message" at the current position. */
sl_err sl_json_fail(const struct sl_json_in *json, const char *fmt, ...) SL_PRINTF(2, 3);

#endif
