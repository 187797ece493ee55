/* The critical path of a timeline: the chain of actions and transfers that determines the length of
 * the run. Each starts when the previous one ends. In a measured timeline there are gaps between
 * them. */
#ifndef SL_REPORT_CRITICAL_H
#define SL_REPORT_CRITICAL_H

#include "sched/timeline.h"

struct sl_critical {
    const struct sl_moment *at;
    int64_t count;
    int64_t pass_ns, weight_ns, transfer_ns; /* F B I W RECOMPUTE; REDUCE STEP PREDICT; messages */
    int64_t gap_ns;                          /* end_ns minus all of these */
};
void sl_report_timeline_critical(struct sl_arena *arena, const struct sl_timeline *timeline,
                                 struct sl_critical *out);

#endif
