/* UTF-8 and the classes of characters that tokenizers need. */
#ifndef SL_TOKENIZER_CHARS_H
#define SL_TOKENIZER_CHARS_H

#include "base/text.h"
#include "tokenizer/unicode.h"

/* Returns the length of the character that this byte of valid UTF-8 begins. */
static inline int sl_tokenizer_char_bytes(char lead) {
    unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Decodes one character of valid UTF-8; returns its length. */
static inline int sl_tokenizer_char(const char *text, uint32_t *code) {
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *code = (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (p[0] < 0xf0) {
        *code = (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
        return 3;
    }
    *code = (p[0] & 7u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    return 4;
}

/* Encodes a character; returns its length. `out` has room for 4 bytes. */
int sl_tokenizer_put_char(char *out, uint32_t code);
void sl_tokenizer_text_put_char(struct sl_text *text, uint32_t code);

/* Returns the number of leading ASCII bytes. */
size_t sl_tokenizer_ascii_bytes(const char *text, size_t length);

/* Appends `text` with each maximal part that is not UTF-8 replaced by U+FFFD. */
void sl_tokenizer_repair(const char *text, size_t length, struct sl_text *out);
bool sl_tokenizer_is_utf8(const char *text, size_t length);

bool sl_tokenizer_is_number(uint32_t code);      /* Unicode categories N* */
bool sl_tokenizer_is_punctuation(uint32_t code); /* categories P*, and the symbols of ASCII */
bool sl_tokenizer_is_mark(uint32_t code);        /* categories M* */
bool sl_tokenizer_is_nonspacing(uint32_t code);  /* category Mn */
bool sl_tokenizer_is_other(uint32_t code);       /* categories Cc, Cf, Co */
bool sl_tokenizer_is_word(uint32_t code);        /* \w of regular expressions */

#endif
