/* Where the time of a micro-batch goes, kernel by kernel, on one worker. */
#ifndef SL_CLI_OP_TIMES_H
#define SL_CLI_OP_TIMES_H

#include "cli/run_options.h"
#include "report/run_pipeline.h"

/* Forward and backward of one micro-batch `rounds` times, after one that warms up; a row per
 * kernel, the most expensive first, in the arena. Options as SL_RUN_OPTIONS. */
SL_MUST_CHECK sl_err sl_cli_op_times(const struct sl_args *args, const char *model, int64_t rounds,
                                     struct sl_arena *arena, const struct sl_op_time **out,
                                     int *count);

#endif
