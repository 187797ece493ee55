/* A slow simulator that shares no code with src/sim: the oracle of its tests.
 *
 * Times are the solution of "starts when the last of these is over": all constraints are worked out
 * until nothing moves (longest paths), with transfers that have not been granted their wires at
 * infinity; then the transfer that is ready first is granted, and so on.
 */
#ifndef SL_TESTS_SLOW_SIM_H
#define SL_TESTS_SLOW_SIM_H

#include "sim/sim.h"

enum { SLOW_BYTES_MAX = 90 }; /* actions of a worker, beyond that peak_bytes is -1: too slow */

struct slow_action {
    struct sl_action a;
    int64_t start, end; /* INT64_MAX: never */
    int partner;        /* SEND, RECV: the transfer */
    int *waits, wait_count;
};

struct slow_worker {
    struct slow_action *at;
    int count;
    int64_t peak_bytes;
};

struct slow_sim {
    struct slow_worker *workers;
    int64_t end_ns;
};

void slow_sim_run(struct sl_arena *arena, const struct sl_sched *sched,
                  const struct sl_sim_opts *opts, struct slow_sim *out);

#endif
