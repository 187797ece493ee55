/* Translates regular expressions. Oniguruma's dialect differs from PCRE2:
 *
 *   \h is a hexadecimal digit; (?m) lets . match a line end; {,n} is {0,n}
 *   X{n,m}+ repeats X{n,m}; it is not possessive
 *   [a[bc]] is a union, [a&&b] an intersection
 *   \s \w are the classes of Unicode; \p{Han} is the script, without extensions
 *   \u1234 is a character; \p{Alpha} ... are POSIX classes */
#include "tokenizer/dialect.h"

#include "tokenizer/unicode.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define WORD                                                                                       \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"                    \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define HEX "0-9a-fA-F"

enum { GROUPS = 64, CLASSES = 8, NAME = 40 };

struct translation {
    const char *at, *end;
    struct sl_text *out;
    bool (*compiles)(const char *pattern);
    size_t atom; /* where the last atom begins in `out` */
    size_t group[GROUPS];
    int depth, classes;
};

/* A class that is being read: items for one pair of brackets, and alternatives to it. */
struct charset {
    struct sl_text items, others;
};

static void charset_free(struct charset *set) {
    sl_text_free(&set->items);
    sl_text_free(&set->others);
}

static void put_alternative(struct charset *set, const char *text) {
    sl_text_printf(&set->others, "%s%s", set->others.length ? "|" : "", text);
}

/* Writes the items of a class as one expression for a character. */
static void put_charset(struct sl_text *out, const struct charset *set, bool negated) {
    const char *items = set->items.length ? set->items.at : NULL;
    if (!set->others.length && items)
        sl_text_printf(out, "[%s%s]", negated ? "^" : "", items);
    else if (!set->others.length)
        sl_text_put(out, negated ? "[\\x{0}-\\x{10ffff}]" : "(?!)");
    else
        sl_text_printf(out, "%s%s%s%s%s%s)%s", negated ? "(?!" : "(?:", items ? "[" : "",
                       items ? items : "", items ? "]|" : "", set->others.at, "",
                       negated ? "[\\x{0}-\\x{10ffff}]" : "");
}

static void add_set(struct charset *set, const char *items, bool negated) {
    struct sl_text text = {0};
    if (negated) {
        sl_text_printf(&text, "[^%s]", items);
        put_alternative(set, text.at);
    } else {
        sl_text_put(&set->items, items);
    }
    sl_text_free(&text);
}

/* Returns the class with a name such as Alpha or Letter; NULL: it is a script or a category of two
 * letters. */
static const char *named_class(const char *name) {
    static const char *const names[][2] = {
        {"alnum", "\\p{Alphabetic}\\p{Nd}"},
        {"alpha", "\\p{Alphabetic}"},
        {"blank", "\\t\\p{Zs}"},
        {"cntrl", "\\p{Cc}"},
        {"digit", "\\p{Nd}"},
        {"lower", "\\p{Lowercase}"},
        {"punct", "\\p{P}$+<=>\\^`|~"},
        {"space", SPACE},
        {"upper", "\\p{Uppercase}"},
        {"word", WORD},
        {"xdigit", HEX},
        {"letter", "\\p{L}"},
        {"mark", "\\p{M}"},
        {"number", "\\p{N}"},
        {"punctuation", "\\p{P}"},
        {"symbol", "\\p{S}"},
        {"separator", "\\p{Z}"},
        {"other", "\\p{C}"},
        {"uppercaseletter", "\\p{Lu}"},
        {"lowercaseletter", "\\p{Ll}"},
        {"titlecaseletter", "\\p{Lt}"},
        {"modifierletter", "\\p{Lm}"},
        {"otherletter", "\\p{Lo}"},
        {"nonspacingmark", "\\p{Mn}"},
        {"spacingmark", "\\p{Mc}"},
        {"decimalnumber", "\\p{Nd}"},
        {"letternumber", "\\p{Nl}"},
        {"othernumber", "\\p{No}"},
        {"spaceseparator", "\\p{Zs}"},
    };
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i][0], name) == 0)
            return names[i][1];
    return NULL;
}

