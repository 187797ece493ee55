/* Encoding: split into words, then merge pairs, lowest rank first, leftmost first among equals.
 *
 * A short word (almost all) keeps the ranks of its neighbouring pairs in an array and scans it. A
 * long word uses a heap, which avoids quadratic time on text without blanks. A small direct-mapped
 * cache per call holds the tokens of recent words.
 */
#include "base/map.h"
#include "base/vec.h"
#include "tokenizer/bpe.h"

enum {
    SHORT_WORD = 64,
    WORD_MAX = 1 << 16, /* longer words are split: bounds memory on files without white space */
    CACHE_SLOTS = 4096,
    CACHE_BYTES = 20,
    CACHE_IDS = 8,
    CACHE_FROM = 4096, /* shorter texts use no cache */
};

static const int64_t none = INT64_MAX; /* rank of a pair without merge */

struct cached {
    uint8_t length, count;
    char word[CACHE_BYTES];
    int32_t id[CACHE_IDS];
};

struct encoder {
    const struct sl_tokenizer *t;
    struct sl_tokens *out;
    struct cached *cache; /* or NULL */
};

static int64_t rank_of(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    int64_t rank = sl_tokenizer_bpe_find_merge(t, left, right);
    return rank < 0 ? none : rank;
}

/* Tokens of a word of at most SHORT_WORD bytes. */
static int short_word(const struct sl_tokenizer *t, const char *word, int length, int32_t *id) {
    int64_t rank[SHORT_WORD]; /* of (i, i+1) */
    int count = length;
    for (int i = 0; i < length; i++)
        id[i] = t->byte_id[(unsigned char)word[i]];
    for (int i = 0; i + 1 < length; i++)
        rank[i] = rank_of(t, id[i], id[i + 1]);
    while (count > 1) {
        int best = 0;
        for (int i = 1; i + 1 < count; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == none)
            break;
        id[best] = t->merge[rank[best]].to;
        count--;
        for (int i = best + 1; i < count; i++)
            id[i] = id[i + 1];
        for (int i = best + 1; i + 1 < count; i++)
            rank[i] = rank[i + 1];
        if (best > 0)
            rank[best - 1] = rank_of(t, id[best - 1], id[best]);
        if (best + 1 < count)
            rank[best] = rank_of(t, id[best], id[best + 1]);
    }
    return count;
}

/* ---- long words: a linked list of tokens and a heap of merges ---- */

struct link {
    int32_t id, before, after; /* id -1: merged into its neighbour; before, after -1: none */
};

struct chance { /* a candidate merge; may be stale when it is popped */
    int64_t rank;
    int32_t at, left, right;
};

struct long_word {
    const struct sl_tokenizer *t;
    struct link *link;
    SL_VEC(struct chance) heap;
};

