/* Finding added tokens in a text. Private to encode.c and added.c. */
#ifndef SL_TOKENIZER_ENCODE_H
#define SL_TOKENIZER_ENCODE_H

#include "tokenizer/own.h"

struct sl_tokenizer_finder {
    struct sl_str text;
    size_t at;          /* where the search goes on */
    size_t from, start; /* plain text in front of the token */
    size_t to;          /* behind the token */
    int32_t id;
};

/* The next added token: longest match, leftmost first. False: none; [from, start) is the rest. */
bool sl_tokenizer_added_next(const struct sl_tokenizer *t, const struct sl_trie *trie,
                             struct sl_tokenizer_finder *finder);

#endif
