/* Passes that a worker has waited for: turn by turn around a ring, half of the workers computing at
 * any time, each waiting for the one before it as workers of a run wait. A turn is three passes, F
 * B F or B F B: the first has been waited for, the last has not and follows the same kind of pass,
 * so that the two can be compared whatever else the computer does in that minute.
 */
#ifndef SL_PROFILE_RELAY_H
#define SL_PROFILE_RELAY_H

#include "comm/gate.h"
#include "profile/body.h"

/* What the first pass of a turn took more than the last, where these are F and where they are B,
 * and how long the worker had waited for both. */
struct sl_relay_sample {
    int64_t f_ns, b_ns, waited_ns;
};

struct sl_relay {
    struct sl_gate gate;
    int workers, rounds;
    atomic_int *turns;               /* [worker] that are over */
    struct sl_relay_sample *samples; /* [worker][round] */
    int64_t *ended_ns;               /* [worker][turn] */
    int64_t *late_ns; /* [worker][turn] behind the end of what it waited for; -1: it did not wait */
};

/* No more than a few of the rounds, and none when there is nobody to wait for. */
void sl_profile_relay_open(struct sl_arena *arena, struct sl_relay *relay, int workers, int rounds);
void sl_profile_relay_close(struct sl_relay *relay);
/* A worker's part, in a thread of its own; all workers must come. */
SL_MUST_CHECK sl_err sl_profile_relay_run(struct sl_relay *relay, int worker, struct sl_body *body);

/* Medians of a worker's samples, added to *sum. */
void sl_profile_relay_add(const struct sl_relay *relay, int worker, struct sl_cold *sum);
/* The mean of `count` such; a pass that is no slower after a wait costs nothing more. */
struct sl_cold sl_profile_relay_mean(const struct sl_cold *sum, int count);
/* A hand-over to a worker that waits, from the end of one's work to the begin of the other's: the
 * mean without the longest ones, which are not in every step. 0: nobody has waited. Once. */
int64_t sl_profile_relay_late(struct sl_relay *relay);

#endif
