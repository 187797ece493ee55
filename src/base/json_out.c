/* JSON writer: commas, quotes and escapes into sl_text. */
#include "base/json.h"

#include <math.h>

static void newline(struct sl_json_out *json) {
    if (!json->indent)
        return;
    sl_text_put(json->text, "\n");
    for (int i = 0; i < json->depth * json->indent; i++)
        sl_text_put(json->text, " ");
}

/* Writes the comma and the line break before a key or an item of an array. */
static void begin_item(struct sl_json_out *json) {
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->depth == 0)
        return;
    if (json->filled[json->depth - 1])
        sl_text_put(json->text, json->indent ? "," : ", ");
    json->filled[json->depth - 1] = true;
    newline(json);
}

/* Length of the UTF-8 character at `at`; 0 if the bytes are no character. */
static int utf8_bytes(const unsigned char *at) {
    static const struct {
        unsigned char from, to, second_from, second_to;
        int bytes;
    } rows[] = {
        {0x20, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (int i = 0; i < SL_COUNT(rows); i++) {
        if (*at < rows[i].from || *at > rows[i].to)
            continue;
        if (rows[i].bytes > 1 && (at[1] < rows[i].second_from || at[1] > rows[i].second_to))
            return 0;
        for (int k = 2; k < rows[i].bytes; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].bytes;
    }
    return 0;
}

/* Writes a string in quotes. JSON text is UTF-8 but file names may hold any bytes, so invalid bytes
 * are replaced by U+FFFD. */
static void put_quoted(struct sl_text *text, const char *value) {
    sl_text_put(text, "\"");
    for (const unsigned char *at = (const unsigned char *)value; *at;) {
        int bytes = utf8_bytes(at);
        if (*at == '"' || *at == '\\')
            sl_text_printf(text, "\\%c", *at);
        else if (*at < 0x20)
            sl_text_printf(text, "\\u%04x", *at);
        else if (bytes)
            sl_text_put_bytes(text, at, (size_t)bytes);
        else
            sl_text_put(text, "\xef\xbf\xbd");
        at += bytes ? bytes : 1;
    }
    sl_text_put(text, "\"");
}

void sl_json_open(struct sl_json_out *json, char bracket) {
    begin_item(json);
    SL_ASSERT(json->depth < SL_JSON_DEPTH);
    sl_text_put_bytes(json->text, &bracket, 1);
    json->filled[json->depth++] = false;
}

void sl_json_close(struct sl_json_out *json, char bracket) {
    SL_ASSERT(json->depth > 0);
    json->depth--;
    if (json->filled[json->depth])
        newline(json);
    sl_text_put_bytes(json->text, &bracket, 1);
}

void sl_json_key(struct sl_json_out *json, const char *key) {
    begin_item(json);
    put_quoted(json->text, key);
    sl_text_put(json->text, ": ");
    json->after_key = true;
}

void sl_json_string(struct sl_json_out *json, const char *value) {
    begin_item(json);
    put_quoted(json->text, value);
}

void sl_json_int(struct sl_json_out *json, int64_t value) {
    begin_item(json);
    sl_text_printf(json->text, "%lld", (long long)value);
}

void sl_json_double(struct sl_json_out *json, double value) {
    begin_item(json);
    if (isfinite(value))
        sl_text_put_double(json->text, value);
    else
        sl_text_put(json->text, "null");
}

void sl_json_bool(struct sl_json_out *json, bool value) {
    begin_item(json);
    sl_text_put(json->text, value ? "true" : "false");
}

void sl_json_null(struct sl_json_out *json) {
    begin_item(json);
    sl_text_put(json->text, "null");
}

void sl_json_put_string(struct sl_json_out *json, const char *key, const char *value) {
    sl_json_key(json, key);
    sl_json_string(json, value);
}

void sl_json_put_int(struct sl_json_out *json, const char *key, int64_t value) {
    sl_json_key(json, key);
    sl_json_int(json, value);
}

void sl_json_put_double(struct sl_json_out *json, const char *key, double value) {
    sl_json_key(json, key);
    sl_json_double(json, value);
}

void sl_json_put_bool(struct sl_json_out *json, const char *key, bool value) {
    sl_json_key(json, key);
    sl_json_bool(json, value);
}
