/* Tokenizers: bytes (token = byte), or byte-level BPE as GPT-2 has it.
 *
 * BPE: text is cut into words by a fixed rule (pretok.h), the bytes of a word are merged pairwise,
 * lowest rank first. Every byte has a token, so every text can be encoded, and decoding an encoded
 * text gives the same bytes back. Frozen after opening: threads may share one.
 */
#ifndef SL_DATA_TOKENIZER_H
#define SL_DATA_TOKENIZER_H

#include "base/text.h"

struct sl_tokenizer;

struct sl_tokens { /* grows with SL_PUSH of base/vec.h; freed with SL_VEC_FREE */
    int32_t *at;
    int64_t count, room;
};

/* path NULL: bytes. Otherwise tokenizer.json, or vocab.json with merges.txt beside it (the file
 * names may have a common prefix: x-vocab.json, x-merges.txt), or a folder that holds them. */
SL_MUST_CHECK sl_err sl_data_tokenizer_open(const char *path, struct sl_tokenizer **out);
void sl_data_tokenizer_close(struct sl_tokenizer *tokenizer);

/* From memory: a tokenizer.json (merges.at NULL), or a vocab.json and a merges.txt. */
SL_MUST_CHECK sl_err sl_data_tokenizer_read(const char *name, struct sl_str vocab,
                                            struct sl_str merges, struct sl_tokenizer **out);

/* Number of tokens: ids are below it. */
int64_t sl_data_tokenizer_vocab(const struct sl_tokenizer *tokenizer);

/* Append the tokens of a text. `special`: names such as <|endoftext|> in the text are their token.
 */
void sl_data_tokenizer_encode(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                              bool special, struct sl_tokens *out);

/* The bytes of a token; empty for an id that has none. */
struct sl_str sl_data_tokenizer_decode(const struct sl_tokenizer *tokenizer, int32_t id);

/* The id of a token by its bytes ("<|endoftext|>", "[MASK]"), -1 when there is none. */
int32_t sl_data_tokenizer_find(const struct sl_tokenizer *tokenizer, struct sl_str bytes);

/* Where a long text may be cut without changing its tokens: the first such place at or after
 * `from`, or `length`. */
size_t sl_data_tokenizer_cut(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                             size_t from);

/* Memory held; "bytes" or "bpe 50257". */
int64_t sl_data_tokenizer_bytes(const struct sl_tokenizer *tokenizer);
const char *sl_data_tokenizer_name(const struct sl_tokenizer *tokenizer);

#endif
