/* The lexer of all text formats of Sluice (model, machine, cost, plan, sched).
 *
 * Tokens: names, unsigned numbers, "strings", punctuation, newline, end of file. `#` starts a
 * comment. A name consists of letters, digits, `_` and `.`, and of `-` if `dashes` is set (formats
 * without arithmetic). Every error has file:line:column. The lexer never reads past the text.
 */
#ifndef SL_BASE_LEX_H
#define SL_BASE_LEX_H

#include "base/text.h"

enum sl_tok_kind {
    SL_TOK_END,
    SL_TOK_NEWLINE,
    SL_TOK_NAME,
    SL_TOK_INT,
    SL_TOK_FLOAT,
    SL_TOK_STRING, /* text between the quotes; the escapes \" \\ \n \t are not resolved */
    SL_TOK_PUNCT,  /* one or two characters */
};

struct sl_pos {
    int line, column; /* from 1 */
    const char *file; /* as given to sl_lex_open; NULL: the file of the lexer */
};

struct sl_tok {
    enum sl_tok_kind kind;
    struct sl_str text;
    struct sl_pos pos;
    int64_t integer; /* SL_TOK_INT */
    double number;   /* SL_TOK_INT and SL_TOK_FLOAT */
};

struct sl_lex {
    const char *file; /* for messages */
    const char *at, *end, *line_start;
    int line;
    bool dashes;
    struct sl_tok tok; /* current token */
};

/* Start on a text (need not be terminated) and read the first token. */
SL_MUST_CHECK sl_err sl_lex_open(struct sl_lex *lex, const char *file, const char *text,
                                 size_t length, bool dashes);
SL_MUST_CHECK sl_err sl_lex_next(struct sl_lex *lex);

/* Returns true if the current token is this punctuation or this name. */
bool sl_lex_is(const struct sl_lex *lex, const char *punct);
bool sl_lex_is_name(const struct sl_lex *lex, const char *name);

/* Check the kind of the current token, return its value and advance. `what` names the expected
 * thing in the error. */
SL_MUST_CHECK sl_err sl_lex_expect(struct sl_lex *lex, const char *punct);
SL_MUST_CHECK sl_err sl_lex_take_name(struct sl_lex *lex, const char *what, struct sl_str *out);
SL_MUST_CHECK sl_err sl_lex_take_int(struct sl_lex *lex, const char *what, int64_t *out);
SL_MUST_CHECK sl_err sl_lex_take_number(struct sl_lex *lex, const char *what, double *out);
SL_MUST_CHECK sl_err sl_lex_take_string(struct sl_lex *lex, const char *what, struct sl_str *out);
SL_MUST_CHECK sl_err sl_lex_take_newline(struct sl_lex *lex);
SL_MUST_CHECK sl_err sl_lex_skip_newlines(struct sl_lex *lex);

/* Calls the reader that belongs to the first word of each line, with the token after that word as
 * the current token. Stops at the first line that begins with another word. */
struct sl_lex_line {
    const char *word;
    sl_err (*read)(void *reader);
};
SL_MUST_CHECK sl_err sl_lex_take_lines(struct sl_lex *lex, const struct sl_lex_line *lines,
                                       int count, void *reader);

/* Fail with SL_ERR_INPUT and "file:line:column: message", at the current token or at `pos`. */
sl_err sl_lex_fail(const struct sl_lex *lex, const char *fmt, ...) SL_PRINTF(2, 3);
sl_err sl_lex_fail_at(const struct sl_lex *lex, struct sl_pos pos, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* Describe the current token, for "expected X, found Y". */
const char *sl_lex_found(const struct sl_lex *lex, char out[64]);

#endif