/* Translates \p{...} or \P{...}; `at` is after the letter. */
static sl_err add_property(struct translation *t, struct charset *set, bool negated) {
    char name[NAME], plain[NAME], text[NAME + 16];
    const char *close =
        t->at < t->end && *t->at == '{' ? memchr(t->at, '}', (size_t)(t->end - t->at)) : NULL;
    const char *from = t->at + 1;
    if (close && from < close && *from == '^') {
        negated = !negated;
        from++;
    }
    if (!close || close <= from || close - from >= NAME)
        return sl_fail(SL_ERR_INPUT, "a regular expression with a malformed \\p{...}");
    size_t length = (size_t)(close - from), used = 0;
    memcpy(name, from, length);
    name[length] = 0;
    for (size_t i = 0; i < length; i++)
        if (!strchr("_- ", name[i]))
            plain[used++] = (char)tolower((unsigned char)name[i]);
    plain[used] = 0;
    t->at = close + 1;
    const char *known = named_class(plain);
    snprintf(text, sizeof text, "\\p{sc:%s}", name);
    if (!known && !t->compiles(text)) /* it is no script, so a category or a property */
        snprintf(text, sizeof text, "\\p{%s}", name);
    if (!known && !t->compiles(text))
        return sl_fail(SL_ERR_INPUT,
                       "a regular expression with the property '%s', which is not "
                       "known here",
                       name);
    struct sl_text items = {0};
    sl_text_printf(&items, "%s%s", known ? known : text,
                   known ? "" : sl_tokenizer_unicode_newer(name));
    add_set(set, items.at, negated);
    sl_text_free(&items);
    return SL_OK;
}

/* Translates an escape that is a class or a character; `at` is after the backslash. */
static sl_err add_escape(struct translation *t, struct charset *set) {
    char c = *t->at++;
    switch (c) {
    case 's': add_set(set, SPACE, false); return SL_OK;
    case 'S': add_set(set, SPACE, true); return SL_OK;
    case 'w': add_set(set, WORD, false); return SL_OK;
    case 'W': add_set(set, WORD, true); return SL_OK;
    case 'd': add_set(set, "\\p{Nd}", false); return SL_OK;
    case 'D': add_set(set, "\\p{Nd}", true); return SL_OK;
    case 'h': add_set(set, HEX, false); return SL_OK;
    case 'H': add_set(set, HEX, true); return SL_OK;
    case 'p':
    case 'P': return add_property(t, set, c == 'P');
    case 'u':
        if (t->end - t->at < 4)
            return sl_fail(SL_ERR_INPUT, "a regular expression with a malformed \\u");
        sl_text_printf(&set->items, "\\x{%.4s}", t->at);
        t->at += 4;
        return SL_OK;
    default:
        sl_text_put(&set->items, "\\");
        sl_text_put_bytes(&set->items, &c, 1);
        return SL_OK;
    }
}

static sl_err put_class(struct translation *t, struct sl_text *out);

/* Reads one item of a class; `at` is at its first byte. */
static sl_err add_item(struct translation *t, struct charset *set) {
    char c = *t->at;
    struct sl_text inner = {0};
    if (c == '\\' && t->end - t->at > 1) {
        t->at++;
        return add_escape(t, set);
    }
    if (c != '[') {
        t->at++;
        sl_text_put_bytes(&set->items, &c, 1);
        return SL_OK;
    }
    const char *close = t->end - t->at > 3 && t->at[1] == ':' ? strchr(t->at + 2, ':') : NULL;
    if (close && close[1] == ']') {
        sl_text_put_bytes(&set->items, t->at, (size_t)(close + 2 - t->at));
        t->at = close + 2;
        return SL_OK;
    }
    sl_err err = put_class(t, &inner);
    if (err == SL_OK)
        put_alternative(set, inner.at);
    sl_text_free(&inner);
    return err;
}

/* Reads the items up to "&&" or "]". */
static sl_err read_segment(struct translation *t, struct charset *set, bool first) {
    const char *start = t->at;
    while (t->at < t->end) {
        if (*t->at == ']' && !(first && t->at == start))
            return SL_OK;
        if (t->at[0] == '&' && t->end - t->at > 1 && t->at[1] == '&')
            return SL_OK;
        if (*t->at == ']') {
            t->at++;
            sl_text_put(&set->items, "\\]");
            continue;
        }
        SL_TRY(add_item(t, set));
    }
    return sl_fail(SL_ERR_INPUT, "a regular expression with a class that is not closed");
}

