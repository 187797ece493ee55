/* JSON pull reader: one event at a time, no allocation, depth limited.
 *
 *            ,---- value ----.                    (in an array)
 *   VALUE ---+---------------+--> AFTER --','--> VALUE
 *            `-- '{' --> KEY --':'--> VALUE       (in an object)
 */
#include "base/json_keys.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WANT_VALUE, WANT_VALUE_OR_END, WANT_KEY, WANT_KEY_OR_END, WANT_AFTER };

sl_err sl_json_fail(const struct sl_json_in *json, const char *fmt, ...) {
    int line = 1;
    const char *line_start = json->start;
    for (const char *at = json->start; at < json->at; at++)
        if (*at == '\n') {
            line++;
            line_start = at + 1;
        }
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_INPUT, fmt, args);
    va_end(args);
    return sl_err_context(SL_ERR_INPUT, "%s:%d:%d", json->file, line,
                          (int)(json->at - line_start) + 1);
}

void sl_json_read(struct sl_json_in *json, const char *file, const char *text, size_t length) {
    *json = (struct sl_json_in){.file = file,
                                .start = text,
                                .at = text,
                                .end = text + length,
                                .expect = WANT_VALUE,
                                .is_new = true};
}

static void skip_blank(struct sl_json_in *json) {
    while (json->at < json->end && strchr(" \t\r\n", *json->at) && *json->at)
        json->at++;
}

static sl_err read_string(struct sl_json_in *json) {
    const char *start = ++json->at;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return sl_json_fail(json, "control character in a string");
        if (*json->at == '\\' && json->at + 1 < json->end) {
            if (!strchr("\"\\/bfnrtu", json->at[1]) || !json->at[1])
                return sl_json_fail(json, "unknown escape in a string");
            json->at++;
        }
        json->at++;
    }
    if (json->at >= json->end)
        return sl_json_fail(json, "string is not closed");
    json->string = (struct sl_str){start, (size_t)(json->at - start)};
    json->at++;
    return SL_OK;
}

static sl_err read_number(struct sl_json_in *json) {
    char copy[64];
    size_t length = 0;
    while (json->at + length < json->end && length < sizeof copy - 1 &&
           strchr("+-0123456789.eE", json->at[length]) && json->at[length]) {
        copy[length] = json->at[length];
        length++;
    }
    copy[length] = 0;
    char *stop;
    json->number = strtod(copy, &stop);
    if (!length || *stop || length == sizeof copy - 1 || copy[0] == '+' || copy[0] == '.')
        return sl_json_fail(json, "malformed number");
    if (!isfinite(json->number))
        return sl_json_fail(json, "number '%s' is out of range", copy);
    json->string = (struct sl_str){json->at, length};
    json->at += length;
    json->event = SL_JSON_NUMBER;
    return SL_OK;
}

static bool take_word(struct sl_json_in *json, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(json->end - json->at) < length || memcmp(json->at, word, length) != 0)
        return false;
    json->at += length;
    return true;
}

static sl_err open_container(struct sl_json_in *json, char bracket) {
    if (json->depth == SL_JSON_DEPTH)
        return sl_json_fail(json, "nested deeper than %d", SL_JSON_DEPTH);
    json->stack[json->depth++] = bracket;
    json->at++;
    json->event = bracket == '{' ? SL_JSON_OBJECT : SL_JSON_ARRAY;
    json->expect = bracket == '{' ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    return SL_OK;
}

static sl_err close_container(struct sl_json_in *json, char bracket) {
    char open = bracket == '}' ? '{' : '[';
    if (!json->depth || json->stack[json->depth - 1] != open)
        return sl_json_fail(json, "'%c' closes nothing", bracket);
    json->depth--;
    json->at++;
    json->event = bracket == '}' ? SL_JSON_OBJECT_END : SL_JSON_ARRAY_END;
    json->expect = WANT_AFTER;
    return SL_OK;
}

static sl_err read_value(struct sl_json_in *json) {
    char c = *json->at;
    if (c == '{' || c == '[')
        return open_container(json, c);
    json->expect = WANT_AFTER;
    if (c == '"') {
        json->event = SL_JSON_STRING;
        return read_string(json);
    }
    if (take_word(json, "true") || take_word(json, "false")) {
        json->boolean = json->at[-1] == 'e' && json->at[-2] == 'u';
        json->event = SL_JSON_BOOL;
        return SL_OK;
    }
    if (take_word(json, "null")) {
        json->event = SL_JSON_NULL;
        return SL_OK;
    }
    if (c == '-' || isdigit((unsigned char)c))
        return read_number(json);
    return sl_json_fail(json, "expected a value");
}

static sl_err read_key(struct sl_json_in *json) {
    if (*json->at != '"')
        return sl_json_fail(json, "expected a key in quotes");
    SL_TRY(read_string(json));
    skip_blank(json);
    if (json->at >= json->end || *json->at != ':')
        return sl_json_fail(json, "expected ':' after the key");
    json->at++;
    json->event = SL_JSON_KEY;
    json->expect = WANT_VALUE;
    return SL_OK;
}

