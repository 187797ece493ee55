/* The equal pipelines of a plan. If all stages have the same number of replicas, replica r of every
 * stage belongs to pipeline r. */
#ifndef SL_PLAN_PIPELINE_H
#define SL_PLAN_PIPELINE_H

#include "plan/plan.h"

/* Returns the number of equal pipelines; 1: the plan is one pipeline, or its stages differ in
 * width. */
int sl_plan_pipelines(const struct sl_plan *plan);
/* Makes the first pipeline, with its part of the batch and workers numbered from 0. */
SL_MUST_CHECK sl_err sl_plan_pipeline(struct sl_arena *arena, const struct sl_plan *plan,
                                      const struct sl_plan **out);

#endif
