/* UTF-8 decoding and Unicode classes, equal to those of the `tokenizers` package. */
#ifndef SL_TOKENIZER_UNICODE_H
#define SL_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_unicode { SL_UNICODE_OTHER, SL_UNICODE_LETTER, SL_UNICODE_NUMBER, SL_UNICODE_SPACE };

/* Returns the class of a character in regular expressions: \p{L}, \p{N}, white space. */
enum sl_unicode sl_tokenizer_unicode_class(uint32_t code);

enum sl_unicode_set {
    SL_UNICODE_IS_NUMBER,
    SL_UNICODE_IS_PUNCTUATION,
    SL_UNICODE_IS_MARK,
    SL_UNICODE_IS_NONSPACING,
    SL_UNICODE_IS_OTHER,
    SL_UNICODE_IS_WORD,
};

/* Is a non-ASCII character in the set? `otherwise`: the answer by its category in utf8proc, which
 * holds unless the table of exceptions says the opposite. */
bool sl_tokenizer_unicode_except(enum sl_unicode_set set, uint32_t code, bool otherwise);

/* Returns items of a bracketed class of PCRE2: the characters of a category such as L or Nd that
 * PCRE2's tables may not know yet; "" if there are none. */
const char *sl_tokenizer_unicode_newer(const char *category);

/* Is the character White_Space in the Unicode standard? */
static inline bool sl_tokenizer_is_space(uint32_t code) {
    if (code < 0x85)
        return (code >= 9 && code <= 13) || code == 0x20;
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

/* Reads the code point at the start of a non-empty text; returns its length in bytes. An invalid
 * byte gives U+FFFD (class OTHER), length 1. */
int sl_tokenizer_utf8_read(const char *text, size_t length, uint32_t *code);

#endif