/* Writes [A&&B] as a character of A before which (?=B) holds. `at` is at the bracket. */
static sl_err put_class(struct translation *t, struct sl_text *out) {
    struct sl_text whole = {0};
    struct charset first = {{0}, {0}};
    sl_err err = SL_OK;
    bool negated = t->end - t->at > 1 && t->at[1] == '^', crossed = false;
    t->at += negated ? 2 : 1;
    if (++t->classes > CLASSES)
        return sl_fail(SL_ERR_INPUT, "a regular expression with classes nested deeper than %d",
                       CLASSES);
    SL_TRY_OUT(read_segment(t, &first, true));
    while (*t->at == '&') {
        struct charset more = {{0}, {0}};
        t->at += 2;
        crossed = true;
        err = read_segment(t, &more, false);
        sl_text_put(&whole, "(?=");
        put_charset(&whole, &more, false);
        sl_text_put(&whole, ")");
        charset_free(&more);
        if (err != SL_OK)
            goto out;
    }
    t->at++;
    t->classes--;
    if (!crossed) {
        put_charset(out, &first, negated);
        goto out;
    }
    put_charset(&whole, &first, false);
    sl_text_printf(out, "%s%s)%s", negated ? "(?!" : "(?:", whole.at,
                   negated ? "[\\x{0}-\\x{10ffff}]" : "");
out:
    charset_free(&first);
    sl_text_free(&whole);
    return err;
}

static sl_err put_escape(struct translation *t) {
    struct charset set = {{0}, {0}};
    if (t->end - t->at < 2)
        return sl_fail(SL_ERR_INPUT, "a regular expression that ends in a backslash");
    t->at++;
    if (!strchr("sSwWdDhHpPu", *t->at)) {
        sl_text_put(t->out, "\\");
        sl_text_put_bytes(t->out, t->at++, 1);
        return SL_OK;
    }
    sl_err err = add_escape(t, &set);
    if (err == SL_OK)
        put_charset(t->out, &set, false);
    charset_free(&set);
    return err;
}

/* Translates "(", "(?:", "(?m-i:" and others, up to the text that is not special. */
static sl_err put_group(struct translation *t) {
    if (t->depth == GROUPS)
        return sl_fail(SL_ERR_INPUT, "a regular expression with groups nested deeper than %d",
                       GROUPS);
    t->group[t->depth++] = t->out->length;
    sl_text_put(t->out, "(");
    t->at++;
    if (t->end - t->at < 2 || *t->at != '?')
        return SL_OK;
    sl_text_put(t->out, "?");
    t->at++;
    while (t->at < t->end && strchr("imx-", *t->at)) {
        sl_text_put_bytes(t->out, *t->at == 'm' ? "s" : t->at, 1);
        t->at++;
    }
    if (t->at < t->end && *t->at != ')')
        sl_text_put_bytes(t->out, t->at++, 1); /* one of : = ! < > # */
    return SL_OK;
}

/* Translates {n,m}; any other brace stands for itself. */
static void put_braces(struct translation *t) {
    const char *at = t->at + 1;
    struct sl_text atom = {0};
    while (at < t->end && (isdigit((unsigned char)*at) || *at == ','))
        at++;
    if (at >= t->end || *at != '}' || at - t->at < 2 || at[-1] == '{') {
        t->atom = t->out->length;
        sl_text_put(t->out, "\\{");
        t->at++;
        return;
    }
    bool repeats = t->end - at > 1 && at[1] == '+';
    if (repeats) {
        sl_text_put_bytes(&atom, t->out->at + t->atom, t->out->length - t->atom);
        t->out->length = t->atom;
        sl_text_printf(t->out, "(?:%s", atom.at ? atom.at : "");
    }
    sl_text_put(t->out, t->at[1] == ',' ? "{0" : "{");
    sl_text_put_bytes(t->out, t->at + 1, (size_t)(at - t->at));
    sl_text_put(t->out, repeats ? ")" : "");
    t->at = at + 1;
    sl_text_free(&atom);
}

sl_err sl_tokenizer_dialect(struct sl_str pattern, bool (*compiles)(const char *),
                            struct sl_text *out) {
    struct sl_text copy = {0};
    sl_text_put_bytes(&copy, pattern.at, pattern.length);
    sl_text_put(&copy, "");
    struct translation t = {
        .at = copy.at, .end = copy.at + copy.length, .out = out, .compiles = compiles};
    sl_err err = SL_OK;
    sl_text_put(out, "");
    while (t.at < t.end) {
        char c = *t.at;
        if (!strchr("*+?{", c) || !c)
            t.atom = out->length;
        if (c == '\\')
            SL_TRY_OUT(put_escape(&t));
        else if (c == '[')
            SL_TRY_OUT(put_class(&t, out));
        else if (c == '(')
            SL_TRY_OUT(put_group(&t));
        else if (c == '{')
            put_braces(&t);
        else {
            if (c == ')' && t.depth)
                t.atom = t.group[--t.depth];
            do
                sl_text_put_bytes(out, t.at++, 1);
            while (t.at < t.end && ((unsigned char)*t.at & 0xc0) == 0x80);
        }
    }
out:
    sl_text_free(&copy);
    return err;
}
