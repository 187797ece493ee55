/* Binding workers to cores: each has as many of its own as it has threads.
 *
 * Ranks of one host that may use the same cores share them out in the order of their ranks; a
 * launcher that has bound its ranks to different cores is obeyed. */
#ifndef SL_RUN_BIND_H
#define SL_RUN_BIND_H

#include "comm/comm.h"

#include <sched.h>

enum sl_bind_mode {
    SL_BIND_NONE,
    SL_BIND_AUTO,  /* when there are cores enough, and the job takes half of them at least */
    SL_BIND_CORES, /* or fail */
};

struct sl_bind {
    cpu_set_t *workers; /* [workers of this rank] NULL: not bound */
    int count;
};

/* All ranks call. `workers` are those of this rank, `threads` of each. */
SL_MUST_CHECK sl_err sl_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers,
                                    int threads, struct sl_arena *arena, struct sl_bind *out);

/* The calling thread runs on the cores of a worker from now on, and so do threads that it starts;
 * what it could run on before goes to `before` (or NULL). Nothing when not bound. */
void sl_bind_enter(const struct sl_bind *bind, int worker, cpu_set_t *before);
void sl_bind_leave(const struct sl_bind *bind, const cpu_set_t *before);

/* The share of one rank: among ranks with the same host and cores, where its workers begin, and how
 * many there are in all. */
struct sl_bind_rank {
    uint64_t host, cores; /* hashes */
    int64_t workers;
};
void sl_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                   int64_t *all);

#endif
