/* What a run was said to take before it began, as RUN/forecast.json holds it. */
#ifndef SL_REPORT_FORECAST_H
#define SL_REPORT_FORECAST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

struct sl_forecast {
    const char *cost;  /* the table it comes from; NULL: there is no forecast */
    const char *costs; /* of every stage, as --costs takes them */
    const char *links; /* as --links takes them */
    const char *cold;  /* as --cold takes it; NULL: passes do not care whether they waited */
    int64_t step_ns;
    double bubble; /* idle share, mean over workers: 0..1 */
};

void sl_report_forecast_write(const struct sl_forecast *forecast, struct sl_text *out);
/* SL_ERR_INPUT. Whether the costs are those of a plan is seen by who plays them. */
SL_MUST_CHECK sl_err sl_report_forecast_read(struct sl_arena *arena, const char *file,
                                             const char *text, size_t length,
                                             const struct sl_forecast **out);

#endif
