/* Finds added tokens in a text. Private to encode.c and added.c. */
#ifndef SL_TOKENIZER_ENCODE_H
#define SL_TOKENIZER_ENCODE_H

#include "tokenizer/own.h"

struct sl_tokenizer_finder {
    struct sl_str text;
    size_t at;          /* where the search continues */
    size_t from, start; /* the plain text in front of the token: [from, start) */
    size_t to;          /* end of the token */
    int32_t id;
};

/* Finds the next added token: leftmost, and the longest there. False: none; [from, start) is then
 * the remaining text. */
bool sl_tokenizer_added_next(const struct sl_tokenizer *t, const struct sl_trie *trie,
                             struct sl_tokenizer_finder *finder);

#endif
