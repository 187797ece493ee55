/* Represents bytes by characters: a printable byte by itself, the others by characters from U+0100
 * on, in order (a blank by U+0120). */
#include "tokenizer/bytes.h"

#include "tokenizer/chars.h"

#include <string.h>

static bool is_shown(unsigned byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The bytes that are not printable are 00 to 20, 7f to a0 and ad. */
uint32_t sl_tokenizer_byte_char(unsigned char byte) {
    if (is_shown(byte))
        return byte;
    return 0x100u + (byte <= 0x20 ? byte : byte <= 0xa0 ? byte - 0x7fu + 33u : 67u);
}

int sl_tokenizer_char_byte(uint32_t code) {
    if (code < 0x100)
        return is_shown(code) ? (int)code : -1;
    code -= 0x100;
    return code <= 0x20 ? (int)code : code < 67 ? (int)code - 33 + 0x7f : code == 67 ? 0xad : -1;
}

static int hex4(const char *at) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = at[i] | 0x20;
        int digit = at[i] >= '0' && at[i] <= '9' ? at[i] - '0'
                    : c >= 'a' && c <= 'f'       ? c - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Reads one character of a raw JSON string; advances *at. */
static uint32_t json_char(const char **at, const char *end) {
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    uint32_t code;
    if (**at != '\\' || end - *at < 2) {
        *at += sl_tokenizer_utf8_read(*at, (size_t)(end - *at), &code);
        return code;
    }
    char c = (*at)[1];
    *at += 2;
    if (c != 'u') {
        const char *found = strchr(from, c);
        return found && c ? (uint32_t)to[found - from] : (uint32_t)(unsigned char)c;
    }
    int high = end - *at >= 4 ? hex4(*at) : -1;
    if (high < 0)
        return 'u';
    *at += 4;
    if (high < 0xd800 || high > 0xdfff)
        return (uint32_t)high;
    int low = end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u' ? hex4(*at + 2) : -1;
    if (high > 0xdbff || low < 0xdc00 || low > 0xdfff)
        return 0xfffd;
    *at += 6;
    return 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
}

size_t sl_tokenizer_resolve(struct sl_str raw, bool escapes, char *out) {
    const char *at = raw.at, *end = raw.at + raw.length;
    size_t used = 0;
    while (at < end) {
        const char *start = at;
        if (!escapes || *at != '\\') {
            out[used++] = *at++;
            continue;
        }
        uint32_t code = json_char(&at, end);
        if (at - start == 1)
            out[used++] = *start;
        else
            used += (size_t)sl_tokenizer_put_char(out + used, code);
    }
    return used;
}

bool sl_tokenizer_to_bytes(char *text, size_t *length) {
    uint32_t code;
    size_t used = 0;
    if (!sl_tokenizer_is_utf8(text, *length))
        return false;
    for (size_t at = 0; at < *length; at += (size_t)sl_tokenizer_char(text + at, &code)) {
        sl_tokenizer_char(text + at, &code);
        if (sl_tokenizer_char_byte(code) < 0)
            return false;
    }
    for (size_t at = 0; at < *length;) {
        at += (size_t)sl_tokenizer_char(text + at, &code);
        text[used++] = (char)sl_tokenizer_char_byte(code);
    }
    *length = used;
    return true;
}

void sl_tokenizer_from_bytes(const char *bytes, size_t length, struct sl_text *out) {
    for (size_t i = 0; i < length; i++)
        sl_tokenizer_text_put_char(out, sl_tokenizer_byte_char((unsigned char)bytes[i]));
}
