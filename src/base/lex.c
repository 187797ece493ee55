/* The lexer of all text formats. */
#include "base/lex.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_start(char c) { return isalpha((unsigned char)c) || c == '_'; }

static bool is_name_char(const struct sl_lex *lex, char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.' || (lex->dashes && c == '-');
}

/* Adds "file:line:column" to the message. Generated text has no file name: its errors have no
 * position. */
static sl_err add_place(const char *file, struct sl_pos pos) {
    if (!*file)
        return SL_ERR_INPUT;
    return sl_err_context(SL_ERR_INPUT, "%s:%d:%d", file, pos.line, pos.column);
}

sl_err sl_lex_fail_at(const struct sl_lex *lex, struct sl_pos pos, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_INPUT, fmt, args);
    va_end(args);
    return add_place(pos.file ? pos.file : lex->file, pos);
}

sl_err sl_lex_fail(const struct sl_lex *lex, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sl_vfail(SL_ERR_INPUT, fmt, args);
    va_end(args);
    return add_place(lex->file, lex->tok.pos);
}

static void skip_blank(struct sl_lex *lex) {
    while (lex->at < lex->end) {
        if (*lex->at == ' ' || *lex->at == '\t' || *lex->at == '\r')
            lex->at++;
        else if (*lex->at == '#')
            while (lex->at < lex->end && *lex->at != '\n')
                lex->at++;
        else
            return;
    }
}

static sl_err lex_number(struct sl_lex *lex) {
    char copy[64];
    size_t length = 0;
    bool is_float = false;
    const char *at = lex->at;
    while (at < lex->end && length < sizeof copy - 1) {
        bool exponent = (*at == 'e' || *at == 'E');
        bool sign = (*at == '+' || *at == '-') && length &&
                    (copy[length - 1] == 'e' || copy[length - 1] == 'E');
        /* two dots: a range such as 0..L, not a fraction */
        if (*at == '.' && at + 1 < lex->end && at[1] == '.')
            break;
        if (!isdigit((unsigned char)*at) && *at != '.' && !exponent && !sign)
            break;
        is_float |= *at == '.' || exponent;
        copy[length++] = *at++;
    }
    copy[length] = 0;
    char *stop;
    lex->tok.number = strtod(copy, &stop);
    if (*stop || length == sizeof copy - 1 || (at < lex->end && is_name_start(*at)))
        return sl_lex_fail(lex, "malformed number '%s'", copy);
    if (!isfinite(lex->tok.number))
        return sl_lex_fail(lex, "number '%s' is out of range", copy);
    lex->tok.kind = is_float ? SL_TOK_FLOAT : SL_TOK_INT;
    if (!is_float) {
        if (length > 18)
            return sl_lex_fail(lex, "number '%s' is out of range", copy);
        lex->tok.integer = strtoll(copy, NULL, 10);
    }
    lex->at = at;
    return SL_OK;
}

static sl_err lex_string(struct sl_lex *lex) {
    const char *start = ++lex->at;
    while (lex->at < lex->end && *lex->at != '"' && *lex->at != '\n') {
        if (*lex->at == '\\' && lex->at + 1 < lex->end && lex->at[1] != '\n')
            lex->at++;
        lex->at++;
    }
    if (lex->at >= lex->end || *lex->at != '"')
        return sl_lex_fail(lex, "string is not closed on its line");
    lex->tok.kind = SL_TOK_STRING;
    lex->tok.text = (struct sl_str){start, (size_t)(lex->at - start)};
    lex->at++;
    return SL_OK;
}

static sl_err lex_punct(struct sl_lex *lex) {
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "->", "..", "//", "+=", "&&", "||"};
    size_t length = 1;
    if (!strchr("()[]{},:;=+-*/<>~@!%|&.^", *lex->at))
        return isprint((unsigned char)*lex->at)
                   ? sl_lex_fail(lex, "unexpected character '%c'", *lex->at)
                   : sl_lex_fail(lex, "unexpected byte 0x%02x; is this a text file?",
                                 (unsigned)(unsigned char)*lex->at);
    if (lex->at + 1 < lex->end)
        for (int i = 0; i < SL_COUNT(pairs); i++)
            if (memcmp(lex->at, pairs[i], 2) == 0)
                length = 2;
    lex->tok.kind = SL_TOK_PUNCT;
    lex->at += length;
    return SL_OK;
}

