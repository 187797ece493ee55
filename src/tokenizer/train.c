/* Trains a tokenizer: counts words and writes the result. train_merges.c finds the merges. */
#include "tokenizer/train_parts.h"

#include "base/json.h"
#include "tokenizer/bytes.h"
#include "tokenizer/chars.h"
#include "tokenizer/pretok.h"
#include "tokenizer/unicode.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_MAX = 1 << 24, CHUNK = 1 << 20, LINE_MAX_BYTES = 1 << 30 };

/* ---- different texts ---- */

static void grow_index(struct sl_tokenizer_texts *t) {
    uint64_t room = t->room ? t->room * 2 : 1024;
    free(t->index);
    t->index = calloc(room, sizeof *t->index);
    if (!t->index)
        sl_out_of_memory(room * sizeof *t->index);
    t->room = room;
    for (int64_t i = 0; i < t->list.count; i++) {
        uint64_t at = t->list.at[i].hash & (room - 1);
        while (t->index[at])
            at = (at + 1) & (room - 1);
        t->index[at] = (uint32_t)i + 1;
    }
}

static int64_t find_text(const struct sl_tokenizer_texts *t, struct sl_str text, uint64_t hash,
                         uint64_t *place) {
    uint64_t at = hash & (t->room - 1);
    for (; t->index[at]; at = (at + 1) & (t->room - 1)) {
        const struct sl_tokenizer_counted *own = &t->list.at[t->index[at] - 1];
        if (own->hash == hash && own->length == text.length &&
            memcmp(t->pool.at + own->start, text.at, text.length) == 0)
            return t->index[at] - 1;
    }
    *place = at;
    return -1;
}

int64_t sl_tokenizer_texts_put(struct sl_tokenizer_texts *t, struct sl_str text, bool *added) {
    uint64_t hash = sl_hash(text.at, text.length), place = 0;
    if ((uint64_t)(t->list.count + 1) * 2 > t->room)
        grow_index(t);
    int64_t found = find_text(t, text, hash, &place);
    *added = found < 0;
    if (found >= 0)
        return found;
    struct sl_tokenizer_counted own = {
        .start = t->pool.count, .length = (uint32_t)text.length, .hash = hash};
    SL_VEC_RESERVE(&t->pool, text.length);
    memcpy(t->pool.at + t->pool.count, text.at, text.length);
    t->pool.count += (int64_t)text.length;
    t->index[place] = (uint32_t)t->list.count + 1;
    SL_PUSH(&t->list, own);
    return t->list.count - 1;
}

void sl_tokenizer_texts_free(struct sl_tokenizer_texts *t) {
    SL_VEC_FREE(&t->list);
    SL_VEC_FREE(&t->pool);
    free(t->index);
    *t = (struct sl_tokenizer_texts){0};
}

/* ---- opening ---- */

/* Adds the special tokens, then the characters that stand for bytes, in the order of their
 * codes. */
static sl_err put_alphabet(struct sl_tokenizer_train *t) {
    bool added;
    for (int i = 0; i < t->config.special_count; i++) {
        const char *special = t->config.special[i];
        if (!*special || !sl_tokenizer_is_utf8(special, strlen(special)))
            return sl_fail(SL_ERR_USAGE, "special token %d is empty or not UTF-8", i + 1);
        sl_tokenizer_texts_put(&t->tokens, sl_str(special), &added);
        if (!added)
            return sl_fail(SL_ERR_USAGE, "the special token '%s' is given twice", special);
    }
    for (uint32_t code = 0; code < 0x200; code++) {
        struct sl_text text = {0};
        int byte = sl_tokenizer_char_byte(code);
        if (byte < 0)
            continue;
        sl_tokenizer_from_bytes(&(char){(char)byte}, 1, &text);
        t->id_of_byte[byte] = (int32_t)sl_tokenizer_texts_put(
            &t->tokens, (struct sl_str){text.at, text.length}, &added);
        sl_text_free(&text);
    }
    return SL_OK;
}

sl_err sl_tokenizer_train_open(const struct sl_tokenizer_train_config *config,
                               struct sl_tokenizer_train **out) {
    if (config->vocab < 1 || config->vocab > VOCAB_MAX)
        return sl_fail(SL_ERR_USAGE, "a vocabulary has 1 to %d tokens, not %lld", VOCAB_MAX,
                       (long long)config->vocab);
    struct sl_tokenizer_train *t = calloc(1, sizeof *t);
    if (!t)
        sl_out_of_memory(sizeof *t);
    t->config = *config;
    sl_err err = put_alphabet(t);
    if (err == SL_OK)
        *out = t;
    else
        sl_tokenizer_train_close(t);
    return err;
}

void sl_tokenizer_train_close(struct sl_tokenizer_train *t) {
    if (!t)
        return;
    sl_tokenizer_texts_free(&t->words);
    sl_tokenizer_texts_free(&t->tokens);
    SL_VEC_FREE(&t->merges);
    free(t);
}

/* ---- counting ---- */

static sl_err add_line(struct sl_tokenizer_train *t, const char *name, const char *line,
                       size_t length) {
    t->lines++;
    t->bytes += (int64_t)length;
    if (!sl_tokenizer_is_utf8(line, length))
        return sl_fail(SL_ERR_INPUT, "%s: line %lld is not UTF-8; convert the file with iconv",
                       name, (long long)t->lines);
    for (size_t at = 0, word; at < length; at += word) {
        bool added;
        word = sl_tokenizer_pretok_word(SL_PRETOK_GPT2, line + at, length - at);
        int64_t i = sl_tokenizer_texts_put(&t->words, (struct sl_str){line + at, word}, &added);
        t->words.list.at[i].count++;
        t->word_count++;
        if (t->words.list.count == INT32_MAX)
            return sl_fail(SL_ERR_REFUSED, "%s: there are more than %d different words", name,
                           INT32_MAX - 1);
    }
    return SL_OK;
}

