/* The page of a run directory. */
#ifndef SL_JOB_RUN_PAGE_H
#define SL_JOB_RUN_PAGE_H

#include "base/text.h"

/* Appends a self-contained HTML page: losses, staleness, stages, memory and, if the run was
 * traced, measured and predicted timelines. `measure_kernels`: also runs the model's kernels on
 * this host. */
SL_MUST_CHECK sl_err sl_job_run_page(const char *run, bool measure_kernels, struct sl_text *out);

#endif
