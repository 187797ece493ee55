/* Binding workers to cores: the places (device/bind.h) that the workers of this rank use.
 *
 * Ranks of one host that may use the same places divide them in rank order. If a launcher has bound
 * ranks to different places, each rank uses its own. */
#ifndef SL_PIPE_BIND_H
#define SL_PIPE_BIND_H

#include "comm/comm.h"

enum sl_bind_mode {
    SL_BIND_NONE,
    SL_BIND_AUTO,  /* if there are enough places and the job uses at least half of them */
    SL_BIND_CORES, /* or fail */
};

/* All ranks call. `workers` of this rank have `threads` each; `*first` is the place of their first
 * thread, -1: not bound. */
SL_MUST_CHECK sl_err sl_pipe_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers,
                                         int threads, int *first);

/* The share of one rank among ranks with the same host and places: the index of its first worker,
 * and the number of all their workers. */
struct sl_bind_rank {
    uint64_t host, places; /* hashes */
    int64_t workers;
    int64_t have, online; /* CPUs: those it may use (0: not known), those of its host */
};
void sl_pipe_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                        int64_t *all);
/* The first rank whose threads, with those of ranks that share its places, exceed its CPUs while its
 * host has more; -1: none. */
int sl_pipe_bind_find_crowded(const struct sl_bind_rank *ranks, int count, int threads);

#endif
