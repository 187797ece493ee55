/* The word rules of GPT-2 and Llama 3. A run is a sequence of characters of one class. */
#include "tokenizer/pretok.h"

#include "tokenizer/unicode.h"

/* A position in the text and the class of its character; END after the last one. */
enum { END = -1 };

struct place {
    const char *text;
    size_t length;
};

static int class_at(const struct place *p, size_t at, size_t *next) {
    uint32_t code;
    if (at >= p->length)
        return END;
    *next = at + (size_t)sl_tokenizer_utf8_read(p->text + at, p->length - at, &code);
    return (int)sl_tokenizer_unicode_class(code);
}

/* Returns the end of the run of `class` that starts at `at`, with at most `max` characters. */
static size_t run_end(const struct place *p, size_t at, int class, size_t max) {
    size_t next = at;
    for (size_t n = 0; n < max && class_at(p, at, &next) == class; n++)
        at = next;
    return at;
}

/* Returns the length of a contraction 's 't 're 've 'm 'll 'd with its apostrophe, or 0. */
static size_t contraction(const struct place *p, bool any_case) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (p->text[0] != '\'')
        return 0;
    for (int i = 0; i < SL_COUNT(endings); i++) {
        size_t n = 0;
        while (endings[i][n] && 1 + n < p->length) {
            char c = p->text[1 + n];
            if (any_case && c >= 'A' && c <= 'Z')
                c = (char)(c + 32);
            if (c != endings[i][n])
                break;
            n++;
        }
        if (!endings[i][n])
            return 1 + n;
    }
    /* (?i) also matches U+017F, the long s */
    if (any_case && p->length >= 3 && p->text[1] == '\xc5' && p->text[2] == '\xbf')
        return 3;
    return 0;
}

/* Matches \s+(?!\S)|\s+ : all white space, without its last character if other text follows. */
static size_t blank(const struct place *p) {
    size_t at = 0, last = 0, next = 0;
    while (class_at(p, at, &next) == SL_UNICODE_SPACE) {
        last = at;
        at = next;
    }
    return at < p->length && last > 0 ? last : at;
}

static size_t gpt2_word(const struct place *p) {
    size_t length = contraction(p, false);
    if (length)
        return length;
    size_t start = p->text[0] == ' ' ? 1 : 0, next;
    int class = class_at(p, start, &next);
    if (class == END || class == SL_UNICODE_SPACE)
        return blank(p);
    return run_end(p, start, class, p->length);
}

/* Matches \s*[\r
 * ]+ : white space up to and including its last line end, or 0. */
static size_t line_ends(const struct place *p) {
    size_t at = 0, next = 0, found = 0;
    while (class_at(p, at, &next) == SL_UNICODE_SPACE) {
        if (p->text[at] == '\n' || p->text[at] == '\r')
            found = next;
        at = next;
    }
    return found;
}

static size_t llama3_word(const struct place *p, size_t digits) {
    size_t length = contraction(p, true), next = 0, after = 0;
    if (length)
        return length;
    int class = class_at(p, 0, &next);
    if (class == SL_UNICODE_LETTER)
        return run_end(p, 0, class, p->length);
    bool line_end = p->text[0] == '\n' || p->text[0] == '\r';
    if (class != SL_UNICODE_NUMBER && !line_end && class_at(p, next, &after) == SL_UNICODE_LETTER)
        return run_end(p, next, SL_UNICODE_LETTER, p->length);
    if (class == SL_UNICODE_NUMBER)
        return run_end(p, 0, class, digits);
    size_t start = p->text[0] == ' ' ? 1 : 0;
    if (class_at(p, start, &after) == SL_UNICODE_OTHER) {
        size_t at = run_end(p, start, SL_UNICODE_OTHER, p->length);
        while (at < p->length && (p->text[at] == '\n' || p->text[at] == '\r'))
            at++;
        return at;
    }
    length = line_ends(p);
    return length ? length : blank(p);
}

size_t sl_tokenizer_pretok_word(enum sl_pretok rule, const char *text, size_t length) {
    struct place place = {text, length};
    switch (rule) {
    case SL_PRETOK_GPT2: return gpt2_word(&place);
    case SL_PRETOK_LLAMA3: return llama3_word(&place, 3);
    case SL_PRETOK_QWEN2: return llama3_word(&place, 1);
    default: return length;
    }
}

enum sl_pretok sl_tokenizer_pretok_rule(struct sl_str pattern) {
#define LLAMA3(numbers)                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    static const char *const patterns[] = {
        [SL_PRETOK_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                           "\\s+(?!\\S)|\\s+",
        [SL_PRETOK_LLAMA3] = LLAMA3("\\p{N}{1,3}"),
        [SL_PRETOK_QWEN2] = LLAMA3("\\p{N}"),
    };
    for (int i = 0; i < SL_COUNT(patterns); i++)
        if (sl_str_is(pattern, patterns[i]))
            return (enum sl_pretok)i;
    return SL_PRETOK_NONE;
}
