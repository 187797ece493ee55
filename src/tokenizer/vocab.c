/* The tokens of a file: first counted and checked, then stored in tables of exactly that size. */
#include "tokenizer/bytes.h"
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

#include <stdio.h>

enum { ID_MAX = 1 << 28 };

/* ---- lookup ---- */

struct sl_str sl_tokenizer_token_bytes(const struct sl_tokenizer *t, int64_t id) {
    return (struct sl_str){t->pool + t->token[id].start, t->token[id].length};
}

static uint64_t hash_bytes(struct sl_str s) {
    uint64_t hash = s.length * 0x9E3779B97F4A7C15u, word = 0;
    while (s.length >= 8) {
        memcpy(&word, s.at, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        s.at += 8;
        s.length -= 8;
    }
    word = 0;
    for (size_t i = 0; i < s.length; i++)
        word |= (uint64_t)(unsigned char)s.at[i] << (8 * i);
    hash = (hash ^ word) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 32;
}

static int64_t bytes_slot(const struct sl_tokenizer *t, struct sl_str bytes) {
    int64_t mask = t->by_bytes_room - 1;
    int64_t i = (int64_t)(hash_bytes(bytes) & (uint64_t)mask);
    while (t->by_bytes[i] && !sl_str_equal(sl_tokenizer_token_bytes(t, t->by_bytes[i] - 1), bytes))
        i = (i + 1) & mask;
    return i;
}

int32_t sl_tokenizer_vocab_find(const struct sl_tokenizer *t, struct sl_str bytes) {
    return bytes.length ? (int32_t)t->by_bytes[bytes_slot(t, bytes)] - 1 : -1;
}

void sl_tokenizer_token_text(const struct sl_tokenizer *t, int32_t id, struct sl_text *out) {
    if (id < 0 || id >= t->vocab)
        return;
    struct sl_str bytes = sl_tokenizer_token_bytes(t, id);
    if (t->added_of[id] >= 0)
        bytes = t->added[t->added_of[id]].match;
    if (t->byte_level && !t->literal[id] && t->added_of[id] < 0)
        sl_tokenizer_from_bytes(bytes.at, bytes.length, out);
    else
        sl_text_put_bytes(out, bytes.at, bytes.length);
}

sl_err sl_tokenizer_need_token(const struct sl_tokenizer *t, const struct sl_json_in *json,
                               const char *what, struct sl_str text, int32_t *out) {
    *out = sl_tokenizer_find(t, text);
    if (*out >= 0)
        return SL_OK;
    return sl_json_fail(json, "%s '%.*s' is not in the vocabulary", what, (int)text.length,
                        text.at);
}

/* ---- reading ---- */

struct census {
    int64_t count, highest, text_bytes, added;
};

static void count_token(struct census *c, struct sl_str text, int64_t id) {
    c->count++;
    c->text_bytes += (int64_t)text.length;
    c->highest = id > c->highest ? id : c->highest;
}

struct entry {
    struct sl_str raw; /* with JSON escapes */
    int64_t id;
    double score;
};

/* Reads the next entry of a vocabulary: "token": id, or ["token", score]. *more: false at the
 * end. */
static sl_err next_entry(struct sl_json_in *json, bool is_list, int64_t index, bool *more,
                         struct entry *out) {
    *more = false;
    SL_TRY(sl_json_next(json));
    if (json->event == SL_JSON_OBJECT_END || json->event == SL_JSON_ARRAY_END)
        return SL_OK;
    *more = true;
    if (!is_list) {
        out->raw = json->string;
        return sl_json_take_int(json, 0, ID_MAX, &out->id);
    }
    if (json->event != SL_JSON_ARRAY)
        return sl_json_fail(json, "expected a list of a token and its score");
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    out->raw = json->string;
    out->id = index;
    SL_TRY(sl_json_take_double(json, &out->score));
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_added(struct sl_json_in *json, struct sl_arena *arena,
                         struct sl_tokenizer_added *out) {
    struct sl_tokenizer_fields f;
    int64_t id = -1;
    if (json->event != SL_JSON_OBJECT)
        return sl_json_fail(json, "expected an object");
    SL_TRY(sl_tokenizer_fields_read(json, "id content single_word lstrip rstrip normalized special",
                                    &f, NULL));
    *out = (struct sl_tokenizer_added){.normalized = true};
    SL_TRY(sl_tokenizer_field_int(&f, 0, ID_MAX, &id));
    SL_TRY(sl_tokenizer_field_string(&f, 1, arena, &out->content));
    SL_TRY(sl_tokenizer_field_bool(&f, 2, &out->single_word));
    SL_TRY(sl_tokenizer_field_bool(&f, 3, &out->lstrip));
    SL_TRY(sl_tokenizer_field_bool(&f, 4, &out->rstrip));
    SL_TRY(sl_tokenizer_field_bool(&f, 5, &out->normalized));
    SL_TRY(sl_tokenizer_field_bool(&f, 6, &out->special));
    if (id < 0 || !out->content.length)
        return sl_json_fail(json, "an added token needs id and content");
    out->id = (int32_t)id;
    out->match = out->content;
    return SL_OK;
}

/* Reads the list of added tokens into t->added; there are few. */
static sl_err read_all_added(struct sl_tokenizer *t, struct sl_tokenizer_source *source) {
    SL_VEC(struct sl_tokenizer_added) list = {0};
    struct sl_tokenizer_added one;
    sl_err err = SL_OK;
    if (!source->has_added)
        return SL_OK;
    SL_TRY(sl_json_take(&source->added, SL_JSON_ARRAY));
    for (;;) {
        SL_TRY_OUT(sl_json_next(&source->added));
        if (source->added.event == SL_JSON_ARRAY_END)
            break;
        SL_TRY_OUT(read_added(&source->added, &t->arena, &one));
        SL_PUSH(&list, one);
    }
    t->added_count = list.count;
    t->added = SL_VEC_FREEZE(&list, &t->arena);
out:
    SL_VEC_FREE(&list);
    return err;
}

static sl_err take_census(const struct sl_tokenizer *t, const struct sl_tokenizer_source *source,
                          struct census *census) {
    struct sl_json_in json = source->vocab;
    struct entry entry;
    bool more = true;
    *census = (struct census){.highest = -1};
    SL_TRY(sl_json_next(&json));
    for (int64_t i = 0;; i++) {
        SL_TRY(next_entry(&json, source->vocab_is_list, i, &more, &entry));
        if (!more)
            break;
        count_token(census, entry.raw, entry.id);
    }
    if (!census->count)
        return sl_fail(SL_ERR_INPUT, "%s: 0 tokens", source->name);
    for (int64_t i = 0; i < t->added_count; i++)
        count_token(census, t->added[i].content, t->added[i].id);
    if (census->highest > 2 * census->count)
        return sl_fail(SL_ERR_INPUT,
                       "%s: %lld tokens with ids up to %lld: expected them numbered from 0 almost "
                       "without gaps",
                       source->name, (long long)census->count, (long long)census->highest);
    return SL_OK;
}

static sl_err put_token(struct sl_tokenizer *t, const char *name, const struct entry *entry) {
    struct sl_tokenizer_token *token = &t->token[entry->id];
    char *at = t->pool + t->pool_bytes;
    size_t length = sl_tokenizer_resolve(entry->raw, true, at);
    if (token->length)
        return sl_fail(SL_ERR_INPUT, "%s: two tokens have the id %lld", name, (long long)entry->id);
    if (t->byte_level)
        t->literal[entry->id] = !sl_tokenizer_to_bytes(at, &length);
    *token = (struct sl_tokenizer_token){(uint32_t)t->pool_bytes, (uint32_t)length};
    t->pool_bytes += (int64_t)length;
    return SL_OK;
}

static sl_err read_vocab(struct sl_tokenizer *t, struct sl_tokenizer_source *source) {
    struct sl_json_in json = source->vocab;
    struct entry entry;
    bool more = true;
    SL_TRY(sl_json_next(&json));
    for (int64_t i = 0;; i++) {
        SL_TRY(next_entry(&json, source->vocab_is_list, i, &more, &entry));
        if (!more)
            return SL_OK;
        SL_TRY(put_token(t, source->name, &entry));
        if (source->vocab_is_list)
            t->score[entry.id] = entry.score;
    }
}

/* Adds entries for added tokens that are not in the vocabulary; the others must agree with it. */
static sl_err put_added(struct sl_tokenizer *t, const char *name) {
    for (int64_t i = 0; i < t->added_count; i++) {
        struct sl_tokenizer_added *added = &t->added[i];
        struct sl_tokenizer_token *token = &t->token[added->id];
        if (t->added_of[added->id] >= 0 &&
            !sl_str_equal(t->added[t->added_of[added->id]].content, added->content))
            return sl_fail(SL_ERR_INPUT, "%s: two tokens have the id %lld", name,
                           (long long)added->id);
        t->added_of[added->id] = (int32_t)i;
        if (added->special)
            t->is_special[added->id] = 1;
        if (token->length)
            continue;
        *token =
            (struct sl_tokenizer_token){(uint32_t)t->pool_bytes, (uint32_t)added->content.length};
        memcpy(t->pool + t->pool_bytes, added->content.at, added->content.length);
        t->pool_bytes += (int64_t)added->content.length;
        t->literal[added->id] = 1;
    }
    return SL_OK;
}

static void index_tokens(struct sl_tokenizer *t) {
    int64_t count = 0;
    t->by_bytes_room = 16;
    for (int64_t id = 0; id < t->vocab; id++)
        count += t->token[id].length > 0;
    while (t->by_bytes_room < count + count / 2)
        t->by_bytes_room *= 2;
    t->by_bytes = sl_realloc(NULL, sizeof *t->by_bytes * (size_t)t->by_bytes_room);
    memset(t->by_bytes, 0, sizeof *t->by_bytes * (size_t)t->by_bytes_room);
    for (int64_t id = 0; id < t->vocab; id++) {
        if (!t->token[id].length || t->literal[id])
            continue;
        int64_t slot = bytes_slot(t, sl_tokenizer_token_bytes(t, id));
        if (!t->by_bytes[slot] || t->score) /* of a repeated token, the last id counts in a list */
            t->by_bytes[slot] = (uint32_t)id + 1;
    }
}

/* Fills byte_id, the token of each byte, and char_id, that of each ASCII character. */
static void index_bytes(struct sl_tokenizer *t) {
    for (int byte = 0; byte < 256; byte++) {
        char text[8] = {(char)byte};
        size_t length = 1;
        if (byte < 128)
            t->char_id[byte] = sl_tokenizer_vocab_find(t, (struct sl_str){text, 1});
        if (!t->byte_level)
            length = (size_t)snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        t->byte_id[byte] = sl_tokenizer_vocab_find(t, (struct sl_str){text, length});
    }
}

static void *zeroed(size_t size_bytes) {
    return memset(sl_realloc(NULL, size_bytes ? size_bytes : 1), 0, size_bytes);
}

sl_err sl_tokenizer_vocab_read(struct sl_tokenizer *t, struct sl_tokenizer_source *source) {
    struct census census;
    SL_TRY(read_all_added(t, source));
    SL_TRY(take_census(t, source, &census));
    t->vocab = census.highest + 1;
    t->token = zeroed(sizeof *t->token * (size_t)t->vocab);
    t->literal = zeroed((size_t)t->vocab);
    t->is_special = zeroed((size_t)t->vocab);
    t->added_of = zeroed(sizeof *t->added_of * (size_t)t->vocab);
    for (int64_t i = 0; i < t->vocab; i++)
        t->added_of[i] = -1;
    if (source->vocab_is_list)
        t->score = zeroed(sizeof *t->score * (size_t)t->vocab);
    t->pool = sl_realloc(NULL, (size_t)census.text_bytes + 1);
    SL_TRY(read_vocab(t, source));
    SL_TRY(put_added(t, source->name));
    index_tokens(t);
    index_bytes(t);
    return SL_OK;
}
