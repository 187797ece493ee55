/* Measures the time of a micro-batch, kernel by kernel, on one worker. */
#ifndef SL_JOB_OP_TIMES_H
#define SL_JOB_OP_TIMES_H

#include "job/work.h"
#include "report/run_pipeline.h"

/* Runs forward and backward of one micro-batch `rounds` times after a warm-up. Returns one row per
 * kernel, in the arena, the slowest first. Refuses a pipeline. */
SL_MUST_CHECK sl_err sl_job_op_times(const struct sl_job *job, const struct sl_job_host *host,
                                     int64_t rounds, struct sl_arena *arena,
                                     const struct sl_report_op_time **out, int *count);

#endif
