/* Generates text from the newest weights of a run, or from a Hugging Face folder, with cached
 * keys. */
#ifndef SL_USE_GENERATE_H
#define SL_USE_GENERATE_H

#include "decode/writer.h"
#include "job/work.h"

/* Everything that a model needs to generate: its graph with weights, its tokenizer, its engine. */
struct sl_use_generator {
    struct sl_job job; /* job of the run, with the given fields */
    struct sl_graph *graph;
    struct sl_data *data; /* for a run without a tokenizer file */
    struct sl_tokenizer *own;
    const struct sl_tokenizer *tokenizer;
    struct sl_decode_engine *gen;
};

struct sl_use_generate {
    const char *from;              /* a run, or a Hugging Face folder */
    const char *const *model_dirs; /* search path of models by name; ends with NULL */
    int64_t stages, batch, chunk;
};

/* Opens a generator. `job`: fields that replace those of the run (device, threads, tokenizer, data,
 * sizes of a folder). SL_ERR_REFUSED: the model does not predict the next token, or cannot use
 * cached keys. Close `out` even after an error. */
SL_MUST_CHECK sl_err sl_use_generator_open(const struct sl_job *job,
                                           const struct sl_use_generate *how,
                                           struct sl_use_generator *out);
void sl_use_generator_close(struct sl_use_generator *generator);

#endif
