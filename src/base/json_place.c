/* Unescape JSON strings in place. */
#include "base/json_place.h"

#include <string.h>

/* Returns the value of four hexadecimal digits, or -1. */
static int hex4(const char *at, const char *end) {
    int code = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        code = code * 16 + digit;
    }
    return code;
}

/* Checks that every \u has four digits and that none encodes the character 0. */
static bool escapes_ok(const char *at, const char *end) {
    for (; at + 1 < end; at++) {
        if (*at != '\\')
            continue;
        if (*++at == 'u' && hex4(at + 1, end) <= 0)
            return false;
    }
    return true;
}

char *sl_json_in_place(const struct sl_json_in *json) {
    struct sl_arena scratch = {0};
    size_t length = json->string.length;
    char *at = (char *)json->start + (json->string.at - json->start);
    if (!memchr(at, '\\', length)) {
        at[length] = 0;
        return memchr(at, 0, length) ? NULL : at;
    }
    if (!escapes_ok(at, at + length) || memchr(at, 0, length))
        return NULL;
    const char *plain = sl_json_unescape(json, &scratch);
    memcpy(at, plain, strlen(plain) + 1); /* an unescaped string is never longer */
    sl_arena_free(&scratch);
    return at;
}
