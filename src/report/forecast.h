/* A forecast: step time and memory of a run, predicted before it started (RUN/forecast.json). */
#ifndef SL_REPORT_FORECAST_H
#define SL_REPORT_FORECAST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

struct sl_forecast {
    const char *cost;  /* cost file that it was computed from; NULL: there is no forecast */
    const char *costs; /* costs of every stage, in the syntax of --costs */
    const char *links; /* in the syntax of --links */
    const char *cold;  /* in the syntax of --cold; NULL: waits cost no extra time */
    int64_t step_ns;
    int64_t low_ns, high_ns; /* 90 % of runs take a step in this interval; 0: unknown */
    double bubble;           /* idle share 0..1, mean over workers */
};

void sl_report_forecast_write(const struct sl_forecast *forecast, struct sl_text *out);
/* Reads a forecast; SL_ERR_INPUT if it is wrong. The simulation checks whether the costs fit its
 * plan. */
SL_MUST_CHECK sl_err sl_report_forecast_read(struct sl_arena *arena, const char *file,
                                             const char *text, size_t length,
                                             const struct sl_forecast **out);

#endif
