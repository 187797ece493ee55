/* Models without merges: WordPiece, Unigram, WordLevel. */
#include "tokenizer/chars.h"
#include "tokenizer/own.h"

#include <math.h>

/* Builds a trie of all tokens of the vocabulary. */
static void build_trie(struct sl_tokenizer *t) {
    struct sl_trie_item *item = sl_realloc(NULL, sizeof *item * (size_t)(t->vocab + 1));
    int64_t count = 0;
    for (int64_t id = 0; id < t->vocab; id++)
        if (t->token[id].length && !t->literal[id])
            item[count++] = (struct sl_trie_item){sl_tokenizer_token_bytes(t, id), (int32_t)id};
    sl_tokenizer_trie_build(&t->trie, item, count);
    free(item);
}

static int64_t count_chars(const char *text, size_t length) {
    int64_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* ---- WordPiece: the longest token, then the longest one that continues the word ... ---- */

enum { WP_UNK, WP_PREFIX, WP_LONGEST };

static sl_err read_wordpiece(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                             struct sl_json_in *json) {
    struct sl_str unk = SL_STR("[UNK]"), prefix = SL_STR("##");
    t->longest_word = 100;
    SL_TRY(sl_tokenizer_field_string(f, WP_UNK, &t->arena, &unk));
    SL_TRY(sl_tokenizer_field_string(f, WP_PREFIX, &t->arena, &prefix));
    SL_TRY(sl_tokenizer_field_int(f, WP_LONGEST, INT32_MAX, &t->longest_word));
    SL_TRY(sl_tokenizer_need_token(t, json, "unk_token", unk, &t->unk));
    build_trie(t);
    t->inside = sl_tokenizer_trie_find(&t->trie, prefix);
    t->has_inside = !prefix.length || t->inside;
    return SL_OK;
}

static void encode_wordpiece(struct sl_tokenizer_work *w, const char *word, size_t length) {
    const struct sl_tokenizer *t = w->t;
    int64_t before = w->out->count;
    bool known = count_chars(word, length) <= t->longest_word;
    for (size_t at = 0, n = 0; at < length && known; at += n) {
        int32_t id = at && !t->has_inside
                         ? -1
                         : sl_tokenizer_trie_longest(&t->trie, at ? t->inside : 0,
                                                     (struct sl_str){word + at, length - at}, &n);
        known = id >= 0;
        if (known)
            sl_tokenizer_put_id(w, id);
    }
    if (known)
        return;
    w->out->count = before;
    sl_tokenizer_put_id(w, t->unk);
}

const struct sl_tokenizer_model sl_tokenizer_wordpiece = {
    .name = "WordPiece",
    .keys = "unk_token continuing_subword_prefix max_input_chars_per_word vocab merges",
    .short_name = "wordpiece",
    .read = read_wordpiece,
    .encode = encode_wordpiece,
};

/* ---- WordLevel ---- */

static sl_err read_wordlevel(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                             struct sl_json_in *json) {
    struct sl_str unk = SL_STR("<unk>");
    SL_TRY(sl_tokenizer_field_string(f, 0, &t->arena, &unk));
    return sl_tokenizer_need_token(t, json, "unk_token", unk, &t->unk);
}

static void encode_wordlevel(struct sl_tokenizer_work *w, const char *word, size_t length) {
    int32_t id = sl_tokenizer_vocab_find(w->t, (struct sl_str){word, length});
    sl_tokenizer_put_id(w, id >= 0 ? id : w->t->unk);
}

const struct sl_tokenizer_model sl_tokenizer_wordlevel = {
    .name = "WordLevel",
    .keys = "unk_token vocab merges",
    .short_name = "wordlevel",
    .read = read_wordlevel,
    .encode = encode_wordlevel,
};

/* ---- Unigram: the tokens with the highest sum of scores (Viterbi) ---- */

static const double unknown_penalty = 10;

static sl_err read_unigram(struct sl_tokenizer *t, struct sl_tokenizer_fields *f,
                           struct sl_json_in *json) {
    int64_t unk = -1;
    double lowest = INFINITY;
    SL_TRY(sl_tokenizer_field_int(f, 0, t->vocab - 1, &unk));
    SL_TRY(sl_tokenizer_field_bool(f, 1, &t->byte_fallback));
    if (unk < 0)
        return sl_json_fail(json, "a Unigram model without unk_id cannot encode every text");
    t->unk = (int32_t)unk;
    for (int64_t id = 0; id < t->vocab; id++)
        if (t->token[id].length && !t->literal[id] && t->score[id] < lowest)
            lowest = t->score[id];
    t->unk_score = lowest - unknown_penalty;
    build_trie(t);
    return SL_OK;
}

struct best { /* the best path that ends at a position */
    double score;
    int32_t id;
    int32_t from; /* start of its last token; -1: none */
};

static void offer(struct best *to, double score, int32_t id, size_t from) {
    if (to->from < 0 || score > to->score)
        *to = (struct best){score, id, (int32_t)from};
}

/* Finds the best paths. As in the package, a character is unknown only where no token is exactly
 * that character. */
static void find_paths(const struct sl_tokenizer *t, const char *word, size_t length,
                       struct best *best) {
    for (size_t i = 0; i <= length; i++)
        best[i] = (struct best){0, 0, -1};
    for (size_t at = 0, one; at < length; at += one) {
        double till = best[at].score;
        bool single = false;
        uint32_t node = 0;
        one = (size_t)sl_tokenizer_char_bytes(word[at]);
        for (size_t end = at; end < length;) {
            node = sl_tokenizer_trie_step(&t->trie, node, (unsigned char)word[end++]);
            if (!node)
                break;
            int32_t id = t->trie.node[node].value;
            if (id < 0)
                continue;
            offer(&best[end], t->score[id] + till, id, at);
            single |= end - at == one;
        }
        if (!single)
            offer(&best[at + one], t->unk_score + till, t->unk, at);
    }
}

/* Writes the tokens of an unknown part: its bytes, or unk. */
static void put_unknown(struct sl_tokenizer_work *w, const char *at, size_t length) {
    const struct sl_tokenizer *t = w->t;
    int32_t id = sl_tokenizer_vocab_find(t, (struct sl_str){at, length});
    bool all = t->byte_fallback && id < 0;
    for (size_t i = 0; i < length && all; i++)
        all = t->byte_id[(unsigned char)at[i]] >= 0;
    for (size_t i = 0; i < length && all; i++)
        sl_tokenizer_put_id(w, t->byte_id[(unsigned char)at[i]]);
    if (!all)
        sl_tokenizer_put_id(w, id >= 0 ? id : t->unk);
}

static void encode_unigram(struct sl_tokenizer_work *w, const char *word, size_t length) {
    const struct sl_tokenizer *t = w->t;
    struct best *best = sl_tokenizer_scratch(w, (sizeof *best + sizeof(int32_t)) * (length + 1));
    int32_t *end = (int32_t *)(best + length + 1);
    size_t count = 0;
    find_paths(t, word, length, best);
    for (size_t at = length; at > 0; at = (size_t)best[at].from)
        end[count++] = (int32_t)at;
    for (size_t from = 0; count > 0;) {
        size_t to = (size_t)end[--count];
        int32_t id = best[to].id;
        while (id == t->unk && count > 0 && best[end[count - 1]].id == t->unk)
            to = (size_t)end[--count]; /* unknown neighbours become one */
        if (id == t->unk)
            put_unknown(w, word + from, to - from);
        else
            sl_tokenizer_put_id(w, id);
        from = to;
    }
}

const struct sl_tokenizer_model sl_tokenizer_unigram = {
    .name = "Unigram",
    .keys = "unk_id byte_fallback vocab",
    .short_name = "unigram",
    .read = read_unigram,
    .encode = encode_unigram,
};
