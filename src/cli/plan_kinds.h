/* The two things that `sluice plan` plans: models, and graphs of other planners. */
#ifndef SL_CLI_PLAN_KINDS_H
#define SL_CLI_PLAN_KINDS_H

#include "base/opt.h"

/* Of --time-limit: sl_clock_ns at which to stop, or 0. */
SL_MUST_CHECK sl_err sl_cli_plan_until(const struct sl_args *args, int64_t *until_ns);

SL_MUST_CHECK sl_err sl_cli_plan_imported(const struct sl_args *args);
SL_MUST_CHECK sl_err sl_cli_plan_model(const struct sl_args *args);

#endif
