/* The tables of a tokenizer: flat arrays with offsets and two hash tables of 4-byte slots. A
 * tokenizer takes less memory than its files. Private to tokenizer.c and bpe_*.c. */
#ifndef SL_TOKENIZER_BPE_H
#define SL_TOKENIZER_BPE_H

#include "tokenizer/pretok.h"
#include "tokenizer/tokenizer.h"

struct sl_bpe_token {
    uint32_t start, length; /* in pool; length 0: no such token */
};

struct sl_bpe_merge {
    int32_t left, right, to; /* token ids; the index in the list is the rank of the merge */
};

struct sl_tokenizer {
    char name[48];
    bool bytes_only;
    enum sl_pretok rule;
    bool prefix_space; /* prepend a blank to a text that does not start with white space */
    bool whole_words;  /* a word that is a token is not merged (Llama 3: ignore_merges) */

    int64_t vocab;              /* ids are in [0, vocab) */
    struct sl_bpe_token *token; /* [vocab] */
    char *pool;
    int64_t pool_bytes;

    struct sl_bpe_merge *merge;
    int64_t merge_count;

    uint32_t *by_bytes, *by_pair; /* open addressing: index + 1, 0: free */
    int64_t by_bytes_room, by_pair_room;

    int32_t *special; /* ids of tokens that are matched before the text is split into words */
    int special_count;
    bool special_blank; /* a special token contains a blank */

    int32_t byte_id[256];
};

/* Fill a tokenizer from its files (bpe_read.c). The tables are freed by sl_tokenizer_close. */
SL_MUST_CHECK sl_err sl_tokenizer_bpe_read(struct sl_tokenizer *tokenizer, const char *name,
                                           struct sl_str vocab, struct sl_str merges);

/* Write the bytes of a token into `out`, never more than its text has; returns the number.
 * escapes: resolve JSON escapes. mapped: characters represent bytes; others are copied. */
size_t sl_tokenizer_bpe_decode(struct sl_str raw, bool escapes, bool mapped, char *out);

/* The index (rank) of the merge of two tokens, or -1. */
int64_t sl_tokenizer_bpe_find_merge(const struct sl_tokenizer *tokenizer, int32_t left,
                                    int32_t right);

/* Build the hash tables after token and merge are complete. A duplicate pair is an error. */
void sl_tokenizer_bpe_index_tokens(struct sl_tokenizer *tokenizer);
SL_MUST_CHECK sl_err sl_tokenizer_bpe_index_merges(struct sl_tokenizer *tokenizer,
                                                   const char *name);

#endif
