/* Forecasts plans of Sailor from its files; see docs/sailor.md. */
#ifndef SL_JOB_SAILOR_H
#define SL_JOB_SAILOR_H

#include "base/err.h"
#include "base/text.h"

struct sl_job_sailor_request {
    const char *const *files; /* profiles, the plan and others, in any order */
    int file_count;
    const char *model; /* name of the model; NULL: find it by the number of layers */
    /* X.plan to write, with an X.GPU.cost for every kind of GPU; NULL: write nothing */
    const char *to;
    bool json;
};

/* Reads the files. A list of layers or a network that is not among them is looked for next to the
 * files and in the folder above. Simulates the plan and appends the forecast, with the measured
 * step if the plan has one. */
SL_MUST_CHECK sl_err sl_job_sailor(const struct sl_job_sailor_request *request,
                                   struct sl_text *out);

#endif
