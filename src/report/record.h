/* What a run has written down: the lines of its log.jsonl as arrays.
 *
 * A line is a step, an evaluation or a watched weight (--log-staleness), told apart by its keys;
 * lines with other keys are left out. A torn last line, as a killed run leaves it, is left out too.
 * Numbers that were not finite are null in the file and NAN here.
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
    double loss, accuracy; /* accuracy NAN: none */
};

/* A pass of `stage` started from version `base` and stood for version base + ahead = step. */
struct sl_record_stale {
    int64_t step, base;
    int stage, ahead;
    bool backward;
    double predicted; /* distance of what it read; NAN: it did not predict */
    double stale;     /* distance of version `base` */
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
