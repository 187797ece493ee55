/* UTF-8 and classes of characters, from utf8proc. */
#include "tokenizer/chars.h"

#include <string.h>
#include <utf8proc.h>

int sl_tokenizer_put_char(char *out, uint32_t code) {
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

void sl_tokenizer_text_put_char(struct sl_text *text, uint32_t code) {
    char bytes[4];
    sl_text_put_bytes(text, bytes, (size_t)sl_tokenizer_put_char(bytes, code));
}

size_t sl_tokenizer_ascii_bytes(const char *text, size_t length) {
    size_t at = 0;
    uint64_t word;
    for (; at + 8 <= length; at += 8) {
        memcpy(&word, text + at, 8);
        if (word & 0x8080808080808080u)
            break;
    }
    while (at < length && (unsigned char)text[at] < 0x80)
        at++;
    return at;
}

/* Returns the length of the character at `p`. If none begins there, returns minus the length of the
 * longest prefix of a character that is well-formed (Unicode, table 3-7), at least one byte. */
static int measure(const unsigned char *p, size_t length) {
    int n = p[0] < 0x80   ? 1
            : p[0] < 0xc2 ? 0
            : p[0] < 0xe0 ? 2
            : p[0] < 0xf0 ? 3
            : p[0] < 0xf5 ? 4
                          : 0;
    if (n <= 1)
        return n ? 1 : -1;
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    for (int i = 1; i < n; i++) {
        if ((size_t)i >= length || p[i] < low || p[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

bool sl_tokenizer_is_utf8(const char *text, size_t length) {
    for (size_t at = 0; at < length;) {
        at += sl_tokenizer_ascii_bytes(text + at, length - at);
        while (at < length && (unsigned char)text[at] >= 0x80) {
            int n = measure((const unsigned char *)text + at, length - at);
            if (n < 0)
                return false;
            at += (size_t)n;
        }
    }
    return true;
}

void sl_tokenizer_repair(const char *text, size_t length, struct sl_text *out) {
    size_t from = 0, at = 0;
    while (at < length) {
        int n = measure((const unsigned char *)text + at, length - at);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        sl_text_put_bytes(out, text + from, at - from);
        sl_text_put(out, "\xef\xbf\xbd");
        at += (size_t)-n;
        from = at;
    }
    sl_text_put_bytes(out, text + from, length - from);
}

static int category(uint32_t code) { return (int)utf8proc_category((utf8proc_int32_t)code); }

static bool except(enum sl_unicode_set set, uint32_t code, bool otherwise) {
    return sl_tokenizer_unicode_except(set, code, otherwise);
}

bool sl_tokenizer_is_number(uint32_t code) {
    if (code < 0x80)
        return code >= '0' && code <= '9';
    int c = category(code);
    return except(SL_UNICODE_IS_NUMBER, code,
                  c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}

bool sl_tokenizer_is_punctuation(uint32_t code) {
    if (code < 0x80)
        return code > 0x20 && code < 0x7f && sl_tokenizer_unicode_class(code) == SL_UNICODE_OTHER;
    int c = category(code);
    return except(SL_UNICODE_IS_PUNCTUATION, code,
                  c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO);
}

bool sl_tokenizer_is_mark(uint32_t code) {
    int c = category(code);
    return except(SL_UNICODE_IS_MARK, code, c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME);
}

bool sl_tokenizer_is_nonspacing(uint32_t code) {
    return except(SL_UNICODE_IS_NONSPACING, code, category(code) == UTF8PROC_CATEGORY_MN);
}

bool sl_tokenizer_is_other(uint32_t code) {
    int c = category(code);
    if (code < 0x80)
        return c == UTF8PROC_CATEGORY_CC;
    return except(SL_UNICODE_IS_OTHER, code,
                  c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF ||
                      c == UTF8PROC_CATEGORY_CO);
}

/* Is it alphabetic, a mark, a decimal digit, a connector or a joiner (UTS 18, annex C)? Of the
 * symbols, the circled and squared letters count as alphabetic. */
bool sl_tokenizer_is_word(uint32_t code) {
    if (code < 0x80)
        return code == '_' || sl_tokenizer_unicode_class(code) == SL_UNICODE_LETTER ||
               sl_tokenizer_unicode_class(code) == SL_UNICODE_NUMBER;
    int c = category(code);
    bool circled = (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
                   (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
    return except(SL_UNICODE_IS_WORD, code,
                  (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) ||
                      c == UTF8PROC_CATEGORY_PC || code == 0x200c || code == 0x200d || circled);
}

int sl_tokenizer_utf8_read(const char *text, size_t length, uint32_t *code) {
    *code = 0xfffd;
    return measure((const unsigned char *)text, length) < 0 ? 1 : sl_tokenizer_char(text, code);
}
