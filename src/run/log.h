/* The log of a run: log.jsonl, and the same scalars as TensorBoard events. */
#ifndef SL_RUN_LOG_H
#define SL_RUN_LOG_H

#include "run/runner.h"

#include <stdio.h>

struct sl_run_log {
    FILE *jsonl;
    FILE *events;
};

/* Opens RUN/log.jsonl and removes the lines after `step`, because a resumed run repeats these
 * steps. */
SL_MUST_CHECK sl_err sl_run_log_open(struct sl_run_log *log, const char *run, int64_t step);
SL_MUST_CHECK sl_err sl_run_log_step(struct sl_run_log *log, const struct sl_step_report *report);
SL_MUST_CHECK sl_err sl_run_log_eval(struct sl_run_log *log, const struct sl_eval_report *report);
SL_MUST_CHECK sl_err sl_run_log_staleness(struct sl_run_log *log, const struct sl_staleness *s);
void sl_run_log_close(struct sl_run_log *log);

/* events.c. open: opens TensorBoard's event file and removes points after `step` from the files of
 * earlier sessions. scalar: writes one point. */
SL_MUST_CHECK sl_err sl_run_events_open(const char *run, int64_t step, FILE **out);
SL_MUST_CHECK sl_err sl_run_events_scalar(FILE *events, int64_t step, const char *tag, float value);

#endif
