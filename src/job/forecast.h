/* The forecast of a run: step time and idle share from a cost file (`sluice profile`), before the
 * run starts. RUN/forecast.json keeps it; the report of a run compares it with the measured times.
 */
#ifndef SL_JOB_FORECAST_H
#define SL_JOB_FORECAST_H

#include "report/forecast.h"
#include "sim/sim.h"

/* Simulates a schedule of the run with the times of the forecast. */
SL_MUST_CHECK sl_err sl_job_forecast_play(const struct sl_forecast *forecast,
                                          const struct sl_sched *sched, bool timeline,
                                          struct sl_arena *arena, const struct sl_sim **out);

#endif
