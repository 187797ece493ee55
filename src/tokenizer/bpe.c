/* Byte pair encoding: a word becomes symbols, and pairs of neighbours are merged, lowest rank first,
 * leftmost first among equals.
 *
 * A word is divided between neighbours that no merge can join (sl_tokenizer_may_meet). The parts
 * do not interact, so a text that is one long word, as with Llama 2, is cheap. A short part
 * (almost all) keeps the ranks of its pairs in an array and scans it. A long one uses a heap,
 * which avoids quadratic time. */
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

enum { SHORT_PART = 64 };

static const int64_t none = INT64_MAX; /* rank of a pair that has no merge */

static int64_t rank_of(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    int64_t rank = sl_tokenizer_find_merge(t, left, right);
    return rank < 0 ? none : rank;
}

/* Merges at most SHORT_PART symbols in place; returns their number. */
static int short_part(const struct sl_tokenizer *t, int32_t *id, int count) {
    int64_t rank[SHORT_PART]; /* rank of the pair (i, i+1) */
    for (int i = 0; i + 1 < count; i++)
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

/* ---- long parts: a linked list of symbols and a heap of merges ---- */

struct link {
    /* id -1: it has been merged into its neighbour; before, after -1: there is none */
    int32_t id, before, after;
};

struct chance { /* a possible merge; may be out of date when it is popped */
    int64_t rank;
    int32_t at, left, right;
};

struct long_part {
    const struct sl_tokenizer *t;
    struct link *link;
    SL_VEC(struct chance) heap;
};

static bool sooner(const struct chance *a, const struct chance *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push_chance(struct long_part *w, int32_t at) {
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

static struct chance pop_chance(struct long_part *w) {
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

static void long_part(struct sl_tokenizer_work *work, const int32_t *symbol, int32_t count) {
    const struct sl_tokenizer *t = work->t;
    struct long_part w = {.t = t, .link = sl_realloc(NULL, sizeof *w.link * (size_t)count)};
    for (int32_t i = 0; i < count; i++)
        w.link[i] = (struct link){symbol[i], i - 1, i + 1 < count ? i + 1 : -1};
    for (int32_t i = 0; i < count; i++)
        push_chance(&w, i);
    while (w.heap.count) {
        struct chance c = pop_chance(&w);
        struct link *left = &w.link[c.at];
        if (left->id != c.left || left->after < 0 || w.link[left->after].id != c.right)
            continue; /* out of date: one of the two has been merged since */
        struct link *right = &w.link[left->after];
        left->id = t->merge[c.rank].to;
        left->after = right->after;
        right->id = -1;
        if (left->after >= 0)
            w.link[left->after].before = c.at;
        push_chance(&w, left->before);
        push_chance(&w, c.at);
    }
    for (int32_t i = 0; i >= 0; i = w.link[i].after)
        sl_tokenizer_put_id(work, w.link[i].id);
    SL_VEC_FREE(&w.heap);
    free(w.link);
}

/* ---- symbols ---- */

struct symbols {
    struct sl_tokenizer_work *w;
    bool unknown; /* an unknown symbol waits to be written */
};

static void put_symbol(struct symbols *s, int32_t id) {
    if (s->unknown)
        SL_PUSH(&s->w->symbols, s->w->t->unk);
    s->unknown = false;
    SL_PUSH(&s->w->symbols, id);
}

/* Writes the unknown symbol that waits. As in the package `tokenizers`, it is written when the next
 * known symbol follows; bytes of byte fallback do not count as known symbols here. */
static void put_unknown(struct symbols *s, const char *at, size_t length) {
    const struct sl_tokenizer *t = s->w->t;
    bool all = t->byte_fallback;
    for (size_t i = 0; i < length && all; i++)
        all = t->byte_id[(unsigned char)at[i]] >= 0;
    for (size_t i = 0; i < length && all; i++)
        SL_PUSH(&s->w->symbols, t->byte_id[(unsigned char)at[i]]);
    if (all || t->unk < 0)
        return;
    if (s->unknown && !t->fuse_unk)
        SL_PUSH(&s->w->symbols, t->unk);
    s->unknown = true;
}

static void byte_symbols(struct symbols *s, const char *word, size_t length) {
    const struct sl_tokenizer *t = s->w->t;
    for (size_t i = 0; i < length; i++) {
        int32_t id = t->byte_id[(unsigned char)word[i]];
        if (id >= 0)
            put_symbol(s, id);
        else
            put_unknown(s, word + i, 0);
    }
}

/* Returns the token of a character with the prefix or suffix that its place in the word
 * requires. */
static int32_t find_dressed(struct sl_tokenizer_work *w, struct sl_str one, bool first, bool last) {
    const struct sl_tokenizer *t = w->t;
    size_t before = first ? 0 : t->prefix.length, after = last ? t->suffix.length : 0;
    if (!before && !after)
        return sl_tokenizer_vocab_find(t, one);
    char *text = sl_tokenizer_scratch(w, before + one.length + after);
    memcpy(text, t->prefix.at, before);
    memcpy(text + before, one.at, one.length);
    if (after)
        memcpy(text + before + one.length, t->suffix.at, after);
    return sl_tokenizer_vocab_find(t, (struct sl_str){text, before + one.length + after});
}

static void char_symbols(struct symbols *s, const char *word, size_t length) {
    const struct sl_tokenizer *t = s->w->t;
    bool plain = !t->prefix.length && !t->suffix.length;
    for (size_t at = 0, n; at < length; at += n) {
        n = (size_t)sl_tokenizer_char_bytes(word[at]);
        int32_t id = plain && n == 1 ? t->char_id[(unsigned char)word[at]]
                                     : find_dressed(s->w, (struct sl_str){word + at, n}, at == 0,
                                                    at + n == length);
        if (id >= 0)
            put_symbol(s, id);
        else
            put_unknown(s, word + at, n);
    }
}

static void encode(struct sl_tokenizer_work *w, const char *word, size_t length) {
    const struct sl_tokenizer *t = w->t;
    struct symbols s = {.w = w};
    if (t->whole_words) {
        int32_t id = sl_tokenizer_vocab_find(t, (struct sl_str){word, length});
        if (id >= 0) {
            sl_tokenizer_put_id(w, id);
            return;
        }
    }
    w->symbols.count = 0;
    if (t->byte_level)
        byte_symbols(&s, word, length);
    else
        char_symbols(&s, word, length);
    if (s.unknown)
        SL_PUSH(&w->symbols, t->unk);
    for (int64_t from = 0, to; from < w->symbols.count; from = to) {
        int32_t *symbol = w->symbols.at;
        to = from + 1;
        while (to < w->symbols.count && sl_tokenizer_may_meet(t, symbol[to - 1], symbol[to]))
            to++;
        if (to - from > SHORT_PART) {
            long_part(w, symbol + from, (int32_t)(to - from));
            continue;
        }
        int count = short_part(t, symbol + from, (int)(to - from));
        for (int i = 0; i < count; i++)
            sl_tokenizer_put_id(w, symbol[from + i]);
    }
}

/* ---- reading ---- */

enum { DROPOUT, UNK, PREFIX, SUFFIX, FUSE, FALLBACK, IGNORE_MERGES };

static sl_err read(struct sl_tokenizer *t, struct sl_tokenizer_fields *f, struct sl_json_in *json) {
    struct sl_str unk = {NULL, 0};
    if (f->has[DROPOUT]) {
        SL_TRY(sl_json_take(&f->at[DROPOUT], SL_JSON_NUMBER));
        if (f->at[DROPOUT].number != 0)
            return sl_json_fail(&f->at[DROPOUT],
                                "dropout %g is not implemented: the tokens of a "
                                "text would differ from epoch to epoch",
                                f->at[DROPOUT].number);
    }
    SL_TRY(sl_tokenizer_field_string(f, UNK, &t->arena, &unk));
    SL_TRY(sl_tokenizer_field_bool(f, FUSE, &t->fuse_unk));
    SL_TRY(sl_tokenizer_field_bool(f, FALLBACK, &t->byte_fallback));
    SL_TRY(sl_tokenizer_field_bool(f, IGNORE_MERGES, &t->whole_words));
    return unk.length ? sl_tokenizer_need_token(t, json, "unk_token", unk, &t->unk) : SL_OK;
}

const struct sl_tokenizer_model sl_tokenizer_bpe = {
    .name = "BPE",
    .keys = "dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
            "ignore_merges vocab merges",
    .short_name = "bpe",
    .read = read,
    .encode = encode,
};