static bool sooner(const struct chance *a, const struct chance *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push_chance(struct long_word *w, int32_t at) {
    if (at < 0 || w->link[at].after < 0)
        return;
    struct chance fresh = {
        .at = at, .left = w->link[at].id, .right = w->link[w->link[at].after].id};
    fresh.rank = rank_of(w->t, fresh.left, fresh.right);
    if (fresh.rank == none)
        return;
    SL_PUSH(&w->heap, fresh);
    int64_t i = w->heap.count - 1;
    while (i > 0 && sooner(&fresh, &w->heap.at[(i - 1) / 2])) {
        w->heap.at[i] = w->heap.at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap.at[i] = fresh;
}

static struct chance pop_chance(struct long_word *w) {
    struct chance top = w->heap.at[0], last = w->heap.at[--w->heap.count];
    int64_t i = 0, count = w->heap.count;
    for (int64_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count && sooner(&w->heap.at[child + 1], &w->heap.at[child]))
            child++;
        if (!sooner(&w->heap.at[child], &last))
            break;
        w->heap.at[i] = w->heap.at[child];
    }
    w->heap.at[i] = last;
    return top;
}

static void long_word(struct encoder *e, const char *word, int32_t length) {
    struct long_word w = {.t = e->t, .link = sl_realloc(NULL, sizeof *w.link * (size_t)length)};
    for (int32_t i = 0; i < length; i++)
        w.link[i] = (struct link){e->t->byte_id[(unsigned char)word[i]], i - 1,
                                  i + 1 < length ? i + 1 : -1};
    for (int32_t i = 0; i < length; i++)
        push_chance(&w, i);
    while (w.heap.count) {
        struct chance c = pop_chance(&w);
        struct link *left = &w.link[c.at];
        if (left->id != c.left || left->after < 0 || w.link[left->after].id != c.right)
            continue; /* stale: one of the two was merged since */
        struct link *right = &w.link[left->after];
        left->id = e->t->merge[c.rank].to;
        left->after = right->after;
        right->id = -1;
        if (left->after >= 0)
            w.link[left->after].before = c.at;
        push_chance(&w, left->before);
        push_chance(&w, c.at);
    }
    for (int32_t i = 0; i >= 0; i = w.link[i].after)
        SL_PUSH(e->out, w.link[i].id);
    SL_VEC_FREE(&w.heap);
    free(w.link);
}

/* ---- words and texts ---- */

static void put_ids(struct encoder *e, const int32_t *id, int count) {
    SL_VEC_RESERVE(e->out, count);
    for (int i = 0; i < count; i++)
        e->out->at[e->out->count++] = id[i];
}

static void encode_word(struct encoder *e, const char *word, size_t length) {
    int32_t id[SHORT_WORD];
    struct cached *slot = NULL;
    if (e->cache && length <= CACHE_BYTES) {
        slot = &e->cache[sl_hash(word, length) % CACHE_SLOTS];
        if (slot->length == length && memcmp(slot->word, word, length) == 0) {
            put_ids(e, slot->id, slot->count);
            return;
        }
    }
    if (e->t->whole_words) {
        id[0] = sl_tokenizer_find(e->t, (struct sl_str){word, length});
        if (id[0] >= 0) {
            put_ids(e, id, 1);
            return;
        }
    }
    if (length > SHORT_WORD) {
        long_word(e, word, (int32_t)length);
        return;
    }
    int count = short_word(e->t, word, (int)length, id);
    put_ids(e, id, count);
    if (slot && count <= CACHE_IDS) {
        slot->length = (uint8_t)length;
        slot->count = (uint8_t)count;
        memcpy(slot->word, word, length);
        memcpy(slot->id, id, sizeof *id * (size_t)count);
    }
}

static void encode_words(struct encoder *e, const char *text, size_t length) {
    while (length) {
        size_t word = sl_tokenizer_pretok_word(e->t->rule, text, length);
        word = word < WORD_MAX ? word : WORD_MAX;
        encode_word(e, text, word);
        text += word;
        length -= word;
    }
}

static void encode_plain(struct encoder *e, const char *text, size_t length) {
    if (!e->t->prefix_space || !length || text[0] == ' ') {
        encode_words(e, text, length);
        return;
    }
    struct sl_text copy = {0};
    sl_text_put(&copy, " ");
    sl_text_put_bytes(&copy, text, length);
    encode_words(e, copy.at, copy.length);
    sl_text_free(&copy);
}

/* The longest special token at the start of the text, or -1. */
static int32_t special_at(const struct sl_tokenizer *t, const char *text, size_t length) {
    int32_t best = -1;
    size_t best_length = 0;
    for (int i = 0; i < t->special_count; i++) {
        struct sl_str name = sl_tokenizer_piece(t, t->special[i]);
        if (name.length > best_length && name.length <= length &&
            memcmp(name.at, text, name.length) == 0) {
            best = t->special[i];
            best_length = name.length;
        }
    }
    return best;
}

static void encode_special(struct encoder *e, const char *text, size_t length) {
    bool starts[256] = {false};
    size_t from = 0, at = 0;
    for (int i = 0; i < e->t->special_count; i++)
        starts[(unsigned char)sl_tokenizer_piece(e->t, e->t->special[i]).at[0]] = true;
    while (at < length) {
        int32_t id =
            starts[(unsigned char)text[at]] ? special_at(e->t, text + at, length - at) : -1;
        if (id < 0) {
            at++;
            continue;
        }
        encode_plain(e, text + from, at - from);
        put_ids(e, &id, 1);
        at += sl_tokenizer_piece(e->t, id).length;
        from = at;
    }
    encode_plain(e, text + from, length - from);
}

void sl_tokenizer_encode(const struct sl_tokenizer *t, const char *text, size_t length,
                         bool special, struct sl_tokens *out) {
    struct encoder e = {.t = t, .out = out};
    if (t->bytes_only) {
        SL_VEC_RESERVE(out, length);
        for (size_t i = 0; i < length; i++)
            out->at[out->count++] = (unsigned char)text[i];
        return;
    }
    if (length >= CACHE_FROM) {
        e.cache = sl_realloc(NULL, sizeof *e.cache * CACHE_SLOTS);
        memset(e.cache, 0, sizeof *e.cache * CACHE_SLOTS);
    }
    if (special && t->special_count)
        encode_special(&e, text, length);
    else
        encode_plain(&e, text, length);
    free(e.cache);
}

size_t sl_tokenizer_cut(const struct sl_tokenizer *t, const char *text, size_t length,
                        size_t from) {
    if (t->bytes_only)
        return from < length ? from : length;
    if (t->rule == SL_PRETOK_NONE || t->special_blank || t->prefix_space)
        return length;
    /* No rule joins a printable ASCII character with a following blank. */
    for (size_t at = from > 0 ? from : 1; at < length; at++)
        if (text[at] == ' ' && text[at - 1] > ' ' && text[at - 1] < 0x7f)
            return at;
    return length;
}
