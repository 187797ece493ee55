/* The engine of generation: a model with caches, on one worker or as a chain of stages.
 *
 *   open -> { step: up to N tokens of each sequence -> scores after the last } ... -> close
 *
 * It computes the logits of the evaluation graph on the same tokens. On the CPU they are
 * bit-identical for every batch, chunk size, number of threads and stages
 * (docs/design/0031-generation.md). Sequences are independent: each has its own length, and past
 * = 0 starts one again. */
#ifndef SL_DECODE_ENGINE_H
#define SL_DECODE_ENGINE_H

#include "decode/chunk.h"
#include "device/device.h"

struct sl_decode_config {
    const struct sl_graph *graph; /* evaluation graph whose parameters have stored values */
    const struct sl_device_row *device;
    int threads;   /* threads of each stage */
    int stages;    /* 1: one worker */
    int64_t batch; /* number of sequences */
    int64_t chunk; /* most tokens per sequence and step */
};

struct sl_decode_engine;

/* Opens an engine. SL_ERR_REFUSED: the model mixes tokens, or the device lacks a kernel. Close
 * `out` if SL_OK. */
SL_MUST_CHECK sl_err sl_decode_open(const struct sl_decode_config *config,
                                    struct sl_decode_engine **out);
void sl_decode_close(struct sl_decode_engine *gen);
struct sl_decode_sizes sl_decode_sizes(const struct sl_decode_engine *gen);
int64_t
sl_decode_bytes(const struct sl_decode_engine *gen); /* bytes of weights, caches and activations */

/* The tokens of a step. Row b of `tokens` has `length` entries, of which the first count[b] are new
 * tokens, at positions past[b] and up, all below T. count[b] 0: the sequence does not take part. */
struct sl_decode_tokens {
    int64_t length; /* 1 to config.chunk */
    const int32_t *tokens, *past, *count;
    const int32_t *text; /* [batch][T] all tokens of the sequences, with the new ones */
};
/* Runs a step. logits [batch][V]: the scores after the last new token of each sequence. */
SL_MUST_CHECK sl_err sl_decode_step(struct sl_decode_engine *gen,
                                    const struct sl_decode_tokens *tokens, float *logits);

#endif
