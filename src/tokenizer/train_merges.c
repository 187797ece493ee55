/* The merges of a byte-level BPE: the most frequent pair first, of equally frequent ones the pair with
 * the smaller ids.
 *
 *   pairs    pair -> count over all words, each times its frequency
 *   heap     candidates: a pair, its count when it was put there, the words in which it may be
 *
 * A count in the heap may be too large; it is corrected when the candidate comes to the top. A merge
 * changes only the pairs next to it. The pair itself keeps its count, and a pair may be in the heap
 * more than once, each time with other words: both as in the `tokenizers` package, where they decide
 * the result in rare cases (two ways to make the same token). */
#include "tokenizer/train_parts.h"

#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    int64_t count;
    uint64_t pair;
    uint32_t *words; /* own memory, or a part of merging.first_words */
    int64_t word_count;
    bool owns;
};

struct pair_count {
    uint64_t pair;
    int64_t count;
    int64_t words; /* number of words that have the pair; later, where they begin in first_words */
    uint32_t last; /* 1 + the index of the last of these words */
    bool used;
};

struct fresh { /* a word in which a pair is new */
    uint64_t pair;
    uint32_t word;
};

struct word { /* the symbols of a word */
    int64_t start;
    uint32_t length;
};

struct merging {
    struct sl_tokenizer_train *t;
    int32_t *symbols;
    struct word *words;
    struct pair_count *pairs; /* open addressing */
    uint64_t room;
    int64_t pair_count;
    SL_VEC(struct candidate) heap;
    SL_VEC(struct fresh) fresh;
    uint32_t *first_words;
};

