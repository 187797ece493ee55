/* A predictor: the weights of a run on one worker, to evaluate, predict and write text.
 *
 *     open: a run directory | a trainer -> { evaluate | run | write } ... -> close
 *
 * One thread at a time uses a predictor; any number of them run at once.
 */
#ifndef SLUICE_PREDICTOR_H
#define SLUICE_PREDICTOR_H

#include "sluice/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sl_predictor;

/* Reads the newest checkpoint of a run directory. `settings` (may be NULL) has keys and values in
 * turn, then NULL; they replace those of the run ("data", "device", "threads", "dtype", ...).
 * `samples` (may be NULL) is data for evaluate and must live until close. */
SL_API sl_err sl_predictor_open(const char *run, const char *const *settings,
                                const struct sl_samples *samples, struct sl_predictor **out);
/* Copies the current weights of an open trainer, which must stay open as long as the predictor. All
 * ranks must call it, and every rank gets a predictor. */
SL_API sl_err sl_trainer_predictor(struct sl_trainer *trainer, struct sl_predictor **out);
SL_API void sl_predictor_close(struct sl_predictor *predictor); /* NULL is allowed */

/* Computes loss and accuracy over `samples` validation samples, as 'sluice eval'; 0 means 1024. */
SL_API sl_err sl_predictor_evaluate(struct sl_predictor *predictor, int64_t samples,
                                    struct sl_evaluation *out);

/* Describes output `index`, with the shape of one sample (dim[0] is 1). SL_ERR_USAGE: none left. */
SL_API sl_err sl_predictor_output(struct sl_predictor *predictor, int index, struct sl_tensor *out);
/* Computes an output for the samples of `inputs` (all that it needs, with equally many
 * samples). Writes the values of sample 0, then 1 and so on; `count` is the length of `values`. */
SL_API sl_err sl_predictor_run(struct sl_predictor *predictor, const struct sl_sample_array *inputs,
                               int input_count, const char *output, float *values, int64_t count);

/* How to write text. Set `size`; a field that is zero has the default of 'sluice sample'. */
struct sl_writing {
    size_t size;
    int64_t tokens;     /* default 200 */
    double temperature; /* default 0.8; < 0: always the most probable token */
    int64_t top;  /* draws from so many tokens with the highest scores; default 40; < 0: from all */
    int64_t seed; /* seed of the draws; default 1 */
};
/* Called for each token with its bytes. A result other than 0 ends the text. */
typedef int (*sl_on_text)(void *ctx, const char *bytes, size_t length);
/* Continues a prompt. SL_ERR_REFUSED: not a language model with a tokenizer. */
SL_API sl_err sl_predictor_write(struct sl_predictor *predictor, const char *prompt,
                                 const struct sl_writing *writing, sl_on_text callback, void *ctx);

#ifdef __cplusplus
}
#endif

#endif
