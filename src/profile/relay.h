/* Relay: measures how much slower a pass is after a wait.
 *
 * Workers form a ring and take turns; half of them compute at any time. Each waits for its
 * predecessor as workers of a run do. A turn is three passes, F B F or B F B. The first and the
 * last pass are of the same kind, but only the first follows a wait, so the two can be compared
 * under equal load. */
#ifndef SL_PROFILE_RELAY_H
#define SL_PROFILE_RELAY_H

#include "comm/gate.h"
#include "profile/body.h"

/* For F and for B: time of the first pass of a turn minus time of the last; and the time waited. */
struct sl_relay_sample {
    int64_t f_ns, b_ns, waited_ns;
};

struct sl_relay {
    struct sl_gate gate;
    int workers, rounds;
    atomic_int *turns;               /* [worker] number of completed turns */
    struct sl_relay_sample *samples; /* [worker][round] */
    int64_t *ended_ns;               /* [worker][turn] when it ended */
    /* [worker][turn] delay after the predecessor's end; -1: the worker did not wait */
    int64_t *late_ns;
};

/* open: at most sl_rounds_of(workers) rounds, and none with a single worker. */
void sl_profile_relay_open(struct sl_arena *arena, struct sl_relay *relay, int workers, int rounds);
void sl_profile_relay_close(struct sl_relay *relay);
/* The work of one worker, called in its thread. All workers must call it. */
SL_MUST_CHECK sl_err sl_profile_relay_run(struct sl_relay *relay, int worker, struct sl_body *body);

/* Adds the medians of a worker's samples to *sum. */
void sl_profile_relay_add(const struct sl_relay *relay, int worker, struct sl_cold *sum);
/* Returns the mean of `count` sums; negative extra times become 0. */
struct sl_cold sl_profile_relay_mean(const struct sl_cold *sum, int count);
/* Returns the mean delay from the end of one worker's turn to the start of the waiting worker's
 * turn. The longest delays are left out, because they do not occur in every step. 0: no worker
 * waited. Sorts its samples, so call it once. */
int64_t sl_profile_relay_late(struct sl_relay *relay);

#endif
