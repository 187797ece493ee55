/* The engine of generation: a model with caches, on one worker or as a chain of stages.
 *
 *   open -> { step: up to N tokens of each sequence -> scores after the last } ... -> close
 *
 * It computes the logits of the evaluation graph on the same tokens, bit for bit on the CPU, whatever
 * the batch, the chunks, the threads and the stages are (docs/design/0031-generation.md). Sequences
 * are independent: each has its own length, and starting over is past = 0.
 */
#ifndef SL_DECODE_ENGINE_H
#define SL_DECODE_ENGINE_H

#include "decode/chunk.h"
#include "device/device.h"

struct sl_decode_config {
    const struct sl_graph *graph; /* for evaluation; its parameters have stored values */
    const struct sl_device_row *device;
    int threads;   /* of each stage */
    int stages;    /* 1: one worker */
    int64_t batch; /* sequences */
    int64_t chunk; /* most tokens of a sequence in a step */
};

struct sl_decode_engine;

/* SL_ERR_REFUSED: the model mixes tokens, or the device has no kernel. Close `out` if SL_OK. */
SL_MUST_CHECK sl_err sl_decode_open(const struct sl_decode_config *config,
                                    struct sl_decode_engine **out);
void sl_decode_close(struct sl_decode_engine *gen);
struct sl_decode_sizes sl_decode_sizes(const struct sl_decode_engine *gen);
int64_t
sl_decode_bytes(const struct sl_decode_engine *gen); /* of weights, caches and activations */

/* Tokens of all sequences; row b of `tokens` has `length` entries, of which the first count[b] are
 * new tokens, at positions past[b] and up. count[b] 0: the sequence rests. Positions are below T. */
struct sl_decode_tokens {
    int64_t length; /* 1 to config.chunk */
    const int32_t *tokens, *past, *count;
    const int32_t *text; /* [batch][T] all tokens of the sequences with the new ones */
};
/* logits [batch][V]: after the last new token of each sequence. */
SL_MUST_CHECK sl_err sl_decode_step(struct sl_decode_engine *gen,
                                    const struct sl_decode_tokens *tokens, float *logits);

#endif