static uint64_t pair_of(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

/* ---- counts ---- */

static uint64_t place_of(const struct merging *m, uint64_t pair) {
    uint64_t at = (pair * 0x9E3779B97F4A7C15u) >> 20 & (m->room - 1);
    while (m->pairs[at].used && m->pairs[at].pair != pair)
        at = (at + 1) & (m->room - 1);
    return at;
}

static void grow_pairs(struct merging *m) {
    struct pair_count *old = m->pairs;
    uint64_t room = m->room;
    m->room = room ? room * 2 : 4096;
    m->pairs = calloc(m->room, sizeof *m->pairs);
    if (!m->pairs)
        sl_out_of_memory(m->room * sizeof *m->pairs);
    for (uint64_t i = 0; i < room; i++)
        if (old[i].used)
            m->pairs[place_of(m, old[i].pair)] = old[i];
    free(old);
}

static struct pair_count *count_of(struct merging *m, uint64_t pair) {
    if ((uint64_t)(m->pair_count + 1) * 2 > m->room)
        grow_pairs(m);
    struct pair_count *at = &m->pairs[place_of(m, pair)];
    if (!at->used) {
        *at = (struct pair_count){.pair = pair, .used = true};
        m->pair_count++;
    }
    return at;
}

/* ---- the heap ---- */

static bool is_before(const struct candidate *a, const struct candidate *b) {
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static void sink(struct merging *m, int64_t at, struct candidate c) {
    for (int64_t child; (child = 2 * at + 1) < m->heap.count; at = child) {
        if (child + 1 < m->heap.count && is_before(&m->heap.at[child + 1], &m->heap.at[child]))
            child++;
        if (!is_before(&m->heap.at[child], &c))
            break;
        m->heap.at[at] = m->heap.at[child];
    }
    m->heap.at[at] = c;
}

static void push(struct merging *m, struct candidate c) {
    int64_t at = m->heap.count;
    SL_PUSH(&m->heap, c);
    for (; at && is_before(&c, &m->heap.at[(at - 1) / 2]); at = (at - 1) / 2)
        m->heap.at[at] = m->heap.at[(at - 1) / 2];
    m->heap.at[at] = c;
}

static struct candidate pop(struct merging *m) {
    struct candidate top = m->heap.at[0], last = m->heap.at[--m->heap.count];
    if (m->heap.count)
        sink(m, 0, last);
    return top;
}

/* ---- the first candidates ---- */

static void open_words(struct merging *m) {
    const struct sl_tokenizer_texts *texts = &m->t->words;
    m->symbols = sl_realloc(NULL, sizeof *m->symbols * (size_t)(texts->pool.count + 1));
    m->words = sl_realloc(NULL, sizeof *m->words * (size_t)(texts->list.count + 1));
    for (int64_t i = 0; i < texts->pool.count; i++)
        m->symbols[i] = m->t->id_of_byte[(unsigned char)texts->pool.at[i]];
    for (int64_t i = 0; i < texts->list.count; i++)
        m->words[i] = (struct word){texts->list.at[i].start, texts->list.at[i].length};
}

/* Calls `see` for each pair of each word, in order. */
static void each_pair(struct merging *m,
                      void (*see)(struct merging *m, struct pair_count *pair, uint32_t word)) {
    for (int64_t w = 0; w < m->t->words.list.count; w++)
        for (uint32_t i = 0; i + 1 < m->words[w].length; i++) {
            const int32_t *at = m->symbols + m->words[w].start + i;
            see(m, count_of(m, pair_of(at[0], at[1])), (uint32_t)w);
        }
}

static void count_pair(struct merging *m, struct pair_count *pair, uint32_t word) {
    pair->count += m->t->words.list.at[word].count;
    pair->words += pair->last != word + 1;
    pair->last = word + 1;
}

static void list_word(struct merging *m, struct pair_count *pair, uint32_t word) {
    if (pair->last != word + 1)
        m->first_words[pair->words++] = word;
    pair->last = word + 1;
}

static void open_heap(struct merging *m) {
    int64_t all = 0;
    each_pair(m, count_pair);
    for (uint64_t i = 0; i < m->room; i++) {
        int64_t words = m->pairs[i].words;
        m->pairs[i].words = all;
        m->pairs[i].last = 0;
        all += words;
    }
    m->first_words = sl_realloc(NULL, sizeof *m->first_words * (size_t)(all + 1));
    each_pair(m, list_word);
    for (uint64_t i = 0, begin = 0; i < m->room; i++) {
        const struct pair_count *pair = &m->pairs[i];
        struct candidate c = {.count = pair->count,
                              .pair = pair->pair,
                              .words = m->first_words + begin,
                              .word_count = pair->words - (int64_t)begin};
        if (!pair->used)
            continue;
        begin = (uint64_t)pair->words;
        push(m, c);
    }
}

/* ---- a merge ---- */

static void change(struct merging *m, int32_t a, int32_t b, uint32_t word, int sign) {
    struct fresh fresh = {pair_of(a, b), word};
    count_of(m, fresh.pair)->count += sign * m->t->words.list.at[word].count;
    if (sign > 0)
        SL_PUSH(&m->fresh, fresh);
}

/* Joins the pair in one word, from left to right: what is before the current place was joined
 * already. */
static void merge_word(struct merging *m, uint32_t word, uint64_t pair, int32_t to) {
    int32_t left = (int32_t)(pair >> 32), right = (int32_t)(uint32_t)pair;
    int32_t *s = m->symbols + m->words[word].start;
    uint32_t length = m->words[word].length, out = 0;
    for (uint32_t i = 0; i < length; out++) {
        if (s[i] != left || i + 1 == length || s[i + 1] != right) {
            s[out] = s[i++];
            continue;
        }
        if (out) {
            change(m, s[out - 1], left, word, -1);
            change(m, s[out - 1], to, word, 1);
        }
        s[out] = to;
        i += 2;
        if (i < length) {
            change(m, right, s[i], word, -1);
            change(m, to, s[i], word, 1);
        }
    }
    m->words[word].length = out;
}

static int by_pair(const void *a, const void *b) {
    const struct fresh *x = a, *y = b;
    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    return x->word < y->word ? -1 : x->word > y->word;
}

/* Adds a candidate for each pair of m->fresh, with the different words that have it. */
static void push_fresh(struct merging *m) {
    sl_sort(m->fresh.at, m->fresh.count, sizeof *m->fresh.at, by_pair);
    for (int64_t i = 0, end; i < m->fresh.count; i = end) {
        struct candidate c = {.pair = m->fresh.at[i].pair, .owns = true};
        for (end = i; end < m->fresh.count && m->fresh.at[end].pair == c.pair; end++)
            c.word_count += end == i || m->fresh.at[end].word != m->fresh.at[end - 1].word;
        c.count = count_of(m, c.pair)->count;
        if (c.count <= 0)
            continue;
        c.words = sl_realloc(NULL, sizeof *c.words * (size_t)c.word_count);
        c.word_count = 0;
        for (int64_t k = i; k < end; k++)
            if (k == i || m->fresh.at[k].word != m->fresh.at[k - 1].word)
                c.words[c.word_count++] = m->fresh.at[k].word;
        push(m, c);
    }
    m->fresh.count = 0;
}

static int32_t token_of(struct merging *m, uint64_t pair) {
    const struct sl_tokenizer_texts *tokens = &m->t->tokens;
    const struct sl_tokenizer_counted *a = &tokens->list.at[pair >> 32];
    const struct sl_tokenizer_counted *b = &tokens->list.at[(uint32_t)pair];
    struct sl_text text = {0};
    bool added;
    sl_text_put_bytes(&text, tokens->pool.at + a->start, a->length);
    sl_text_put_bytes(&text, tokens->pool.at + b->start, b->length);
    int64_t id =
        sl_tokenizer_texts_put(&m->t->tokens, (struct sl_str){text.at, text.length}, &added);
    sl_text_free(&text);
    return (int32_t)id;
}

static void merge(struct merging *m, const struct candidate *c) {
    struct sl_tokenizer_trained_merge merge = {(int32_t)(c->pair >> 32), (int32_t)(uint32_t)c->pair,
                                               false};
    int32_t to = token_of(m, c->pair);
    SL_PUSH(&m->t->merges, merge);
    for (int64_t i = 0; i < c->word_count; i++)
        merge_word(m, c->words[i], c->pair, to);
    push_fresh(m);
}

/* Merges the best pair. Returns false if no pair is left that is frequent enough. */
static bool merge_best(struct merging *m) {
    if (!m->heap.count)
        return false;
    struct candidate top = pop(m);
    int64_t count = count_of(m, top.pair)->count;
    if (top.count != count) {
        top.count = count;
        push(m, top);
        return true;
    }
    bool enough = count >= 1 && count >= m->t->config.min_frequency;
    if (enough)
        merge(m, &top);
    if (top.owns)
        free(top.words);
    return enough;
}

struct numbered {
    uint64_t pair;
    int64_t number;
};

static int by_number(const void *a, const void *b) {
    const struct numbered *x = a, *y = b;
    if (x->pair != y->pair)
        return x->pair < y->pair ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static void mark_again(struct sl_tokenizer_train *t) {
    struct numbered *all = sl_realloc(NULL, sizeof *all * (size_t)(t->merges.count + 1));
    for (int64_t i = 0; i < t->merges.count; i++)
        all[i] = (struct numbered){pair_of(t->merges.at[i].left, t->merges.at[i].right), i};
    sl_sort(all, t->merges.count, sizeof *all, by_number);
    for (int64_t i = 0; i + 1 < t->merges.count; i++)
        t->merges.at[all[i].number].again = all[i].pair == all[i + 1].pair;
    free(all);
}

void sl_tokenizer_train_run(struct sl_tokenizer_train *t) {
    struct merging m = {.t = t};
    open_words(&m);
    open_heap(&m);
    while (t->tokens.list.count < t->config.vocab && merge_best(&m))
        continue;
    mark_again(t);
    for (int64_t i = 0; i < m.heap.count; i++)
        if (m.heap.at[i].owns)
            free(m.heap.at[i].words);
    SL_VEC_FREE(&m.heap);
    SL_VEC_FREE(&m.fresh);
    free(m.first_words);
    free(m.pairs);
    free(m.symbols);
    free(m.words);
}
