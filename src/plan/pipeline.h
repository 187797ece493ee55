/* One of the equal pipelines of a plan: replica r of every stage is pipeline r, if all stages have as
 * many replicas. */
#ifndef SL_PLAN_PIPELINE_H
#define SL_PLAN_PIPELINE_H

#include "plan/plan.h"

/* How many there are; 1: the plan is one, or its stages differ. */
int sl_plan_pipelines(const struct sl_plan *plan);
/* The first of them, with its part of the batch and workers from 0. */
SL_MUST_CHECK sl_err sl_plan_pipeline(struct sl_arena *arena, const struct sl_plan *plan,
                                      const struct sl_plan **out);

#endif
