/* Writes several texts at the same time: each has a prompt and gets tokens until it has enough
 * or a stop string occurs. Prompts are read in chunks, while texts that are further ahead draw
 * tokens.
 *
 *   open -> { step } until done -> close
 *
 * A text that reaches the model's T tokens continues from its last T/2 tokens, which are read
 * again. */
#ifndef SL_DECODE_WRITER_H
#define SL_DECODE_WRITER_H

#include "decode/draw.h"
#include "decode/engine.h"
#include "tokenizer/tokenizer.h"

struct sl_decode_writing {
    struct sl_decode_engine *gen; /* an engine with one sequence per prompt */
    int64_t chunk;                /* as in the configuration of the engine */
    const struct sl_tokenizer *tokenizer;
    struct sl_decode_draw draw;
    int64_t tokens; /* number of tokens per text, without its prompt */
    int64_t first;  /* number of the first text, which its draws use */
    const char *const *stops;
    int stop_count;
    /* Called with new bytes of a text; NULL: not called. Bytes that may begin a stop string come
     * later. */
    sl_err (*on_text)(void *ctx, int text, struct sl_str bytes);
    void *ctx;
};

struct sl_decode_text {
    struct sl_tokens tokens; /* prompt and drawn tokens */
    struct sl_text bytes;    /* text of the drawn tokens, without the stop string */
    int64_t drawn;
    int64_t first, past; /* window that the engine has read: its first token, and their number */
    size_t told;         /* number of bytes given to on_text */
    bool done, stopped;
};

struct sl_decode_writer {
    struct sl_decode_writing how;
    struct sl_decode_sizes sizes;
    int count, open; /* number of texts; number of those that are not done */
    struct sl_decode_text *texts;
    int32_t *tokens, *past, *counts, *window;
    float *logits;
};

/* SL_ERR_USAGE: a prompt is empty. Close the writer even after an error. */
SL_MUST_CHECK sl_err sl_decode_writer_open(const struct sl_decode_writing *how,
                                           const char *const *prompts, int count,
                                           struct sl_decode_writer *out);
void sl_decode_writer_close(struct sl_decode_writer *writer);
/* From now on only the first `count` texts are written. */
void sl_decode_writer_limit(struct sl_decode_writer *writer, int count);
/* Draws at most one token for each text. */
SL_MUST_CHECK sl_err sl_decode_writer_step(struct sl_decode_writer *writer);

#endif
