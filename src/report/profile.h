/* Tables of a profile: the time of each kernel of a micro-batch, and a cost table. */
#ifndef SL_REPORT_PROFILE_H
#define SL_REPORT_PROFILE_H

#include "cost/cost.h"
#include "report/run_pipeline.h"

/* Append the table as text, or as JSON. */
void sl_report_ops(const struct sl_report_op_time *rows, int count, struct sl_text *text);
void sl_report_ops_json(const struct sl_report_op_time *rows, int count, struct sl_text *text);
void sl_report_cost(const struct sl_cost *cost, struct sl_text *text);
void sl_report_cost_json(const struct sl_cost *cost, struct sl_text *text);

#endif
