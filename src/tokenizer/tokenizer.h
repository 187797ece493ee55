/* A tokenizer maps text to token ids and back: each byte is a token, or a tokenizer.json of
 * Hugging Face defines the tokens.
 *
 * The models are BPE, Unigram, WordPiece and WordLevel, with their normalizers, pre-tokenizers,
 * post-processors, added tokens and decoders (docs/tokenizers.md). The ids equal those of the
 * `tokenizers` package. A tokenizer is frozen after opening; threads may share it. */
#ifndef SL_TOKENIZER_H
#define SL_TOKENIZER_H

#include "base/text.h"

struct sl_tokenizer;

struct sl_tokens { /* grows with SL_PUSH of base/vec.h; freed with SL_VEC_FREE */
    int32_t *at;
    int64_t count, room;
};

/* Opens a tokenizer. path NULL: tokens are bytes. Otherwise a tokenizer.json; or a vocab.json with
 * merges.txt in the same folder (with a common prefix: x-vocab.json, x-merges.txt); or a folder
 * with these files. */
SL_MUST_CHECK sl_err sl_tokenizer_open(const char *path, struct sl_tokenizer **out);
void sl_tokenizer_close(struct sl_tokenizer *tokenizer);

/* Opens a tokenizer from memory: a tokenizer.json (merges.at NULL), or a vocab.json and a
 * merges.txt. */
SL_MUST_CHECK sl_err sl_tokenizer_read(const char *name, struct sl_str vocab, struct sl_str merges,
                                       struct sl_tokenizer **out);

/* Returns the number of tokens; all ids are below it. */
int64_t sl_tokenizer_vocab(const struct sl_tokenizer *tokenizer);

enum sl_tokenizer_mode {
    SL_TOKENIZER_PLAIN, /* added tokens such as <|endoftext|> are ordinary text */
    SL_TOKENIZER_MATCH, /* added tokens are matched */
    /* like MATCH, and with the ids that the post-processor puts around a text */
    SL_TOKENIZER_WHOLE,
};

/* Appends the tokens of a text. Parts that are not UTF-8 count as U+FFFD, unless tokens are
 * bytes. */
void sl_tokenizer_encode(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                         enum sl_tokenizer_mode mode, struct sl_tokens *out);

/* Appends the text of tokens; ids without a token are skipped. */
void sl_tokenizer_decode(const struct sl_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                         bool skip_special, struct sl_text *out);

/* Returns the bytes that a token adds to a text that has begun, for writing text token by token. A
 * token may be a part of a character. Empty for an unused id. */
struct sl_str sl_tokenizer_piece(const struct sl_tokenizer *tokenizer, int32_t id);

/* Returns the id of the token with these bytes ("<|endoftext|>", "[MASK]"), or -1. */
int32_t sl_tokenizer_find(const struct sl_tokenizer *tokenizer, struct sl_str bytes);

/* Returns the first position at or after `from` where a text can be split without changing its
 * tokens, or `length`. */
size_t sl_tokenizer_cut(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                        size_t from);

/* bytes: memory that it holds. name: "bytes", "bpe 50257", "wordpiece 30522". */
int64_t sl_tokenizer_bytes(const struct sl_tokenizer *tokenizer);
const char *sl_tokenizer_name(const struct sl_tokenizer *tokenizer);

#endif
