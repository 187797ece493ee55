/* Texts that grow together: each has a prompt and gets tokens until it has enough or meets a stop
 * string. Prompts are read in chunks; texts that are further draw tokens at the same time.
 *
 *   open -> { step } until done -> close
 *
 * A text that reaches the model's T tokens goes on from its last T/2, which are read again.
 */
#ifndef SL_DECODE_WRITER_H
#define SL_DECODE_WRITER_H

#include "decode/draw.h"
#include "decode/engine.h"
#include "tokenizer/tokenizer.h"

struct sl_decode_writing {
    struct sl_decode_engine *gen; /* one sequence per prompt */
    int64_t chunk;                /* as in its config */
    const struct sl_tokenizer *tokenizer;
    struct sl_decode_draw draw;
    int64_t tokens; /* of each text, without its prompt */
    int64_t first;  /* number of the first text, for the draws */
    const char *const *stops;
    int stop_count;
    /* Called with new bytes of a text; NULL: no. Bytes that may begin a stop string come later. */
    sl_err (*on_text)(void *ctx, int text, struct sl_str bytes);
    void *ctx;
};

struct sl_decode_text {
    struct sl_tokens tokens; /* prompt and what was drawn */
    struct sl_text bytes;    /* what was drawn, without the stop string */
    int64_t drawn;
    int64_t first, past; /* of the window that the engine has read: first token, count */
    size_t told;         /* bytes given to on_text */
    bool done, stopped;
};

struct sl_decode_writer {
    struct sl_decode_writing how;
    struct sl_decode_sizes sizes;
    int count, open; /* texts; those that are not done */
    struct sl_decode_text *texts;
    int32_t *tokens, *past, *counts, *window;
    float *logits;
};

/* SL_ERR_USAGE: an empty prompt. Close even after an error. */
SL_MUST_CHECK sl_err sl_decode_writer_open(const struct sl_decode_writing *how,
                                           const char *const *prompts, int count,
                                           struct sl_decode_writer *out);
void sl_decode_writer_close(struct sl_decode_writer *writer);
/* Only the first `count` texts are written. */
void sl_decode_writer_limit(struct sl_decode_writer *writer, int count);
/* At most one token of each text. */
SL_MUST_CHECK sl_err sl_decode_writer_step(struct sl_decode_writer *writer);

#endif
