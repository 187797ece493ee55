/* Tensor-parallel shards and sharded optimizer state of a plan: their rules and derived fields. */
#ifndef SL_PLAN_SHARDS_H
#define SL_PLAN_SHARDS_H

#include "plan/plan.h"

/* Checks that degrees are in range, that the stages of a worker have equal degrees, and that only
 * stages with shards have collectives. A draft may have 0 for 1. The workers of stages must be in
 * range. */
SL_MUST_CHECK sl_err sl_plan_check_shards(const struct sl_plan *plan);
void sl_plan_derive_devices(struct sl_arena *arena, struct sl_plan *plan);

#endif
