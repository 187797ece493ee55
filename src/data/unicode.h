/* What the word rule of GPT-2 needs to know of Unicode. */
#ifndef SL_DATA_UNICODE_H
#define SL_DATA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_unicode { SL_UNICODE_OTHER, SL_UNICODE_LETTER, SL_UNICODE_NUMBER, SL_UNICODE_SPACE };

enum sl_unicode sl_data_unicode_class(uint32_t code);

/* The code point at the start of a text of at least one byte, and its length in bytes. A byte that
 * is not UTF-8 is U+FFFD (class OTHER), one byte long. */
int sl_data_utf8_read(const char *text, size_t length, uint32_t *code);

#endif
