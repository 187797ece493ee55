/* The record of a run: the lines of its log.jsonl as arrays.
 *
 * The keys of a line tell whether it is a step, an evaluation or a staleness measurement
 * (--log-staleness). Other lines are skipped, as is an incomplete last line of a killed run.
 * null is NAN: the value was not finite.
 */
#ifndef SL_REPORT_RECORD_H
#define SL_REPORT_RECORD_H

#include "base/text.h"

struct sl_record_step {
    int64_t step, samples;
    double loss, norm, lr, ms;
};

struct sl_record_eval {
    int64_t step;
    double loss, accuracy; /* accuracy NAN: not measured */
};

/* A staleness measurement: a pass of `stage` stood for version base + ahead = step, and started
 * from version `base`. */
struct sl_record_stale {
    int64_t step, base;
    int stage, ahead;
    bool backward;
    double predicted; /* RMSE of the predicted weights; NAN: no prediction */
    double stale;     /* RMSE of version `base` */
};

struct sl_record {
    const struct sl_record_step *steps;
    const struct sl_record_eval *evals;
    const struct sl_record_stale *stales;
    int64_t step_count, eval_count, stale_count;
};

SL_MUST_CHECK sl_err sl_report_record_read(struct sl_arena *arena, const char *file,
                                           const char *text, size_t length,
                                           const struct sl_record **out);

#endif
