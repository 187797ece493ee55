/* The charsmap of SentencePiece: a double-array trie from strings to replacements.
 *
 *   u32 size of the trie in bytes; u32 unit[]; replacements, each ended by a zero byte
 *
 * A unit has a label (bits 0-7 and 31), a leaf bit (8) and an offset (bits 9-30, in units or in
 * blocks of 256); the unit of a leaf has a value (bits 0-30), the position of the replacement.
 * As in the `tokenizers` package, a grapheme cluster of up to 5 bytes is looked up as one; the
 * shortest entry at its start replaces all of it. Else each character is looked up. */
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

#include <utf8proc.h>

struct sl_tokenizer_charsmap {
    const uint32_t *unit;
    size_t unit_count;
    struct sl_str text; /* the replacements */
    bool ascii[128];    /* characters that begin no entry */
};

enum { CLUSTER_MAX = 5, ENTRY_MAX = 255 };

/* ---- reading ---- */

static int base64_value(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool decode_base64(struct sl_str in, unsigned char *out, size_t *length) {
    uint32_t bits = 0;
    size_t used = 0;
    while (in.length && in.at[in.length - 1] == '=')
        in.length--;
    for (size_t i = 0; i < in.length; i++) {
        int value = base64_value(in.at[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4)
            out[used++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    *length = used;
    return true;
}

static const char *find(const struct sl_tokenizer_charsmap *map, struct sl_str key, size_t *length);

sl_err sl_tokenizer_charsmap_read(struct sl_tokenizer *t, struct sl_json_in *json,
                                  const struct sl_tokenizer_charsmap **out) {
    size_t length;
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    struct sl_str raw = {sl_tokenizer_unescape(json->string, &t->arena).at, 0};
    raw.length = strlen(raw.at);
    unsigned char *bytes = (unsigned char *)sl_arena_alloc(&t->arena, (int64_t)raw.length + 4);
    if (!decode_base64(raw, bytes, &length) || length < 4)
        return sl_json_fail(json, "the charsmap is not base64");
    uint32_t size = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                    (uint32_t)bytes[3] << 24;
    if (size % 4 || size < 4 || size > length - 4)
        return sl_json_fail(json, "the charsmap has %lld bytes, its trie states %lld",
                            (long long)length, (long long)size);
    struct sl_tokenizer_charsmap *map = SL_NEW(&t->arena, struct sl_tokenizer_charsmap, 1);
    uint32_t *unit = (uint32_t *)(void *)(bytes + 4); /* arena memory is aligned to 16 bytes */
    for (size_t i = 0; i < size / 4; i++) {
        const unsigned char *p = bytes + 4 + 4 * i;
        unit[i] =
            (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    map->unit = unit;
    map->unit_count = size / 4;
    map->text = (struct sl_str){(const char *)bytes + 4 + size, length - 4 - size};
    if (!sl_tokenizer_is_utf8(map->text.at, map->text.length))
        return sl_json_fail(json, "the replacements of the charsmap are not UTF-8");
    for (size_t i = 0, run = 0; i < map->text.length; i++) {
        run = map->text.at[i] ? run + 1 : 0;
        if (run > ENTRY_MAX)
            return sl_json_fail(json, "the charsmap has a replacement of more than %d bytes",
                                ENTRY_MAX);
    }
    for (int c = 0; c < 128; c++) {
        char key = (char)c;
        size_t found;
        map->ascii[c] = !find(map, (struct sl_str){&key, 1}, &found);
    }
    *out = map;
    return SL_OK;
}

/* ---- looking up ---- */

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6); }

/* Returns the replacement of the shortest entry at the start of `key`, or NULL. */
static const char *find(const struct sl_tokenizer_charsmap *map, struct sl_str key,
                        size_t *length) {
    size_t at = offset_of(map->unit[0]);
    for (size_t i = 0; i < key.length && key.at[i]; i++) {
        unsigned char c = (unsigned char)key.at[i];
        at ^= c;
        if (at >= map->unit_count)
            return NULL;
        uint32_t unit = map->unit[at];
        if ((unit & (1u << 31 | 0xff)) != c)
            return NULL;
        at ^= offset_of(unit);
        if (at >= map->unit_count)
            return NULL;
        if (unit >> 8 & 1) {
            size_t value = map->unit[at] & 0x7fffffff;
            if (value >= map->text.length)
                return NULL;
            const char *end = memchr(map->text.at + value, 0, map->text.length - value);
            *length = end ? (size_t)(end - map->text.at) - value : map->text.length - value;
            return map->text.at + value;
        }
    }
    return NULL;
}

/* Returns the end of the grapheme cluster that begins at `from`. */
static size_t cluster_end(struct sl_str in, size_t from) {
    utf8proc_int32_t state = 0;
    uint32_t code, next;
    size_t at = from + (size_t)sl_tokenizer_char(in.at + from, &code);
    while (at < in.length) {
        int n = sl_tokenizer_char(in.at + at, &next);
        if (code < 0x300 && next < 0x300 && !(code == '\r' && next == '\n'))
            return at;
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next,
                                             &state))
            return at;
        at += (size_t)n;
        code = next;
    }
    return at;
}

bool sl_tokenizer_charsmap_apply(const struct sl_tokenizer_charsmap *map, struct sl_str in,
                                 struct sl_text *out) {
    size_t found = 0;
    for (size_t at = 0; at < in.length;) {
        unsigned char c = (unsigned char)in.at[at];
        bool plain = at + 1 < in.length && (unsigned char)in.at[at + 1] < 0x80 && c != '\r';
        if (c < 0x80 && map->ascii[c] && plain) {
            sl_text_put_bytes(out, in.at + at++, 1);
            continue;
        }
        size_t end = cluster_end(in, at);
        const char *fresh = end - at <= CLUSTER_MAX
                                ? find(map, (struct sl_str){in.at + at, end - at}, &found)
                                : NULL;
        if (fresh) {
            sl_text_put_bytes(out, fresh, found);
            at = end;
        }
        while (at < end) {
            size_t n = (size_t)sl_tokenizer_char_bytes(in.at[at]);
            fresh = find(map, (struct sl_str){in.at + at, n}, &found);
            sl_text_put_bytes(out, fresh ? fresh : in.at + at, fresh ? found : n);
            at += n;
        }
    }
    return true;
}
