/* The page of a run: losses, gradient norm, learning rate, staleness, pipeline, time per op. */
#ifndef SL_REPORT_CURVES_H
#define SL_REPORT_CURVES_H

#include "report/record.h"
#include "report/run_pipeline.h"

/* What the page shows. `facts` are pairs of name and value, printed above the charts. */
struct sl_report_run {
    const char *title;
    const struct sl_record *record;
    const char *const (*facts)[2];
    int fact_count;
    const struct sl_report_pipeline *pipeline; /* NULL: one worker, or unknown */
    const struct sl_report_op_time *ops;       /* sorted, the most expensive first */
    int op_count;
};

/* Appends the page. If the run logged staleness, two charts per stage (forward, backward) show the
 * RMSE of the weights read and of the stale version against the true weights. */
void sl_report_run_page_put(const struct sl_report_run *page, struct sl_text *out);

#endif
