/* A timeline: what happened when, on every worker. Filled by sim (predicted) and by run (measured),
 * drawn by report; the error of a prediction is a subtraction of two of these.
 */
#ifndef SL_SCHED_TIMELINE_H
#define SL_SCHED_TIMELINE_H

#include "sched/sched.h"

struct sl_span {
    struct sl_action action; /* resolved: as sl_sched_at gives it */
    int64_t start_ns, end_ns; /* from the start of the timeline; SEND, RECV: of the transfer */
    int64_t live_bytes;       /* of this worker, just after the action */
};

struct sl_lane {
    struct sl_span *at; /* in program order */
    int64_t count;
};

struct sl_timeline {
    const struct sl_sched *sched;
    struct sl_lane *lanes; /* [worker] */
    int lane_count;
    int64_t end_ns;
    bool measured; /* by a run; else predicted */
};

#endif