sl_err sl_tokenizer_train_add(struct sl_tokenizer_train *t, const char *name, const char *text,
                              size_t length) {
    t->lines = 0;
    for (size_t at = 0, line; at < length; at += line) {
        const char *end = memchr(text + at, '\n', length - at);
        line = end ? (size_t)(end - (text + at)) + 1 : length - at;
        SL_TRY(add_line(t, name, text + at, line));
    }
    return SL_OK;
}

struct reading {
    FILE *file;
    SL_VEC(char) text; /* the rest of the last chunk, which begins a line */
};

static sl_err read_lines(struct sl_tokenizer_train *t, const char *path, struct reading *r) {
    for (;;) {
        SL_VEC_RESERVE(&r->text, CHUNK);
        size_t got = fread(r->text.at + r->text.count, 1, CHUNK, r->file);
        if (ferror(r->file))
            return sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
        int64_t at = 0, seen = r->text.count;
        r->text.count += (int64_t)got;
        for (char *end; seen < r->text.count; at = seen) {
            end = memchr(r->text.at + seen, '\n', (size_t)(r->text.count - seen));
            if (!end)
                break;
            seen = end - r->text.at + 1;
            SL_TRY(add_line(t, path, r->text.at + at, (size_t)(seen - at)));
        }
        r->text.count -= at;
        memmove(r->text.at, r->text.at + at, (size_t)r->text.count);
        if (got < CHUNK)
            break;
        if (r->text.count > LINE_MAX_BYTES)
            return sl_fail(SL_ERR_INPUT, "%s: line %lld is longer than %d bytes", path,
                           (long long)t->lines + 1, LINE_MAX_BYTES);
    }
    return r->text.count ? add_line(t, path, r->text.at, (size_t)r->text.count) : SL_OK;
}

sl_err sl_tokenizer_train_file(struct sl_tokenizer_train *t, const char *path) {
    struct reading r = {.file = fopen(path, "rb")};
    if (!r.file)
        return sl_fail(sl_file_absence(errno), "%s: %s", path, strerror(errno));
    t->lines = 0;
    sl_err err = read_lines(t, path, &r);
    SL_VEC_FREE(&r.text);
    fclose(r.file);
    return err;
}

struct sl_tokenizer_train_facts sl_tokenizer_train_facts(const struct sl_tokenizer_train *t) {
    return (struct sl_tokenizer_train_facts){.bytes = t->bytes,
                                             .words = t->word_count,
                                             .different = t->words.list.count,
                                             .vocab = t->tokens.list.count,
                                             .merges = t->merges.count};
}

/* ---- writing ---- */

static void put_string(const struct sl_tokenizer_train *t, int64_t id, struct sl_text *out) {
    const struct sl_tokenizer_counted *token = &t->tokens.list.at[id];
    struct sl_text text = {0}, quoted = {0};
    sl_text_put_bytes(&text, t->tokens.pool.at + token->start, token->length);
    struct sl_json_out json = {.text = &quoted};
    sl_json_string(&json, text.at);
    sl_text_put(out, quoted.at);
    sl_text_free(&text);
    sl_text_free(&quoted);
}

static void put_added(const struct sl_tokenizer_train *t, struct sl_text *out) {
    sl_text_put(out, "  \"added_tokens\": [");
    for (int i = 0; i < t->config.special_count; i++) {
        sl_text_printf(out, "%s\n    {\"id\": %d, \"content\": ", i ? "," : "", i);
        put_string(t, i, out);
        sl_text_put(out, ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                         "\"normalized\": false, \"special\": true}");
    }
    sl_text_put(out, t->config.special_count ? "\n  ],\n" : "],\n");
}

/* Writes the merges. A pair that was merged twice counts where it was merged last, as in the
 * package. */
static void put_merges(const struct sl_tokenizer_train *t, struct sl_text *out) {
    bool first = true;
    for (int64_t i = 0; i < t->merges.count; i++) {
        if (t->merges.at[i].again)
            continue;
        sl_text_put(out, first ? "\n      [" : ",\n      [");
        put_string(t, t->merges.at[i].left, out);
        sl_text_put(out, ", ");
        put_string(t, t->merges.at[i].right, out);
        sl_text_put(out, "]");
        first = false;
    }
}

void sl_tokenizer_train_write(const struct sl_tokenizer_train *t, struct sl_text *out) {
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, "
                                     "\"trim_offsets\": true, \"use_regex\": true}";
    sl_text_put(out, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n");
    put_added(t, out);
    sl_text_put(out, "  \"normalizer\": null,\n  \"pre_tokenizer\": ");
    sl_text_printf(out, byte_level, "false");
    sl_text_put(out, ",\n  \"post_processor\": null,\n  \"decoder\": ");
    sl_text_printf(out, byte_level, "true"); /* the package's default, which changes nothing */
    sl_text_put(out, ",\n  \"model\": {\n");
    sl_text_put(out, "    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": null,\n"
                     "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n"
                     "    \"fuse_unk\": false,\n    \"byte_fallback\": false,\n"
                     "    \"ignore_merges\": false,\n    \"vocab\": {");
    for (int64_t i = 0; i < t->tokens.list.count; i++) {
        sl_text_put(out, i ? ",\n      " : "\n      ");
        put_string(t, i, out);
        sl_text_printf(out, ": %lld", (long long)i);
    }
    sl_text_put(out, "\n    },\n    \"merges\": [");
    put_merges(t, out);
    sl_text_put(out, "\n    ]\n  }\n}\n");
}
