/* The merges of BPE: a list of pairs in tokenizer.json or merges.txt, and their tables. */
#include "tokenizer/bytes.h"
#include "tokenizer/own.h"

enum { MEETS_BITS = 20 };
_Static_assert(SL_TOKENIZER_MEETS_BYTES == 1 << (MEETS_BITS - 3), "one bit per hash");

static int64_t pair_slot(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    int64_t mask = t->by_pair_room - 1;
    int64_t i = (int64_t)((key * 0x9E3779B97F4A7C15u) >> 32 & (uint64_t)mask);
    while (t->by_pair[i]) {
        const struct sl_tokenizer_merge *merge = &t->merge[t->by_pair[i] - 1];
        if (merge->left == left && merge->right == right)
            break;
        i = (i + 1) & mask;
    }
    return i;
}

int64_t sl_tokenizer_find_merge(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    return (int64_t)t->by_pair[pair_slot(t, left, right)] - 1;
}

static uint32_t meets_bit(int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> (64 - MEETS_BITS));
}

bool sl_tokenizer_may_meet(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    uint32_t bit = meets_bit(left, right);
    return t->meets[bit >> 3] >> (bit & 7) & 1;
}

static sl_err index_merges(struct sl_tokenizer *t, const char *name) {
    t->by_pair_room = 16;
    while (t->by_pair_room < t->merge_count + t->merge_count / 2)
        t->by_pair_room *= 2;
    t->by_pair = sl_realloc(NULL, sizeof *t->by_pair * (size_t)t->by_pair_room);
    memset(t->by_pair, 0, sizeof *t->by_pair * (size_t)t->by_pair_room);
    for (int64_t i = 0; i < t->merge_count; i++) {
        int64_t slot = pair_slot(t, t->merge[i].left, t->merge[i].right);
        if (t->by_pair[slot])
            return sl_fail(SL_ERR_INPUT, "%s: merges %lld and %lld are the same pair", name,
                           (long long)t->by_pair[slot], (long long)i + 1);
        t->by_pair[slot] = (uint32_t)i + 1;
    }
    return SL_OK;
}

/* Fills t->meets. A token that merges make spans symbols, and merges never join two neighbours that
 * are not adjacent inside some token. The last symbol of `left` and the first of `right` are such
 * neighbours. The symbols of a token follow from its text: its first and last symbol do not depend
 * on the merge that makes it. */
static void index_meets(struct sl_tokenizer *t) {
    int32_t *first = sl_realloc(NULL, sizeof *first * (size_t)t->vocab);
    int32_t *last = sl_realloc(NULL, sizeof *last * (size_t)t->vocab);
    t->meets = sl_realloc(NULL, SL_TOKENIZER_MEETS_BYTES);
    memset(t->meets, 0, SL_TOKENIZER_MEETS_BYTES);
    for (int64_t id = 0; id < t->vocab; id++)
        first[id] = last[id] = (int32_t)id;
    /* a merge may come before those that make its parts, so this repeats until nothing changes */
    for (int round = 0; round < 64; round++) {
        bool changed = false;
        for (int64_t i = 0; i < t->merge_count; i++) {
            const struct sl_tokenizer_merge *m = &t->merge[i];
            changed |= first[m->to] != first[m->left] || last[m->to] != last[m->right];
            first[m->to] = first[m->left];
            last[m->to] = last[m->right];
        }
        if (!changed)
            break;
        if (round == 63)
            memset(t->meets, 0xff, SL_TOKENIZER_MEETS_BYTES);
    }
    for (int64_t i = 0; i < t->merge_count; i++) {
        uint32_t bit = meets_bit(last[t->merge[i].left], first[t->merge[i].right]);
        t->meets[bit >> 3] |= (uint8_t)(1 << (bit & 7));
    }
    free(first);
    free(last);
}

/* ---- reading ---- */

struct reader {
    struct sl_tokenizer *t;
    const char *name;
    char *scratch; /* room for two tokens */
};

static size_t resolve(const struct reader *r, struct sl_str raw, bool escapes, char *out) {
    size_t length = sl_tokenizer_resolve(raw, escapes, out);
    if (r->t->byte_level)
        (void)sl_tokenizer_to_bytes(out, &length); /* if it fails, the lookup will fail */
    return length;
}

static sl_err put_merge(struct reader *r, struct sl_str left, struct sl_str right, bool escapes) {
    struct sl_tokenizer *t = r->t;
    char *at = r->scratch;
    size_t a = resolve(r, left, escapes, at), b = resolve(r, right, escapes, at + a);
    struct sl_tokenizer_merge merge = {
        .left = sl_tokenizer_vocab_find(t, (struct sl_str){at, a}),
        .right = sl_tokenizer_vocab_find(t, (struct sl_str){at + a, b}),
        .to = -1,
    };
    size_t skip = t->prefix.length;
    if (skip && b >= skip && memcmp(at + a, t->prefix.at, skip) == 0) {
        memmove(at + a, at + a + skip, b - skip);
        b -= skip;
    }
    merge.to = sl_tokenizer_vocab_find(t, (struct sl_str){at, a + b});
    if (merge.left < 0 || merge.right < 0 || merge.to < 0)
        return sl_fail(SL_ERR_INPUT,
                       "%s: merge %lld, '%.*s' and '%.*s': %s is not in the vocabulary", r->name,
                       (long long)t->merge_count + 1, left.length > 40 ? 40 : (int)left.length,
                       left.at, right.length > 40 ? 40 : (int)right.length, right.at,
                       merge.left < 0    ? "the first"
                       : merge.right < 0 ? "the second"
                                         : "what they make");
    t->merge[t->merge_count++] = merge;
    return SL_OK;
}

