/* Tokenizers: opening, lookup of tokens. read.c parses, encode.c encodes, decode.c decodes. */
#include "tokenizer/tokenizer.h"

#include "tokenizer/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest known tokenizer.json has 34 MB. */
static const int64_t file_limit_bytes = 256 << 20;

int32_t sl_tokenizer_find(const struct sl_tokenizer *t, struct sl_str bytes) {
    if (!t->model)
        return bytes.length == 1 ? (int32_t)(unsigned char)bytes.at[0] : -1;
    for (int64_t i = 0; i < t->added_count; i++)
        if (sl_str_equal(t->added[i].content, bytes))
            return t->added[i].id;
    int32_t id = sl_tokenizer_vocab_find(t, bytes);
    if (id >= 0 || !t->byte_level)
        return id;
    /* looks for a token whose text does not stand for bytes */
    for (int64_t i = 0; i < t->vocab; i++)
        if (t->literal[i] && sl_str_equal(sl_tokenizer_token_bytes(t, i), bytes))
            return (int32_t)i;
    return -1;
}

struct sl_str sl_tokenizer_piece(const struct sl_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocab)
        return SL_STR("");
    if (!t->piece_end)
        return sl_tokenizer_token_bytes(t, id);
    return (struct sl_str){t->pieces.at + t->piece_end[id],
                           t->piece_end[id + 1] - t->piece_end[id]};
}

int64_t sl_tokenizer_vocab(const struct sl_tokenizer *t) { return t->vocab; }
const char *sl_tokenizer_name(const struct sl_tokenizer *t) { return t->name; }

int64_t sl_tokenizer_bytes(const struct sl_tokenizer *t) {
    int64_t tables = (int64_t)(sizeof *t->token + sizeof *t->added_of + 2) +
                     (t->score ? (int64_t)sizeof *t->score : 0) +
                     (t->piece_end ? (int64_t)sizeof *t->piece_end : 0);
    int64_t nodes = t->trie.count + t->raw_added.count + t->norm_added.count;
    return (int64_t)sizeof *t + t->arena.used_bytes + t->vocab * tables + t->pool_bytes +
           (int64_t)t->pieces.length + t->merge_count * (int64_t)sizeof *t->merge +
           4 * (t->by_bytes_room + t->by_pair_room) + (t->meets ? SL_TOKENIZER_MEETS_BYTES : 0) +
           nodes * (int64_t)sizeof *t->trie.node;
}

void sl_tokenizer_close(struct sl_tokenizer *t) {
    if (!t)
        return;
    free(t->token);
    free(t->pool);
    free(t->literal);
    free(t->is_special);
    free(t->added_of);
    free(t->score);
    free(t->merge);
    free(t->by_bytes);
    free(t->by_pair);
    free(t->meets);
    free(t->piece_end);
    sl_text_free(&t->pieces);
    SL_VEC_FREE(&t->before);
    SL_VEC_FREE(&t->after);
    SL_VEC_FREE(&t->normalizer);
    SL_VEC_FREE(&t->pretok);
    SL_VEC_FREE(&t->decoder);
    sl_tokenizer_trie_free(&t->trie);
    sl_tokenizer_trie_free(&t->raw_added);
    sl_tokenizer_trie_free(&t->norm_added);
    sl_tokenizer_regex_close(t->regexes);
    sl_arena_free(&t->arena);
    free(t);
}

static struct sl_tokenizer *new_tokenizer(void) {
    struct sl_tokenizer *t = sl_realloc(NULL, sizeof *t);
    return memset(t, 0, sizeof *t);
}

static struct sl_tokenizer *open_bytes(void) {
    struct sl_tokenizer *t = new_tokenizer();
    t->vocab = t->pool_bytes = 256;
    t->token = sl_realloc(NULL, 256 * sizeof *t->token);
    t->pool = sl_realloc(NULL, 256);
    for (int i = 0; i < 256; i++) {
        t->pool[i] = (char)i;
        t->token[i] = (struct sl_tokenizer_token){(uint32_t)i, 1};
    }
    snprintf(t->name, sizeof t->name, "bytes");
    return t;
}

sl_err sl_tokenizer_read(const char *name, struct sl_str vocab, struct sl_str merges,
                         struct sl_tokenizer **out) {
    struct sl_tokenizer *t = new_tokenizer();
    sl_err err = sl_tokenizer_read_files(t, name, vocab, merges);
    if (err != SL_OK) {
        sl_tokenizer_close(t);
        return err;
    }
    snprintf(t->name, sizeof t->name, "%s %lld", t->model->short_name, (long long)t->vocab);
    *out = t;
    return SL_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Finds tokenizer.json or vocab.json in a folder; `merges` is empty for a tokenizer.json. */
static sl_err find_files(const char *path, struct sl_text *vocab, struct sl_text *merges) {
    static const char *const names[] = {"tokenizer.json", "vocab.json"};
    sl_text_put(vocab, path);
    sl_text_put(merges, "");
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_text inside = {0};
        sl_text_printf(&inside, "%s/%s", path, names[i]);
        if (vocab->length == strlen(path) && sl_file_exists(inside.at)) {
            vocab->length = 0;
            sl_text_put(vocab, inside.at);
        }
        sl_text_free(&inside);
    }
    if (ends_with(vocab->at, "vocab.json")) {
        size_t stem = vocab->length - strlen("vocab.json");
        sl_text_put_bytes(merges, vocab->at, stem);
        sl_text_put(merges, "merges.txt");
        if (!sl_file_exists(merges->at))
            return sl_fail(SL_ERR_INPUT, "%s: a vocab.json needs its merges: there is no %s",
                           vocab->at, merges->at);
    }
    return SL_OK;
}

sl_err sl_tokenizer_open(const char *path, struct sl_tokenizer **out) {
    if (!path) {
        *out = open_bytes();
        return SL_OK;
    }
    struct sl_text vocab = {0}, merges = {0};
    char *text[2] = {NULL, NULL};
    size_t length[2] = {0, 0};
    sl_err err = SL_OK;
    SL_TRY_OUT(find_files(path, &vocab, &merges));
    SL_TRY_OUT(sl_file_read(vocab.at, file_limit_bytes, &text[0], &length[0]));
    if (merges.length)
        SL_TRY_OUT(sl_file_read(merges.at, file_limit_bytes, &text[1], &length[1]));
    SL_TRY_OUT(sl_tokenizer_read(vocab.at, (struct sl_str){text[0], length[0]},
                                 (struct sl_str){text[1], length[1]}, out));
out:
    free(text[0]);
    free(text[1]);
    sl_text_free(&vocab);
    sl_text_free(&merges);
    return err;
}
