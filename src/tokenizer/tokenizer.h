/* Tokenizer: maps text to token ids, by bytes (token = byte) or by GPT-2's byte-level BPE.
 *
 * BPE splits text into words by a fixed rule (pretok.h) and merges the bytes of a word pairwise,
 * lowest rank first. Every byte has a token, so any text can be encoded, and decoding restores the
 * bytes. A tokenizer is frozen after opening; threads may share it.
 */
#ifndef SL_TOKENIZER_H
#define SL_TOKENIZER_H

#include "base/text.h"

struct sl_tokenizer;

struct sl_tokens { /* grows with SL_PUSH of base/vec.h; freed with SL_VEC_FREE */
    int32_t *at;
    int64_t count, room;
};

/* path NULL: bytes. Otherwise a tokenizer.json; or a vocab.json with merges.txt in the same folder
 * (with a common prefix: x-vocab.json, x-merges.txt); or a folder with these files. */
SL_MUST_CHECK sl_err sl_tokenizer_open(const char *path, struct sl_tokenizer **out);
void sl_tokenizer_close(struct sl_tokenizer *tokenizer);

/* From memory: a tokenizer.json (merges.at NULL), or a vocab.json and a merges.txt. */
SL_MUST_CHECK sl_err sl_tokenizer_read(const char *name, struct sl_str vocab, struct sl_str merges,
                                       struct sl_tokenizer **out);

/* Number of tokens: ids are below it. */
int64_t sl_tokenizer_vocab(const struct sl_tokenizer *tokenizer);

/* Append the tokens of a text. special: match special tokens such as <|endoftext|>. */
void sl_tokenizer_encode(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                         bool special, struct sl_tokens *out);

/* The bytes of a token; empty for an unused id. */
struct sl_str sl_tokenizer_piece(const struct sl_tokenizer *tokenizer, int32_t id);

/* The id of the token with these bytes ("<|endoftext|>", "[MASK]"), or -1. */
int32_t sl_tokenizer_find(const struct sl_tokenizer *tokenizer, struct sl_str bytes);

/* The first position at or after `from` where a text can be split without changing its tokens, or
 * `length`. */
size_t sl_tokenizer_cut(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                        size_t from);

/* Bytes of memory held; the name "bytes" or "bpe 50257". */
int64_t sl_tokenizer_bytes(const struct sl_tokenizer *tokenizer);
const char *sl_tokenizer_name(const struct sl_tokenizer *tokenizer);

#endif
