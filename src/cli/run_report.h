/* The page of a run directory. */
#ifndef SL_CLI_RUN_REPORT_H
#define SL_CLI_RUN_REPORT_H

#include "base/opt.h"

/* args->positional[0] is the directory; a page goes to every -o. */
SL_MUST_CHECK sl_err sl_cli_run_report(const struct sl_args *args, struct sl_arena *arena);

#endif
