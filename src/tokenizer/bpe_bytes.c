/* Tokens of byte-level BPE as bytes.
 *
 * A vocabulary writes bytes as characters: printable ones as themselves, the others from U+0100
 * upwards in order (a blank is U+0120).
 */
#include "tokenizer/bpe.h"

#include "tokenizer/unicode.h"

#include <string.h>

static bool shown_as_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* The byte that a character represents, or -1. */
static int byte_of(uint32_t code) {
    if (code < 256)
        return shown_as_itself((int)code) ? (int)code : -1;
    int n = (int)code - 256;
    for (int byte = 0; byte < 256 && code < 256 + 68; byte++)
        if (!shown_as_itself(byte) && n-- == 0)
            return byte;
    return -1;
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

/* Read one character of a raw JSON string; advances *at. */
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

static int put_utf8(char *out, uint32_t code) {
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

size_t sl_tokenizer_bpe_decode(struct sl_str raw, bool escapes, bool mapped, char *out) {
    const char *at = raw.at, *end = raw.at + raw.length;
    size_t used = 0;
    while (at < end) {
        const char *start = at;
        uint32_t code;
        if (escapes)
            code = json_char(&at, end);
        else
            at += sl_tokenizer_utf8_read(at, (size_t)(end - at), &code);
        int byte = mapped ? byte_of(code) : -1;
        if (byte >= 0)
            out[used++] = (char)byte;
        else if (at - start == 1)
            out[used++] = *start; /* ASCII or invalid UTF-8 */
        else
            used += (size_t)put_utf8(out + used, code);
    }
    return used;
}
