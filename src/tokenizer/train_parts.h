/* The state of a training. Private to tokenizer/. */
#ifndef SL_TOKENIZER_TRAIN_PARTS_H
#define SL_TOKENIZER_TRAIN_PARTS_H

#include "base/map.h"
#include "base/vec.h"
#include "tokenizer/train.h"

/* Different texts, numbered in the order of their first occurrence. */
struct sl_tokenizer_counted {
    int64_t start; /* offset in the pool */
    uint64_t hash;
    int64_t count;
    uint32_t length;
};
struct sl_tokenizer_texts {
    SL_VEC(struct sl_tokenizer_counted) list;
    SL_VEC(char) pool;
    uint32_t *index; /* hash table: number + 1; 0: the slot is free */
    uint64_t room;
};
int64_t sl_tokenizer_texts_put(struct sl_tokenizer_texts *texts, struct sl_str text, bool *added);
void sl_tokenizer_texts_free(struct sl_tokenizer_texts *texts);

struct sl_tokenizer_trained_merge {
    int32_t left, right;
    bool again; /* the text comes again later */
};

struct sl_tokenizer_train {
    struct sl_tokenizer_train_config config;
    struct sl_tokenizer_texts words;
    /* tokens as in tokenizer.json, where characters stand for bytes */
    struct sl_tokenizer_texts tokens;
    int32_t id_of_byte[256];
    SL_VEC(struct sl_tokenizer_trained_merge) merges;
    int64_t lines; /* lines of the current file */
    int64_t bytes, word_count;
};

#endif
