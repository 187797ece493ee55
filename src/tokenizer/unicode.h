/* UTF-8 decoding and the Unicode classes that the word rules of BPE use. */
#ifndef SL_TOKENIZER_UNICODE_H
#define SL_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_unicode { SL_UNICODE_OTHER, SL_UNICODE_LETTER, SL_UNICODE_NUMBER, SL_UNICODE_SPACE };

enum sl_unicode sl_tokenizer_unicode_class(uint32_t code);

/* Read the code point at the start of a non-empty text; returns its length in bytes. An invalid
 * byte gives U+FFFD (class OTHER), length 1. */
int sl_tokenizer_utf8_read(const char *text, size_t length, uint32_t *code);

#endif
