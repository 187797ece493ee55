/* Finds the degree of tensor parallelism if a planning request leaves it open. */
#ifndef SL_SIZING_DEGREE_H
#define SL_SIZING_DEGREE_H

#include "job/plan.h"

/* Like sl_job_plan, with the best `tp` and `zero1` if `tp` is open and the planner leaves the
 * choice. If the planner would take minutes, a faster one replaces it. */
SL_MUST_CHECK sl_err sl_sizing_plan(struct sl_arena *arena,
                                    const struct sl_job_plan_request *request,
                                    struct sl_job_planned *out);

#endif
