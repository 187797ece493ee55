/* What a run will take, told before it begins: `train --cost` writes RUN/forecast.json, `report`
 * plays it beside what was measured. */
#ifndef SL_CLI_FORECAST_H
#define SL_CLI_FORECAST_H

#include "base/opt.h"
#include "pipe/pipe.h"
#include "report/forecast.h"
#include "run/session.h"
#include "sim/sim.h"

/* From --cost X.cost, for the session's plan and schedule; without the option out->cost is NULL. */
SL_MUST_CHECK sl_err sl_cli_forecast_make(const struct sl_args *args,
                                          const struct sl_pipe_config *config,
                                          struct sl_arena *arena, struct sl_forecast *out);

/* Notes: what is expected; after the run, what came of it. Nothing where there is no forecast. */
void sl_cli_forecast_say(const struct sl_forecast *forecast);
void sl_cli_forecast_judge(const struct sl_forecast *forecast, double step_s, int64_t threads);

/* Its times, on a schedule of the run. */
SL_MUST_CHECK sl_err sl_cli_forecast_play(const struct sl_forecast *forecast,
                                          const struct sl_sched *sched, bool timeline,
                                          struct sl_arena *arena, const struct sl_sim **out);

#endif