sl_err sl_lex_next(struct sl_lex *lex) {
    skip_blank(lex);
    const char *start = lex->at;
    lex->tok = (struct sl_tok){
        .kind = SL_TOK_END,
        .text = {start, 0},
        .pos = {lex->line, (int)(start - lex->line_start) + 1, lex->file},
    };
    if (start >= lex->end)
        return SL_OK;
    if (*start == '"')
        return lex_string(lex);
    if (*start == '\n') {
        lex->tok.kind = SL_TOK_NEWLINE;
        lex->line++;
        lex->line_start = ++lex->at;
    } else if (is_name_start(*start)) {
        lex->tok.kind = SL_TOK_NAME;
        while (lex->at < lex->end && is_name_char(lex, *lex->at)) {
            if (*lex->at == '.' && lex->at + 1 < lex->end && lex->at[1] == '.')
                break;
            lex->at++;
        }
    } else if (isdigit((unsigned char)*start)) {
        SL_TRY(lex_number(lex));
    } else {
        SL_TRY(lex_punct(lex));
    }
    lex->tok.text.length = (size_t)(lex->at - start);
    return SL_OK;
}

sl_err sl_lex_open(struct sl_lex *lex, const char *file, const char *text, size_t length,
                   bool dashes) {
    *lex = (struct sl_lex){.file = file,
                           .at = text,
                           .end = text + length,
                           .line_start = text,
                           .line = 1,
                           .dashes = dashes};
    return sl_lex_next(lex);
}

bool sl_lex_is(const struct sl_lex *lex, const char *punct) {
    return lex->tok.kind == SL_TOK_PUNCT && sl_str_is(lex->tok.text, punct);
}

bool sl_lex_is_name(const struct sl_lex *lex, const char *name) {
    return lex->tok.kind == SL_TOK_NAME && sl_str_is(lex->tok.text, name);
}

const char *sl_lex_found(const struct sl_lex *lex, char out[64]) {
    int shown = lex->tok.text.length < 40 ? (int)lex->tok.text.length : 40;
    switch (lex->tok.kind) {
    case SL_TOK_END: snprintf(out, 64, "the end of the file"); break;
    case SL_TOK_NEWLINE: snprintf(out, 64, "the end of the line"); break;
    case SL_TOK_STRING: snprintf(out, 64, "\"%.*s\"", shown, lex->tok.text.at); break;
    default: snprintf(out, 64, "'%.*s'", shown, lex->tok.text.at); break;
    }
    return out;
}

static sl_err fail_expected(const struct sl_lex *lex, const char *what) {
    char found[64];
    return sl_lex_fail(lex, "expected %s, found %s", what, sl_lex_found(lex, found));
}

sl_err sl_lex_expect(struct sl_lex *lex, const char *punct) {
    char what[16];
    snprintf(what, sizeof what, "'%s'", punct);
    if (!sl_lex_is(lex, punct))
        return fail_expected(lex, what);
    return sl_lex_next(lex);
}

sl_err sl_lex_take_name(struct sl_lex *lex, const char *what, struct sl_str *out) {
    if (lex->tok.kind != SL_TOK_NAME)
        return fail_expected(lex, what);
    *out = lex->tok.text;
    return sl_lex_next(lex);
}

sl_err sl_lex_take_int(struct sl_lex *lex, const char *what, int64_t *out) {
    bool negative = sl_lex_is(lex, "-");
    if (negative)
        SL_TRY(sl_lex_next(lex));
    if (lex->tok.kind != SL_TOK_INT)
        return fail_expected(lex, what);
    *out = negative ? -lex->tok.integer : lex->tok.integer;
    return sl_lex_next(lex);
}

sl_err sl_lex_take_number(struct sl_lex *lex, const char *what, double *out) {
    bool negative = sl_lex_is(lex, "-");
    if (negative)
        SL_TRY(sl_lex_next(lex));
    if (lex->tok.kind != SL_TOK_INT && lex->tok.kind != SL_TOK_FLOAT)
        return fail_expected(lex, what);
    *out = negative ? -lex->tok.number : lex->tok.number;
    return sl_lex_next(lex);
}

sl_err sl_lex_take_string(struct sl_lex *lex, const char *what, struct sl_str *out) {
    if (lex->tok.kind != SL_TOK_STRING)
        return fail_expected(lex, what);
    *out = lex->tok.text;
    return sl_lex_next(lex);
}

sl_err sl_lex_take_newline(struct sl_lex *lex) {
    if (lex->tok.kind == SL_TOK_END)
        return SL_OK;
    if (lex->tok.kind != SL_TOK_NEWLINE)
        return fail_expected(lex, "the end of the line");
    return sl_lex_skip_newlines(lex);
}

sl_err sl_lex_skip_newlines(struct sl_lex *lex) {
    while (lex->tok.kind == SL_TOK_NEWLINE)
        SL_TRY(sl_lex_next(lex));
    return SL_OK;
}

sl_err sl_lex_take_lines(struct sl_lex *lex, const struct sl_lex_line *lines, int count,
                         void *reader) {
    while (lex->tok.kind == SL_TOK_NAME) {
        int i = 0;
        while (i < count && !sl_lex_is_name(lex, lines[i].word))
            i++;
        if (i == count)
            break;
        SL_TRY(sl_lex_next(lex));
        SL_TRY(lines[i].read(reader));
        SL_TRY(sl_lex_take_newline(lex));
    }
    return SL_OK;
}
