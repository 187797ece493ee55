/* Forecasts of the plans of Sailor from their files. docs/sailor.md. */
#ifndef SL_JOB_SAILOR_H
#define SL_JOB_SAILOR_H

#include "base/err.h"
#include "base/text.h"

struct sl_job_sailor_request {
    const char *const *files; /* profiles, the plan, and others, in any order */
    int file_count;
    const char *model; /* NULL: by the number of layers */
    const char *to;    /* X.plan; X.GPU.cost is written for every kind of GPU. NULL: nothing */
    bool json;
};

/* Reads the files; a list of layers and a network that are not among them are looked for next to the
 * files and in the folder above. Simulates the plan and appends the forecast, next to the measured
 * step if the plan has one. */
SL_MUST_CHECK sl_err sl_job_sailor(const struct sl_job_sailor_request *request,
                                   struct sl_text *out);

#endif
