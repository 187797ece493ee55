/* Jobs as TOML: the part of TOML 1.0 that a job needs.
 *
 *   # comment
 *   batch = 16
 *   optimizer = "adamw:wd=0.1"       # or 'literal'
 *   sizes = { L = 4, C = 128 }       # or sizes.L = 4, or a table [sizes]
 *
 * It reads bare and quoted keys, strings of one line, decimal numbers, true and false. Arrays,
 * dates, multi-line strings and numbers of other bases are refused, because no field has such a
 * value. */
#include "job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 128, VALUE_BYTES = 1 << 20 };

struct reader {
    const char *file, *at, *end, *line_start;
    int line;
    struct sl_job *job;
    uint64_t seen;
    bool in_sizes;        /* the line is in the table [sizes] */
    struct sl_text names; /* names of sizes so far: ",L,C," */
    struct sl_text value; /* the last value, in the form that sl_job_set takes */
    char key[KEY_BYTES], size[KEY_BYTES];
};

static sl_err fail_at(const struct reader *r, const char *at, const char *fmt, ...) SL_PRINTF(3, 4);

static sl_err fail_at(const struct reader *r, const char *at, const char *fmt, ...) {
    char message[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return sl_fail(SL_ERR_INPUT, "%s:%d:%d: %s", r->file, r->line, (int)(at - r->line_start) + 1,
                   message);
}

/* ---- characters ---- */

static int peek(const struct reader *r) { return r->at < r->end ? (unsigned char)*r->at : -1; }

static void skip_blanks(struct reader *r) {
    while (peek(r) == ' ' || peek(r) == '\t')
        r->at++;
}

static const char *found(const struct reader *r, char out[32]) {
    int c = peek(r);
    if (c < 0)
        return "the end of the file";
    if (c == '\n' || c == '\r')
        return "the end of the line";
    if (c < 32 || c == 127)
        snprintf(out, 32, "byte %d", c);
    else
        snprintf(out, 32, "'%c'", c);
    return out;
}

static sl_err expect(struct reader *r, char wanted) {
    char buffer[32];
    skip_blanks(r);
    if (peek(r) != wanted)
        return fail_at(r, r->at, "expected '%c', found %s", wanted, found(r, buffer));
    r->at++;
    return SL_OK;
}

/* Reads the rest of a line: blanks, a comment, a line break. */
static sl_err end_line(struct reader *r) {
    char buffer[32];
    skip_blanks(r);
    if (peek(r) == '#')
        for (; peek(r) >= 0 && peek(r) != '\n'; r->at++)
            if (peek(r) < 32 && peek(r) != '\t' && peek(r) != '\r')
                return fail_at(r, r->at, "%s in a comment", found(r, buffer));
    if (peek(r) == '\r')
        r->at++;
    if (peek(r) < 0)
        return SL_OK;
    if (peek(r) != '\n')
        return fail_at(r, r->at, "expected the end of the line, found %s", found(r, buffer));
    r->line_start = ++r->at;
    r->line++;
    return SL_OK;
}

/* ---- strings ---- */

static int hex_digit(int c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_utf8(struct sl_text *text, unsigned code) {
    char bytes[4];
    int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = count - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(count == 1 ? code : (0xf00u >> count & 0xffu) | code);
    sl_text_put_bytes(text, bytes, (size_t)count);
}

static sl_err read_code_point(struct reader *r, int digits) {
    const char *begin = r->at;
    unsigned code = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = hex_digit(peek(r));
        if (digit < 0)
            return fail_at(r, begin, "expected %d hexadecimal digits", digits);
        code = code << 4 | (unsigned)digit;
    }
    if (!code || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return fail_at(r, begin, "this is no character");
    put_utf8(&r->value, code);
    return SL_OK;
}

static sl_err read_escape(struct reader *r) {
    static const char names[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
    int c = peek(r);
    const char *name = c > 0 ? strchr(names, c) : NULL;
    if (c == 'u' || c == 'U') {
        r->at++;
        return read_code_point(r, c == 'u' ? 4 : 8);
    }
    if (!name)
        return fail_at(r, r->at, "unknown escape; TOML has \\b \\t \\n \\f \\r \\\" \\\\ \\uXXXX");
    sl_text_put_bytes(&r->value, &values[name - names], 1);
    r->at++;
    return SL_OK;
}

/* Reads a string into r->value. */
static sl_err read_string(struct reader *r) {
    const char *begin = r->at;
    int quote = peek(r);
    r->value.length = 0;
    sl_text_put(&r->value, "");
    r->at++;
    if (peek(r) == quote && r->at + 1 < r->end && r->at[1] == quote)
        return fail_at(r, begin, "strings of several lines are not supported");
    while (peek(r) != quote) {
        int c = peek(r);
        if (c < 0 || c == '\n' || (c < 32 && c != '\t') || c == 127)
            return fail_at(r, c < 0 || c == '\n' ? begin : r->at, "%s",
                           c < 0 || c == '\n' ? "this string does not end on its line"
                                              : "a control character must be written as an escape");
        r->at++;
        if (c == '\\' && quote == '"')
            SL_TRY(read_escape(r));
        else
            sl_text_put_bytes(&r->value, r->at - 1, 1);
        if (r->value.length > VALUE_BYTES)
            return fail_at(r, begin, "this string is longer than %d bytes", VALUE_BYTES);
    }
    r->at++;
    return SL_OK;
}

/* ---- keys and values ---- */

static bool is_bare(int c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static sl_err read_key(struct reader *r, char key[KEY_BYTES]) {
    char buffer[32];
    skip_blanks(r);
    const char *begin = r->at;
    r->value.length = 0;
    sl_text_put(&r->value, "");
    if (peek(r) == '"' || peek(r) == '\'')
        SL_TRY(read_string(r));
    else
        for (; is_bare(peek(r)); r->at++)
            sl_text_put_bytes(&r->value, r->at, 1);
    if (r->at == begin)
        return fail_at(r, begin, "expected a key, found %s", found(r, buffer));
    if (r->value.length >= KEY_BYTES)
        return fail_at(r, begin, "this key is too long");
    memcpy(key, r->value.at, r->value.length + 1);
    return SL_OK;
}

/* Reads a decimal number without its underscores into r->value. */
static sl_err read_number(struct reader *r) {
    const char *begin = r->at;
    bool digit = false;
    r->value.length = 0;
    sl_text_put(&r->value, "");
    for (int c; (c = peek(r)) >= 0 && (is_bare(c) || c == '+' || c == '.' || c == ':'); r->at++) {
        bool is_digit = c >= '0' && c <= '9';
        if (c == '_' &&
            (!digit || r->at + 1 >= r->end || hex_digit(r->at[1]) > 9 || hex_digit(r->at[1]) < 0))
            return fail_at(r, r->at, "'_' must stand between digits");
        if (!is_digit && !strchr("_+-.eE", c))
            return fail_at(r, begin, "expected a string, a decimal number, true or false");
        if (c != '_' && !(c == '+' && r->at == begin))
            sl_text_put_bytes(&r->value, r->at, 1);
        digit = is_digit;
    }
    return digit ? SL_OK : fail_at(r, begin, "expected a string, a decimal number, true or false");
}

static bool take_word(struct reader *r, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    r->value.length = 0;
    sl_text_put(&r->value, word);
    return true;
}

/* Reads a value of the kind of the field into r->value. */
static sl_err read_value(struct reader *r, enum sl_job_kind kind) {
    char buffer[32];
    skip_blanks(r);
    int c = peek(r);
    bool quoted = c == '"' || c == '\'', text = kind == SL_JOB_TEXT || kind == SL_JOB_CHOICE;
    bool number = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.';
    if (c == '[')
        return fail_at(r, r->at, "no field has an array as value");
    if (quoted && text)
        return read_string(r);
    if (number && (kind == SL_JOB_INT || kind == SL_JOB_NUMBER || kind == SL_JOB_SIZES))
        return read_number(r);
    if (kind == SL_JOB_FLAG && (take_word(r, "true") || take_word(r, "false")))
        return SL_OK;
    return fail_at(r, r->at, "expected %s, found %s",
                   text                  ? "a string in quotes"
                   : kind == SL_JOB_FLAG ? "true or false"
                                         : "a number",
                   quoted ? "a string" : found(r, buffer));
}

static sl_err set(struct reader *r, const char *at, const char *key, const char *value) {
    if (sl_job_set(r->job, key, value) == SL_OK)
        return SL_OK;
    char message[512];
    snprintf(message, sizeof message, "%s", sl_err_message());
    return fail_at(r, at, "%s", message);
}

static sl_err read_size(struct reader *r, const char *at) {
    struct sl_text item = {0};
    sl_err err = SL_OK;
    sl_text_printf(&item, ",%s,", r->size);
    if (!*r->size || strpbrk(r->size, "=,"))
        SL_TRY_OUT(fail_at(r, at, "'%s' cannot be the name of a size", r->size));
    if (r->names.length && strstr(r->names.at, item.at))
        SL_TRY_OUT(fail_at(r, at, "size '%s' is given twice", r->size));
    sl_text_put(&r->names, item.at);
    SL_TRY_OUT(expect(r, '='));
    SL_TRY_OUT(read_value(r, SL_JOB_SIZES));
    item.length = 0;
    sl_text_printf(&item, "%s=%s", r->size, r->value.at);
    SL_TRY_OUT(set(r, at, "sizes", item.at));
out:
    sl_text_free(&item);
    return err;
}

/* Reads { L = 4, C = 128 }. */
static sl_err read_inline_sizes(struct reader *r) {
    SL_TRY(expect(r, '{'));
    skip_blanks(r);
    for (bool first = true; peek(r) != '}' || first; first = false) {
        if (peek(r) == '}')
            break;
        if (!first)
            SL_TRY(expect(r, ','));
        skip_blanks(r);
        const char *at = r->at;
        SL_TRY(read_key(r, r->size));
        SL_TRY(read_size(r, at));
        skip_blanks(r);
    }
    return expect(r, '}');
}

static sl_err find_field(struct reader *r, const char *at, const struct sl_job_field **out) {
    const struct sl_job_field *field = sl_job_field_find(r->key);
    if (!field)
        return set(r, at, r->key, "");
    if (field->role == SL_JOB_LOCAL)
        return fail_at(r, at, "`%s` is not part of a file", field->key);
    uint64_t bit = (uint64_t)1 << (field - sl_job_fields);
    if (r->seen & bit && field->kind != SL_JOB_SIZES)
        return fail_at(r, at, "`%s` is given twice", field->key);
    r->seen |= bit;
    *out = field;
    return SL_OK;
}

/* Reads key = value. */
static sl_err read_pair(struct reader *r) {
    const struct sl_job_field *field;
    const char *at = r->at;
    if (r->in_sizes) {
        SL_TRY(read_key(r, r->size));
        return read_size(r, at);
    }
    SL_TRY(read_key(r, r->key));
    SL_TRY(find_field(r, at, &field));
    skip_blanks(r);
    if (field->kind == SL_JOB_SIZES && peek(r) == '.') {
        r->at++;
        SL_TRY(read_key(r, r->size));
        return read_size(r, at);
    }
    SL_TRY(expect(r, '='));
    skip_blanks(r);
    if (field->kind == SL_JOB_SIZES)
        return read_inline_sizes(r);
    SL_TRY(read_value(r, field->kind));
    if (memchr(r->value.at, 0, r->value.length))
        return fail_at(r, at, "a value cannot hold a byte 0");
    return set(r, at, r->key, r->value.at);
}

/* Reads the line [sizes]. */
static sl_err read_table(struct reader *r) {
    const struct sl_job_field *field;
    SL_TRY(expect(r, '['));
    skip_blanks(r);
    const char *name = r->at;
    SL_TRY(read_key(r, r->key));
    SL_TRY(find_field(r, name, &field));
    if (field->kind != SL_JOB_SIZES)
        return fail_at(r, name, "`%s` is no table; the only one is [sizes]", field->key);
    r->in_sizes = true;
    return expect(r, ']');
}

static sl_err read_lines(struct reader *r) {
    while (r->at < r->end) {
        skip_blanks(r);
        int c = peek(r);
        if (c == '[')
            SL_TRY(read_table(r));
        else if (c >= 0 && c != '#' && c != '\n' && c != '\r')
            SL_TRY(read_pair(r));
        SL_TRY(end_line(r));
    }
    return SL_OK;
}

sl_err sl_job_read_toml(struct sl_job *job, const char *file, const char *text, size_t length) {
    struct reader r = {
        .file = file, .at = text, .end = text + length, .line_start = text, .line = 1, .job = job};
    sl_err err = read_lines(&r);
    sl_text_free(&r.names);
    sl_text_free(&r.value);
    return err;
}

/* ---- writing ---- */

/* JSON strings are TOML strings, except for DEL. */
static void put_string(struct sl_text *out, const char *json) {
    for (; *json; json++)
        if (*json == 127)
            sl_text_put(out, "\\u007F");
        else
            sl_text_put_bytes(out, json, 1);
}

/* Writes {"L": 4, "h-0": 2} as one pair per line. */
static void put_sizes(struct sl_text *out, const char *json) {
    struct sl_text text = {0};
    sl_text_put(out, "\n[sizes]\n");
    for (const char *at = json + 1; (at = strchr(at, '"')) != NULL;) {
        const char *close = at + 1;
        while (*close != '"')
            close += *close == '\\' ? 2 : 1;
        const char *value = close + 1 + strspn(close + 1, ": ");
        size_t length = strcspn(value, ",}\n ");
        bool bare = close > at + 1;
        for (const char *c = at + 1; c < close; c++)
            bare &= is_bare((unsigned char)*c);
        text.length = 0;
        sl_text_put_bytes(&text, at + bare, (size_t)(close + 1 - at) - 2 * bare);
        put_string(out, text.at);
        sl_text_printf(out, " = %.*s\n", (int)length, value);
        at = value + length;
    }
    sl_text_free(&text);
}

void sl_job_write_toml(const struct sl_job *job, struct sl_text *out) {
    struct sl_text value = {0};
    sl_text_put(out, "");
    for (int tables = 0; tables < 2; tables++) /* fields first, because a table ends them */
        for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
            if (f->role == SL_JOB_LOCAL || !sl_job_has(job, f->key) ||
                (f->kind == SL_JOB_SIZES) != tables)
                continue;
            value.length = 0;
            sl_job_write_value(job, f, &value);
            if (tables) {
                put_sizes(out, value.at);
                continue;
            }
            sl_text_printf(out, "%s = ", f->key);
            put_string(out, value.at);
            sl_text_printf(out, "  # %s\n", f->brief);
        }
    sl_text_free(&value);
}
