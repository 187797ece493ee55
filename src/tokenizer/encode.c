/* Encoding: added tokens, normalizer, pre-tokenizer, model, post-processor. A small direct-mapped
 * cache per call holds the tokens of recent words. */
#include "tokenizer/encode.h"

#include "tokenizer/chars.h"

enum {
    CACHE_SLOTS = 4096,
    CACHE_BYTES = 22,
    CACHE_IDS = 6,
    CACHE_FROM = 4096, /* shorter texts use no cache */
};

struct cached {
    uint8_t length, count;
    char word[CACHE_BYTES];
    int32_t id[CACHE_IDS];
};

void sl_tokenizer_put_id(struct sl_tokenizer_work *w, int32_t id) { SL_PUSH(w->out, id); }

void *sl_tokenizer_scratch(struct sl_tokenizer_work *w, size_t size_bytes) {
    if ((int64_t)size_bytes > w->scratch_bytes) {
        w->scratch_bytes = (int64_t)(size_bytes + size_bytes / 2);
        free(w->scratch);
        w->scratch = sl_realloc(NULL, (size_t)w->scratch_bytes);
    }
    return w->scratch;
}

static uint32_t hash_word(const char *word, size_t length) {
    uint64_t hash = length * 0x9E3779B97F4A7C15u, part;
    for (size_t i = 0; i < length; i += 8) {
        part = 0;
        memcpy(&part, word + i, length - i < 8 ? length - i : 8);
        hash = (hash ^ part) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash >> 32);
}

static void encode_word(struct sl_tokenizer_work *w, const char *word, size_t length) {
    struct cached *slot = NULL;
    if (w->cache && length <= CACHE_BYTES) {
        slot = (struct cached *)w->cache + hash_word(word, length) % CACHE_SLOTS;
        if (slot->length == length && memcmp(slot->word, word, length) == 0) {
            SL_VEC_RESERVE(w->out, CACHE_IDS);
            memcpy(w->out->at + w->out->count, slot->id, sizeof slot->id);
            w->out->count += slot->count;
            return;
        }
    }
    int64_t before = w->out->count;
    w->t->model->encode(w, word, length);
    int64_t count = w->out->count - before;
    if (slot && count <= CACHE_IDS) {
        slot->length = (uint8_t)length;
        slot->count = (uint8_t)count;
        memcpy(slot->word, word, length);
        if (count)
            memcpy(slot->id, w->out->at + before, sizeof *slot->id * (size_t)count);
    }
}

/* Encodes text between added tokens, after normalising it. `first`: it begins the input. */
static void encode_plain(struct sl_tokenizer_work *w, struct sl_str text, bool first) {
    struct sl_tokenizer_span whole = {0, text.length, first};
    if (!text.length)
        return;
    w->text.length = 0;
    sl_text_put_bytes(&w->text, text.at, text.length);
    w->spans.count = 0;
    SL_PUSH(&w->spans, whole);
    sl_tokenizer_pretokenize(w);
    for (int64_t i = 0; i < w->spans.count; i++)
        encode_word(w, w->text.at + w->spans.at[i].from, w->spans.at[i].to - w->spans.at[i].from);
}

/* Normalises a part of the input and looks for added tokens in the result. */
static void encode_part(struct sl_tokenizer_work *w, struct sl_str part, bool match) {
    const struct sl_tokenizer *t = w->t;
    struct sl_text normal = {0};
    bool first = part.at == w->input;
    if (!part.length)
        return;
    if (t->normalizer.count) {
        sl_text_put(&normal, "");
        sl_tokenizer_normalize(t, part, &normal);
        part = (struct sl_str){normal.at, normal.length};
    }
    struct sl_tokenizer_finder f = {.text = part};
    static const struct sl_trie none = {0};
    for (bool more = true; more;) {
        more = sl_tokenizer_added_next(t, match ? &t->norm_added : &none, &f);
        encode_plain(w, (struct sl_str){part.at + f.from, f.start - f.from}, first && f.from == 0);
        if (more)
            sl_tokenizer_put_id(w, f.id);
    }
    sl_text_free(&normal);
}

static void encode_text(struct sl_tokenizer_work *w, struct sl_str text, bool match) {
    static const struct sl_trie none = {0};
    struct sl_tokenizer_finder f = {.text = text};
    w->input = text.at;
    for (bool more = true; more;) {
        more = sl_tokenizer_added_next(w->t, match ? &w->t->raw_added : &none, &f);
        encode_part(w, (struct sl_str){text.at + f.from, f.start - f.from}, match);
        if (more)
            sl_tokenizer_put_id(w, f.id);
    }
}

static void put_all(struct sl_tokens *out, const struct sl_tokens *ids) {
    for (int64_t i = 0; i < ids->count; i++)
        SL_PUSH(out, ids->at[i]);
}

void sl_tokenizer_encode(const struct sl_tokenizer *t, const char *text, size_t length,
                         enum sl_tokenizer_mode mode, struct sl_tokens *out) {
    struct sl_tokenizer_work w = {.t = t, .out = out};
    struct sl_text valid = {0};
    struct sl_str input = {text, length};
    if (!t->model) {
        SL_VEC_RESERVE(out, length);
        for (size_t i = 0; i < length; i++)
            out->at[out->count++] = (unsigned char)text[i];
        return;
    }
    if (mode == SL_TOKENIZER_WHOLE)
        put_all(out, &t->before);
    if (!sl_tokenizer_is_utf8(text, length)) {
        sl_tokenizer_repair(text, length, &valid);
        input = (struct sl_str){valid.at, valid.length};
    }
    if (length >= CACHE_FROM) {
        w.cache = sl_realloc(NULL, sizeof(struct cached) * CACHE_SLOTS);
        memset(w.cache, 0, sizeof(struct cached) * CACHE_SLOTS);
    }
    encode_text(&w, input, mode != SL_TOKENIZER_PLAIN);
    if (mode == SL_TOKENIZER_WHOLE)
        put_all(out, &t->after);
    sl_text_free(&valid);
    sl_text_free(&w.text);
    sl_text_free(&w.spare);
    SL_VEC_FREE(&w.spans);
    SL_VEC_FREE(&w.old);
    SL_VEC_FREE(&w.symbols);
    sl_tokenizer_match_close(w.match);
    free(w.scratch);
    free(w.cache);
}

size_t sl_tokenizer_cut(const struct sl_tokenizer *t, const char *text, size_t length,
                        size_t from) {
    if (!t->model)
        return from < length ? from : length;
    if (!t->cuts)
        return length;
    /* no rule joins a printable ASCII character with a following blank */
    for (size_t at = from > 0 ? from : 1; at < length; at++)
        if (text[at] == ' ' && text[at - 1] > ' ' && text[at - 1] < 0x7f)
            return at;
    return length;
}
