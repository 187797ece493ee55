/* Evaluation of all samples. */
#ifndef SL_USE_EVAL_H
#define SL_USE_EVAL_H

#include "job/work.h"

/* Loss and accuracy over the first `samples` samples of the validation split, or over all if there
 * are fewer. The number need not be a multiple of the micro-batch. */
struct sl_use_eval_report {
    struct sl_eval_report report;
    int64_t available; /* number of samples in the split */
};
SL_MUST_CHECK sl_err sl_use_eval(const struct sl_job *job, const char *run,
                                 const struct sl_job_host *host, int64_t samples,
                                 struct sl_use_eval_report *out);

#endif
