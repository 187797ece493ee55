/* Tokenizers: opening, lookup of tokens and merges. bpe_read.c parses, bpe_encode.c encodes. */
#include "tokenizer/tokenizer.h"

#include "base/map.h"
#include "tokenizer/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest known tokenizer.json has 34 MB. */
static const int64_t file_limit_bytes = 256 << 20;

static int64_t table_room(int64_t count) {
    int64_t room = 16;
    while (room < count + count / 2)
        room *= 2;
    return room;
}

static struct sl_str token_bytes(const struct sl_tokenizer *t, int64_t id) {
    return (struct sl_str){t->pool + t->token[id].start, t->token[id].length};
}

static int64_t bytes_slot(const struct sl_tokenizer *t, struct sl_str bytes) {
    int64_t mask = t->by_bytes_room - 1;
    int64_t i = (int64_t)(sl_hash(bytes.at, bytes.length) & (uint64_t)mask);
    while (t->by_bytes[i] && !sl_str_equal(token_bytes(t, t->by_bytes[i] - 1), bytes))
        i = (i + 1) & mask;
    return i;
}

static int64_t pair_slot(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    int64_t mask = t->by_pair_room - 1;
    int64_t i = (int64_t)((key * 0x9E3779B97F4A7C15u) >> 32 & (uint64_t)mask);
    while (t->by_pair[i]) {
        const struct sl_bpe_merge *merge = &t->merge[t->by_pair[i] - 1];
        if (merge->left == left && merge->right == right)
            break;
        i = (i + 1) & mask;
    }
    return i;
}

static uint32_t *new_table(int64_t room) {
    uint32_t *table = sl_realloc(NULL, sizeof *table * (size_t)room);
    memset(table, 0, sizeof *table * (size_t)room);
    return table;
}

void sl_tokenizer_bpe_index_tokens(struct sl_tokenizer *t) {
    int64_t count = 0;
    for (int64_t id = 0; id < t->vocab; id++)
        count += t->token[id].length > 0;
    t->by_bytes_room = table_room(count);
    t->by_bytes = new_table(t->by_bytes_room);
    for (int64_t id = 0; id < t->vocab; id++) {
        if (!t->token[id].length)
            continue;
        int64_t slot = bytes_slot(t, token_bytes(t, id));
        if (!t->by_bytes[slot]) /* duplicate bytes: the first id wins */
            t->by_bytes[slot] = (uint32_t)id + 1;
    }
}

sl_err sl_tokenizer_bpe_index_merges(struct sl_tokenizer *t, const char *name) {
    t->by_pair_room = table_room(t->merge_count);
    t->by_pair = new_table(t->by_pair_room);
    for (int64_t i = 0; i < t->merge_count; i++) {
        int64_t slot = pair_slot(t, t->merge[i].left, t->merge[i].right);
        if (t->by_pair[slot])
            return sl_fail(SL_ERR_INPUT, "%s: merges %lld and %lld are the same pair", name,
                           (long long)t->by_pair[slot], (long long)i + 1);
        t->by_pair[slot] = (uint32_t)i + 1;
    }
    return SL_OK;
}

int64_t sl_tokenizer_bpe_find_merge(const struct sl_tokenizer *t, int32_t left, int32_t right) {
    return (int64_t)t->by_pair[pair_slot(t, left, right)] - 1;
}

int32_t sl_tokenizer_find(const struct sl_tokenizer *t, struct sl_str bytes) {
    if (t->bytes_only)
        return bytes.length == 1 ? (int32_t)(unsigned char)bytes.at[0] : -1;
    return bytes.length ? (int32_t)t->by_bytes[bytes_slot(t, bytes)] - 1 : -1;
}

struct sl_str sl_tokenizer_piece(const struct sl_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocab)
        return SL_STR("");
    return token_bytes(t, id);
}

int64_t sl_tokenizer_vocab(const struct sl_tokenizer *t) { return t->vocab; }
const char *sl_tokenizer_name(const struct sl_tokenizer *t) { return t->name; }

int64_t sl_tokenizer_bytes(const struct sl_tokenizer *t) {
    return (int64_t)sizeof *t + t->vocab * (int64_t)sizeof *t->token + t->pool_bytes +
           t->merge_count * (int64_t)sizeof *t->merge + 4 * (t->by_bytes_room + t->by_pair_room) +
           t->special_count * (int64_t)sizeof *t->special;
}

void sl_tokenizer_close(struct sl_tokenizer *t) {
    if (!t)
        return;
    free(t->token);
    free(t->pool);
    free(t->merge);
    free(t->by_bytes);
    free(t->by_pair);
    free(t->special);
    free(t);
}

static struct sl_tokenizer *new_tokenizer(void) {
    struct sl_tokenizer *t = sl_realloc(NULL, sizeof *t);
    return memset(t, 0, sizeof *t);
}

static struct sl_tokenizer *open_bytes(void) {
    struct sl_tokenizer *t = new_tokenizer();
    t->bytes_only = true;
    t->vocab = t->pool_bytes = 256;
    t->token = sl_realloc(NULL, 256 * sizeof *t->token);
    t->pool = sl_realloc(NULL, 256);
    for (int i = 0; i < 256; i++) {
        t->pool[i] = (char)i;
        t->token[i] = (struct sl_bpe_token){(uint32_t)i, 1};
        t->byte_id[i] = i;
    }
    snprintf(t->name, sizeof t->name, "bytes");
    return t;
}

sl_err sl_tokenizer_read(const char *name, struct sl_str vocab, struct sl_str merges,
                         struct sl_tokenizer **out) {
    struct sl_tokenizer *t = new_tokenizer();
    sl_err err = sl_tokenizer_bpe_read(t, name, vocab, merges);
    if (err != SL_OK) {
        sl_tokenizer_close(t);
        return err;
    }
    snprintf(t->name, sizeof t->name, "bpe %lld", (long long)t->vocab);
    *out = t;
    return SL_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* Find tokenizer.json or vocab.json in a folder; `merges` is empty for a tokenizer.json. */
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
