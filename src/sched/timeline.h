/* A timeline: start and end of every action on every worker. sim fills it with predictions, pipe
 * with measurements; report draws it. The error of a prediction is the difference of two
 * timelines. */
#ifndef SL_SCHED_TIMELINE_H
#define SL_SCHED_TIMELINE_H

#include "sched/sched.h"

struct sl_span {
    struct sl_action action; /* the action with its numbers in this repetition (sl_sched_at) */
    /* from the start of the timeline. SEND, RECV: of the transfer, until it has left (SEND) or
     * arrived (RECV) */
    int64_t start_ns, end_ns;
    int64_t live_bytes; /* most memory that this worker uses while the action runs */
    int64_t since_ns;   /* REDUCE: when its sums began; 0: with the action */
};

struct sl_lane {
    struct sl_span *at; /* in the order of the worker's list */
    int64_t count;
};

struct sl_timeline {
    const struct sl_sched *sched;
    struct sl_lane *lanes; /* [worker] */
    int lane_count;
    int64_t end_ns;
    bool measured; /* true: measured by a run; false: predicted */
};

struct sl_moment {
    int lane;
    int64_t span; /* index of the span; the span of a SEND is its transfer */
};

/* Finds the other end of a SEND or RECV. Returns false if the timeline has none. */
struct sl_matches; /* index of the messages of one timeline */
struct sl_matches *sl_sched_matches_open(const struct sl_timeline *timeline);
bool sl_sched_matches_find(const struct sl_matches *matches, const struct sl_action *message,
                           struct sl_moment *send, struct sl_moment *recv);
void sl_sched_matches_close(struct sl_matches *matches);

#endif
