/* Tokenizer: maps text to token ids and back, by bytes (token = byte) or as a tokenizer.json of
 * Hugging Face says.
 *
 * The models are BPE, Unigram, WordPiece and WordLevel, with their normalizers, pre-tokenizers,
 * post-processors, added tokens and decoders (docs/tokenizers.md). The ids equal those of the
 * `tokenizers` package. A tokenizer is frozen after opening; threads may share it.
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

enum sl_tokenizer_mode {
    SL_TOKENIZER_PLAIN, /* added tokens such as <|endoftext|> are ordinary text */
    SL_TOKENIZER_MATCH, /* added tokens are matched */
    SL_TOKENIZER_WHOLE, /* as MATCH, and with what the post-processor puts around a text */
};

/* Append the tokens of a text. Parts that are not UTF-8 count as U+FFFD, except in a tokenizer of
 * bytes. */
void sl_tokenizer_encode(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                         enum sl_tokenizer_mode mode, struct sl_tokens *out);

/* Append the text of tokens; ids without a token are skipped. */
void sl_tokenizer_decode(const struct sl_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                         bool skip_special, struct sl_text *out);

/* What a token adds to a text that has begun, to write text token by token. A token may be a part of
 * a character. Empty for an unused id. */
struct sl_str sl_tokenizer_piece(const struct sl_tokenizer *tokenizer, int32_t id);

/* The id of the token with these bytes ("<|endoftext|>", "[MASK]"), or -1. */
int32_t sl_tokenizer_find(const struct sl_tokenizer *tokenizer, struct sl_str bytes);

/* The first position at or after `from` where a text can be split without changing its tokens, or
 * `length`. */
size_t sl_tokenizer_cut(const struct sl_tokenizer *tokenizer, const char *text, size_t length,
                        size_t from);

/* Bytes of memory held; the name: "bytes", "bpe 50257", "wordpiece 30522". */
int64_t sl_tokenizer_bytes(const struct sl_tokenizer *tokenizer);
const char *sl_tokenizer_name(const struct sl_tokenizer *tokenizer);

#endif
