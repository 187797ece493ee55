/* Schedules of expanded plans: all shards of a stage run each action of the stage. */
#ifndef SL_SCHED_SHARDS_H
#define SL_SCHED_SHARDS_H

#include "sched/sched.h"

/* Makes the schedule of `plan` from `sched`, which schedules the folded plan (sl_plan_fold). Every
 * shard of a worker gets the list of that worker. */
SL_MUST_CHECK sl_err sl_sched_expand(struct sl_arena *arena, const struct sl_sched *sched,
                                     const struct sl_plan *plan, const struct sl_sched **out);

/* Proves that all shards of a stage run the same actions in the same order, so that all meet in
 * every collective. If the schedule has no cycle of waits without collectives, it has none with
 * them: each shard waits only for the same action of the others. Returns SL_ERR_REFUSED if the
 * orders differ. sl_sched_verify calls it. */
SL_MUST_CHECK sl_err sl_sched_verify_shards(const struct sl_sched *sched);

#endif
