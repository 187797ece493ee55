/* A timeline: start and end of every action on every worker. Filled by sim (predicted) and by run
 * (measured), drawn by report. The error of a prediction is the difference of two timelines. */
#ifndef SL_SCHED_TIMELINE_H
#define SL_SCHED_TIMELINE_H

#include "sched/sched.h"

struct sl_span {
    struct sl_action action;  /* resolved: as sl_sched_at gives it */
    int64_t start_ns, end_ns; /* from the start of the timeline; SEND, RECV: of the transfer, until
                                 it has left (SEND) or arrived (RECV) */
    int64_t live_bytes;       /* max of this worker while the action runs */
    int64_t since_ns;         /* REDUCE: when its sums began to be made, 0: with the action */
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

struct sl_moment {
    int lane;
    int64_t span; /* a SEND stands for its transfer */
};

/* The other end of a SEND or RECV, by name; false when the timeline has none. */
struct sl_matches; /* of a timeline */
struct sl_matches *sl_sched_matches_open(const struct sl_timeline *timeline);
bool sl_sched_matches_find(const struct sl_matches *matches, const struct sl_action *message,
                           struct sl_moment *send, struct sl_moment *recv);
void sl_sched_matches_close(struct sl_matches *matches);

#endif
