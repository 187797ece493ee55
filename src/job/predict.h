/* Computes outputs of a model for given inputs, on one worker. */
#ifndef SL_JOB_PREDICT_H
#define SL_JOB_PREDICT_H

#include "job/work.h"

/* Weights on one worker that runs only forward passes: those of a run directory, or a copy of those
 * of an open run. */
struct sl_job_predictor {
    struct sl_job_eval eval; /* eval.work is only used with a run directory */
    struct sl_train *train;
};

/* Opens the newest checkpoint of a run (sl_job_eval_open). Close `out` even after an error. */
SL_MUST_CHECK sl_err sl_job_predictor_open(const struct sl_job *job, const char *run,
                                           const struct sl_job_host *host,
                                           struct sl_job_predictor *out);
/* Copies the weights of an open run, whose work must stay open. Every rank calls. */
SL_MUST_CHECK sl_err sl_job_predictor_copy(const struct sl_job_work *work,
                                           const struct sl_runner *runner,
                                           struct sl_job_predictor *out);
void sl_job_predictor_close(struct sl_job_predictor *predictor);

/* Returns output `index` of the model with its name; NULL: there is no such output. */
const struct sl_program_port *sl_job_predictor_output(const struct sl_job_predictor *predictor,
                                                      int index, const char **name);

/* Computes an output for `samples` samples. fill: writes the values of one input of one sample,
 * float or int32_t. out: [samples][values of a sample]. SL_ERR_REFUSED: the output has no value per
 * sample. */
struct sl_job_prediction {
    const struct sl_program_port *output;
    int64_t samples;
    sl_err (*fill)(void *ctx, int64_t sample, int input, void *dst);
    void *ctx;
    float *out;
};
SL_MUST_CHECK sl_err sl_job_predict(const struct sl_job_predictor *predictor,
                                    const struct sl_job_prediction *prediction);

#endif
