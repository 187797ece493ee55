/* Verification with progress reports, for schedules of millions of actions. */
#ifndef SL_SCHED_WATCH_H
#define SL_SCHED_WATCH_H

#include "sched/sched.h"

/* Called at intervals with the number of verified actions. */
struct sl_sched_watch {
    void (*tell)(void *ctx, int64_t done, int64_t all);
    void *ctx;
};

/* Like sl_sched_verify, with progress reports. watch NULL: no reports. */
SL_MUST_CHECK sl_err sl_sched_verify_watched(const struct sl_sched *sched,
                                             const struct sl_sched_watch *watch);

#endif
