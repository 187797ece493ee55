/* The degree of tensor parallelism that a planning request leaves open. */
#ifndef SL_SIZING_DEGREE_H
#define SL_SIZING_DEGREE_H

#include "job/plan.h"

/* sl_job_plan with the best `tp` and `zero1`, if `tp` is open and the planner chooses it. Where the planner
 * would take minutes, a faster one replaces it. */
SL_MUST_CHECK sl_err sl_sizing_plan(struct sl_arena *arena,
                                    const struct sl_job_plan_request *request,
                                    struct sl_job_planned *out);

#endif