/* Reads what follows a value: a comma, or the end of the container or of the text. */
static sl_err read_after(struct sl_json_in *json) {
    char top = json->stack[json->depth - 1];
    if (*json->at == '}' || *json->at == ']')
        return close_container(json, *json->at);
    if (*json->at != ',')
        return sl_json_fail(json, "expected ',' or '%c'", top == '{' ? '}' : ']');
    json->at++;
    skip_blank(json);
    if (json->at >= json->end)
        return sl_json_fail(json, "the text ends inside a value");
    return top == '{' ? read_key(json) : read_value(json);
}

sl_err sl_json_next(struct sl_json_in *json) {
    if (json->is_new) {
        json->is_new = false;
        SL_TRY(sl_json_check_keys(*json));
    }
    skip_blank(json);
    if (json->expect == WANT_AFTER && json->depth == 0) {
        json->event = SL_JSON_END;
        return json->at < json->end ? sl_json_fail(json, "text after the end of the value") : SL_OK;
    }
    if (json->at >= json->end)
        return sl_json_fail(json, "the text ends inside a value");
    switch (json->expect) {
    case WANT_AFTER: return read_after(json);
    case WANT_KEY_OR_END:
        if (*json->at == '}')
            return close_container(json, '}');
        return read_key(json);
    case WANT_VALUE_OR_END:
        if (*json->at == ']')
            return close_container(json, ']');
        return read_value(json);
    default: return read_value(json);
    }
}

sl_err sl_json_skip(struct sl_json_in *json) {
    if (json->event != SL_JSON_OBJECT && json->event != SL_JSON_ARRAY)
        return SL_OK;
    int outside = json->depth - 1;
    while (json->depth > outside)
        SL_TRY(sl_json_next(json));
    return SL_OK;
}

sl_err sl_json_take(struct sl_json_in *json, enum sl_json_event kind) {
    static const char *const names[] = {"the end", "an object", "'}'",      "a list",    "']'",
                                        "a key",   "a string",  "a number", "a boolean", "null"};
    SL_TRY(sl_json_next(json));
    if (json->event != kind)
        return sl_json_fail(json, "expected %s, found %s", names[kind], names[json->event]);
    return SL_OK;
}

/* Parses the text of the number, because the double is exact only up to 2^53. Accepts "1e3" too. */
static bool whole_number(const struct sl_json_in *json, int64_t *out) {
    char copy[64], *stop;
    SL_ASSERT(json->string.length < sizeof copy);
    memcpy(copy, json->string.at, json->string.length);
    copy[json->string.length] = 0;
    errno = 0;
    long long value = strtoll(copy, &stop, 10);
    bool whole = !*stop && errno == 0;
    if (*stop && json->number == floor(json->number) && fabs(json->number) < 0x1p63) {
        value = (long long)json->number;
        whole = true;
    }
    *out = value;
    return whole;
}

sl_err sl_json_take_int(struct sl_json_in *json, int64_t low, int64_t high, int64_t *out) {
    SL_TRY(sl_json_take(json, SL_JSON_NUMBER));
    if (!whole_number(json, out) || *out < low || *out > high)
        return sl_json_fail(json, "expected a whole number from %lld to %lld, found %g",
                            (long long)low, (long long)high, json->number);
    return SL_OK;
}

sl_err sl_json_take_double(struct sl_json_in *json, double *out) {
    SL_TRY(sl_json_take(json, SL_JSON_NUMBER));
    *out = json->number;
    return SL_OK;
}

sl_err sl_json_take_string(struct sl_json_in *json, struct sl_arena *arena, const char **out) {
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *out = sl_json_unescape(json, arena);
    return SL_OK;
}

static size_t put_utf8(char *out, unsigned code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | (code >> 6));
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    out[0] = (char)(0xe0 | (code >> 12));
    out[1] = (char)(0x80 | ((code >> 6) & 0x3f));
    out[2] = (char)(0x80 | (code & 0x3f));
    return 3;
}

struct sl_str sl_json_unescape_str(const struct sl_json_in *json, struct sl_arena *arena) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char *out = sl_arena_alloc(arena, (int64_t)json->string.length + 1);
    size_t used = 0;
    const char *end = json->string.at + json->string.length;
    for (const char *at = json->string.at; at < end; at++) {
        if (*at != '\\' || at + 1 >= end) {
            out[used++] = *at;
            continue;
        }
        at++;
        if (*at == 'u') { /* a surrogate pair becomes two sequences of three bytes */
            char digits[5] = {0};
            for (int i = 0; i < 4 && at + 1 < end; i++)
                digits[i] = *++at;
            used += put_utf8(out + used, (unsigned)strtoul(digits, NULL, 16));
        } else {
            const char *found = strchr(from, *at);
            out[used++] = found ? to[found - from] : *at;
        }
    }
    out[used] = 0;
    return (struct sl_str){out, used};
}

char *sl_json_unescape(const struct sl_json_in *json, struct sl_arena *arena) {
    return (char *)sl_json_unescape_str(json, arena).at;
}
