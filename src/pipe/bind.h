/* Binding workers to cores: the places (device/bind.h) that the workers of this rank use.
 *
 * Ranks of one host that may use the same places divide them in rank order. If a launcher has bound
 * ranks to different places, each rank uses its own. */
#ifndef SL_PIPE_BIND_H
#define SL_PIPE_BIND_H

#include "comm/comm.h"

enum sl_bind_mode {
    SL_BIND_NONE,
    /* like CORES if there are enough places and the job uses at least half of them, else like
     * NONE */
    SL_BIND_AUTO,
    SL_BIND_CORES, /* bind, or fail */
};

/* Chooses the places of this rank; all ranks call it. The rank has `workers` workers of `threads`
 * threads each. `*first` becomes the place of the first thread, or -1: do not bind. */
SL_MUST_CHECK sl_err sl_pipe_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers,
                                         int threads, int *first);

/* What one rank reports so that ranks with the same host and places can divide them: hashes of
 * both, its number of workers and its CPUs. */
struct sl_bind_rank {
    uint64_t host, places; /* hashes of the host name and of the places */
    int64_t workers;
    int64_t have, online; /* have: CPUs that it may use, 0: unknown; online: CPUs of its host */
};
void sl_pipe_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                        int64_t *all);
/* Returns the first rank whose CPUs are too few: its threads, with those of the ranks that share
 * its places, exceed them while its host has more. Returns -1 if there is none. */
int sl_pipe_bind_find_crowded(const struct sl_bind_rank *ranks, int count, int threads);

#endif
