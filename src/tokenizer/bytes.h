/* Byte-level text, in which each byte is a printable character; and JSON strings. */
#ifndef SL_TOKENIZER_BYTES_H
#define SL_TOKENIZER_BYTES_H

#include "base/text.h"

/* Returns the character of a byte: itself if printable, else one from U+0100 on. */
uint32_t sl_tokenizer_byte_char(unsigned char byte);
/* Returns the byte that a character stands for, or -1. */
int sl_tokenizer_char_byte(uint32_t code);

/* Copies a string and resolves its JSON escapes; `out` has room for raw.length bytes. Parts that
 * are not UTF-8 are kept. Returns the length. */
size_t sl_tokenizer_resolve(struct sl_str raw, bool escapes, char *out);

/* Replaces the characters of a string by their bytes, in place. Returns false, and changes nothing,
 * if a character stands for no byte. */
bool sl_tokenizer_to_bytes(char *text, size_t *length);
void sl_tokenizer_from_bytes(const char *bytes, size_t length, struct sl_text *out);

#endif
