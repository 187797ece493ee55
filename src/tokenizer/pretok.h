/* The word rules of byte-level BPE (GPT-2, Llama 3, Qwen2); split.c has all other
 * pre-tokenizers.
 *
 *   gpt2   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *   llama3 (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
 *          ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+        (GPT-4 has it as well)
 *   qwen2  as llama3, but \p{N} in place of \p{N}{1,3}
 *   none   the whole text is one word
 *
 * These are hand-written matchers. They try the alternatives in this order; each matches
 * greedily. */
#ifndef SL_TOKENIZER_PRETOK_H
#define SL_TOKENIZER_PRETOK_H

#include "base/text.h"

enum sl_pretok { SL_PRETOK_GPT2, SL_PRETOK_LLAMA3, SL_PRETOK_QWEN2, SL_PRETOK_NONE };

/* Returns the rule that equals a regular expression; SL_PRETOK_NONE: there is no such rule. */
enum sl_pretok sl_tokenizer_pretok_rule(struct sl_str pattern);

/* Returns the length in bytes of the first word of a non-empty text. */
size_t sl_tokenizer_pretok_word(enum sl_pretok rule, const char *text, size_t length);

#endif
