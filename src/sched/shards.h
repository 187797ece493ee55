/* Schedules of expanded plans: each action of a stage is run by all of its shards. */
#ifndef SL_SCHED_SHARDS_H
#define SL_SCHED_SHARDS_H

#include "sched/sched.h"

/* The schedule of `plan`, of which `sched` schedules the folded plan (sl_plan_fold): every shard of a
 * worker gets its list. */
SL_MUST_CHECK sl_err sl_sched_expand(struct sl_arena *arena, const struct sl_sched *sched,
                                     const struct sl_plan *plan, const struct sl_sched **out);

/* Proves that all shards of a stage run the same actions in the same order, so that all meet in every
 * collective. If no shard waits in a cycle, none does with collectives: each waits for the same
 * action of the others. sl_sched_verify calls it. SL_ERR_REFUSED. */
SL_MUST_CHECK sl_err sl_sched_verify_shards(const struct sl_sched *sched);

#endif
