/* Text from a trained language model, token by token. */
#ifndef SL_JOB_SAMPLE_H
#define SL_JOB_SAMPLE_H

#include "job/work.h"
#include "tokenizer/tokenizer.h"

struct sl_job_sample_options {
    double temperature; /* 0: always take the most probable token */
    int64_t top;        /* draw from this many tokens with the highest scores; 0: from all */
    double top_p; /* and from the fewest tokens whose probabilities reach this sum; 0: from all */
    int64_t seed; /* seed of the draws */
};

struct sl_job_sampler {
    struct sl_job_eval eval; /* empty if the caller opened the weights */
    struct sl_train *train;
    struct sl_job_sample_options options;
    const struct sl_program_port *tokens, *logits;
    const struct sl_tokenizer *tokenizer;
    int64_t context, vocab;
    int32_t *window; /* [context] tokens that the model sees */
    float *scores;   /* [context, vocab] */
    struct sl_tokens text;
    int64_t drawn; /* number of tokens drawn */
};

/* Opens a run (sl_job_eval_open) with `prompt` as the text so far. SL_ERR_REFUSED: it is not a
 * language model with a tokenizer. Close it even after an error. */
SL_MUST_CHECK sl_err sl_job_sampler_open(const struct sl_job *job, const char *run,
                                         const struct sl_job_sample_options *options,
                                         const char *prompt, struct sl_job_sampler *out);
/* The same with weights that the caller has opened. If a micro-batch has several samples, only the
 * first is used. */
SL_MUST_CHECK sl_err sl_job_sampler_open_on(struct sl_train *train,
                                            const struct sl_job_sample_options *options,
                                            const char *prompt, struct sl_job_sampler *out);
void sl_job_sampler_close(struct sl_job_sampler *sampler);
/* Draws the next token; *out becomes its bytes, valid until the sampler is closed. */
SL_MUST_CHECK sl_err sl_job_sampler_next(struct sl_job_sampler *sampler, struct sl_str *out);

#endif
