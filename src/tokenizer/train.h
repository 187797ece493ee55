/* Training of a byte-level BPE tokenizer with the words of GPT-2. Vocabulary and merges are those that the
 * `tokenizers` package finds with
 *
 *     Tokenizer(BPE()); pre_tokenizer = ByteLevel(add_prefix_space=False)
 *     BpeTrainer(vocab_size, min_frequency, special_tokens, initial_alphabet=ByteLevel.alphabet())
 *
 *   open -> { add a file, or a text } ... -> run -> write a tokenizer.json -> close
 *
 * Texts are split into lines first, so a word never contains a line break and what follows it. Memory
 * grows with the number of different words, not with the length of the texts. */
#ifndef SL_TOKENIZER_TRAIN_H
#define SL_TOKENIZER_TRAIN_H

#include "base/text.h"

struct sl_tokenizer_train;

struct sl_tokenizer_train_config {
    int64_t vocab; /* number of tokens; the special ones and 256 for bytes are made in any case */
    int64_t min_frequency;      /* a pair that occurs less often is not merged */
    const char *const *special; /* [special_count] special tokens, which get the first ids */
    int special_count;
};

/* SL_ERR_USAGE: a number is out of range, or a special token is empty, not UTF-8 or given twice. */
SL_MUST_CHECK sl_err sl_tokenizer_train_open(const struct sl_tokenizer_train_config *config,
                                             struct sl_tokenizer_train **out);
void sl_tokenizer_train_close(struct sl_tokenizer_train *train); /* NULL is allowed */

/* Count the words of a text, or of a file, which is read in pieces. SL_ERR_INPUT: it is not UTF-8.
 * `name` is for the message. */
SL_MUST_CHECK sl_err sl_tokenizer_train_add(struct sl_tokenizer_train *train, const char *name,
                                            const char *text, size_t length);
SL_MUST_CHECK sl_err sl_tokenizer_train_file(struct sl_tokenizer_train *train, const char *path);

/* Finds the merges; call it once. */
void sl_tokenizer_train_run(struct sl_tokenizer_train *train);

struct sl_tokenizer_train_facts {
    /* bytes of the texts, number of words, number of different words */
    int64_t bytes, words, different;
    int64_t vocab, merges;
};
struct sl_tokenizer_train_facts sl_tokenizer_train_facts(const struct sl_tokenizer_train *train);

/* Appends a tokenizer.json of Hugging Face; call it after the run. */
void sl_tokenizer_train_write(const struct sl_tokenizer_train *train, struct sl_text *out);

#endif
