/* Regular expressions on PCRE2. dialect.c translates the dialect of tokenizer.json. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/dialect.h"
#include "tokenizer/own.h"

#include <pcre2.h>

enum { PATTERN_MAX = 1 << 15, MATCH_LIMIT = 1000000 };

struct sl_tokenizer_regex {
    struct sl_tokenizer_regex *next; /* next one of the tokenizer */
    pcre2_code *code;
};

static bool compiles(const char *pattern) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern), PCRE2_UTF | PCRE2_UCP,
                                     &error, &at, NULL);
    pcre2_code_free(code);
    return code != NULL;
}

sl_err sl_tokenizer_regex_open(struct sl_tokenizer *t, struct sl_str pattern,
                               const struct sl_tokenizer_regex **out) {
    struct sl_text text = {0};
    int error;
    PCRE2_SIZE at;
    PCRE2_UCHAR reason[120];
    if (pattern.length > PATTERN_MAX)
        return sl_fail(SL_ERR_INPUT, "a regular expression of %lld bytes; at most %d are read",
                       (long long)pattern.length, PATTERN_MAX);
    sl_err err = sl_tokenizer_dialect(pattern, compiles, &text);
    if (err != SL_OK) {
        sl_text_free(&text);
        return err;
    }
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text.at, text.length,
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK,
                                     &error, &at, context);
    pcre2_compile_context_free(context);
    if (!code) {
        pcre2_get_error_message(error, reason, sizeof reason);
        err = sl_fail(SL_ERR_INPUT, "the regular expression %.60s cannot be used: %s", text.at,
                      (const char *)reason);
        sl_text_free(&text);
        return err;
    }
    sl_text_free(&text);
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* if this fails, matching is only slower */
    struct sl_tokenizer_regex *regex = sl_realloc(NULL, sizeof *regex);
    *regex = (struct sl_tokenizer_regex){.next = t->regexes, .code = code};
    t->regexes = regex;
    *out = regex;
    return SL_OK;
}

void sl_tokenizer_regex_close(struct sl_tokenizer_regex *regex) {
    while (regex) {
        struct sl_tokenizer_regex *next = regex->next;
        pcre2_code_free(regex->code);
        free(regex);
        regex = next;
    }
}

struct match {
    pcre2_match_data *data;
    pcre2_match_context *context;
};

void sl_tokenizer_match_close(void *match) {
    struct match *m = match;
    if (!m)
        return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    free(m);
}

static struct match *open_match(void) {
    struct match *m = sl_realloc(NULL, sizeof *m);
    m->data = pcre2_match_data_create(1, NULL);
    m->context = pcre2_match_context_create(NULL);
    if (!m->data || !m->context)
        sl_out_of_memory(sizeof *m);
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    return m;
}

/* Finds a match; one that exceeds the limits counts as no match. */
bool sl_tokenizer_regex_find(const struct sl_tokenizer_regex *regex, void **match,
                             struct sl_str text, size_t from, struct sl_tokenizer_span *found) {
    if (!*match)
        *match = open_match();
    struct match *m = *match;
    int count = pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.length, from, PCRE2_NO_UTF_CHECK,
                            m->data, m->context);
    if (count < 0)
        return false;
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(m->data);
    found->from = ends[0];
    found->to = ends[1];
    return ends[0] >= from && ends[1] >= ends[0];
}
