/* Inside a tokenizer: flat tables with offsets and two hash tables of 4-byte slots, so that a
 * tokenizer takes less memory than its files. Private to tokenizer.c and bpe_*.c. */
#ifndef SL_DATA_BPE_H
#define SL_DATA_BPE_H

#include "data/pretok.h"
#include "data/tokenizer.h"

struct sl_bpe_token {
    uint32_t start, length; /* in pool; length 0: no such token */
};

struct sl_bpe_merge {
    int32_t left, right, to; /* token ids; its place in the list is its rank */
};

struct sl_tokenizer {
    char name[48];
    bool bytes_only;
    enum sl_pretok rule;
    bool prefix_space; /* a text that does not start with white space gets a blank in front */
    bool whole_words;  /* a word that is a token is not merged (Llama 3: ignore_merges) */

    int64_t vocab;              /* ids are below */
    struct sl_bpe_token *token; /* [vocab] */
    char *pool;
    int64_t pool_bytes;

    struct sl_bpe_merge *merge;
    int64_t merge_count;

    uint32_t *by_bytes, *by_pair; /* open addressing: place + 1, 0 is free */
    int64_t by_bytes_room, by_pair_room;

    int32_t *special; /* ids of tokens that are found in the text before words are cut */
    int special_count;
    bool special_blank; /* one of them holds a blank */

    int32_t byte_id[256];
};

/* Fill a tokenizer from its files (bpe_read.c). The tables are freed by sl_data_tokenizer_close. */
SL_MUST_CHECK sl_err sl_data_bpe_read(struct sl_tokenizer *tokenizer, const char *name,
                                      struct sl_str vocab, struct sl_str merges);

/* The place of the merge of two tokens, or -1. */
int64_t sl_data_bpe_find_merge(const struct sl_tokenizer *tokenizer, int32_t left, int32_t right);

/* Build the hash tables once token / merge are complete; a pair that comes twice is an error. */
void sl_data_bpe_index_tokens(struct sl_tokenizer *tokenizer);
SL_MUST_CHECK sl_err sl_data_bpe_index_merges(struct sl_tokenizer *tokenizer, const char *name);

#endif
