/* The page of a run: how it learned, and how stale its weights were. */
#ifndef SL_REPORT_CURVES_H
#define SL_REPORT_CURVES_H

#include "report/record.h"
#include "report/run_pipeline.h"

/* `facts` are pairs of name and value, put above the charts. */
struct sl_run_page {
    const char *title;
    const struct sl_record *record;
    const char *const (*facts)[2];
    int fact_count;
    const struct sl_run_pipeline *pipeline; /* NULL: one worker, or not known */
    const struct sl_op_time *ops;           /* most expensive first */
    int op_count;
};

/* Training and validation loss, gradient norm, learning rate; with --log-staleness two charts per
 * stage, forward and backward: RMSE of what was read and of the stale version against the true
 * weights. Then the pipeline (run_pipeline.h) and the time per op, where they are known. */
void sl_report_run_page_put(const struct sl_run_page *page, struct sl_text *out);

#endif