/* Splits "a b" at its blank; SL_ERR_INPUT unless there is exactly one blank, and inside. */
static sl_err split_pair(const struct reader *r, int64_t rank, struct sl_str pair,
                         struct sl_str *left, struct sl_str *right) {
    const char *blank = pair.length ? memchr(pair.at, ' ', pair.length) : NULL;
    const char *end = pair.at + pair.length;
    if (!blank || blank == pair.at || blank + 1 == end ||
        memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
        return sl_fail(SL_ERR_INPUT, "%s: merge %lld, '%.*s': expected two tokens and a blank",
                       r->name, (long long)rank + 1, pair.length > 40 ? 40 : (int)pair.length,
                       pair.at);
    *left = (struct sl_str){pair.at, (size_t)(blank - pair.at)};
    *right = (struct sl_str){blank + 1, (size_t)(end - blank - 1)};
    return SL_OK;
}

/* Reads one element of the list of merges: "a b" or ["a", "b"]. */
static sl_err read_pair(struct sl_json_in *json, const struct reader *r, int64_t rank,
                        struct sl_str *left, struct sl_str *right) {
    if (json->event == SL_JSON_STRING)
        return split_pair(r, rank, json->string, left, right);
    if (json->event != SL_JSON_ARRAY)
        return sl_json_fail(json, "expected a merge: \"a b\" or [\"a\", \"b\"]");
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *left = json->string;
    SL_TRY(sl_json_take(json, SL_JSON_STRING));
    *right = json->string;
    return sl_json_take(json, SL_JSON_ARRAY_END);
}

static sl_err read_json(struct reader *r, const struct sl_json_in *merges) {
    struct sl_str left, right;
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct sl_json_in json = *merges;
        SL_TRY(sl_json_take(&json, SL_JSON_ARRAY));
        if (pass)
            r->t->merge = sl_realloc(NULL, sizeof *r->t->merge * (size_t)(count + 1));
        for (int64_t rank = 0;; rank++) {
            SL_TRY(sl_json_next(&json));
            if (json.event == SL_JSON_ARRAY_END)
                break;
            SL_TRY(read_pair(&json, r, rank, &left, &right));
            if (pass)
                SL_TRY(put_merge(r, left, right, true));
            else
                count++;
        }
    }
    return SL_OK;
}

/* Returns the next merge line of merges.txt; false at the end. */
static bool next_line(struct sl_str *text, bool first, struct sl_str *line) {
    while (text->length) {
        const char *end = memchr(text->at, '\n', text->length);
        size_t length = end ? (size_t)(end - text->at) : text->length;
        *line = (struct sl_str){text->at, length};
        text->at += end ? length + 1 : length;
        text->length -= end ? length + 1 : length;
        if (line->length && line->at[line->length - 1] == '\r')
            line->length--;
        bool version = first && line->length >= 8 && memcmp(line->at, "#version", 8) == 0;
        first = false;
        if (line->length && !version)
            return true;
    }
    return false;
}

static sl_err read_text(struct reader *r, struct sl_str merges) {
    struct sl_str text = merges, line, left, right;
    int64_t count = 0;
    while (next_line(&text, text.at == merges.at, &line)) {
        SL_TRY(split_pair(r, count, line, &left, &right));
        count++;
    }
    r->t->merge = sl_realloc(NULL, sizeof *r->t->merge * (size_t)(count + 1));
    text = merges;
    while (next_line(&text, text.at == merges.at, &line)) {
        SL_TRY(split_pair(r, r->t->merge_count, line, &left, &right));
        SL_TRY(put_merge(r, left, right, false));
    }
    return SL_OK;
}

sl_err sl_tokenizer_merges_read(struct sl_tokenizer *t, struct sl_tokenizer_source *source) {
    struct reader r = {.t = t, .name = source->name};
    size_t room = source->has_merges ? (size_t)(source->merges.end - source->merges.start)
                                     : source->merges_text.length;
    sl_err err = SL_OK;
    r.scratch = sl_realloc(NULL, room + 8);
    SL_TRY_OUT(source->has_merges ? read_json(&r, &source->merges)
                                  : read_text(&r, source->merges_text));
    SL_TRY_OUT(index_merges(t, source->name));
    index_meets(t);
out:
    free(r.scratch);
    return err;
}
