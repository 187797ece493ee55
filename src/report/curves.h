/* The page of a run: how it learned, and how stale its weights were. */
#ifndef SL_REPORT_CURVES_H
#define SL_REPORT_CURVES_H

#include "report/record.h"

/* `facts` are pairs of name and value, put above the charts. */
struct sl_run_page {
    const char *title;
    const struct sl_record *record;
    const char *const (*facts)[2];
    int fact_count;
};

/* Training and validation loss, gradient norm, learning rate; with --log-staleness two charts per
 * stage, forward and backward: RMSE of what was read and of the stale version against the true
 * weights. */
void sl_run_page_put(const struct sl_run_page *page, struct sl_text *out);

#endif
