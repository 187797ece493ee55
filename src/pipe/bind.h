/* Binding workers to cores: which places (device/bind.h) the workers of this rank take.
 *
 * Ranks of one host that may use the same places share them out in the order of their ranks; a
 * launcher that has bound its ranks to different ones is obeyed. */
#ifndef SL_PIPE_BIND_H
#define SL_PIPE_BIND_H

#include "comm/comm.h"

enum sl_bind_mode {
    SL_BIND_NONE,
    SL_BIND_AUTO,  /* when there are places enough, and the job takes half of them at least */
    SL_BIND_CORES, /* or fail */
};

/* All ranks call. `workers` are those of this rank, `threads` of each; `*first` is the place of
 * their first thread, -1: they are not bound. */
SL_MUST_CHECK sl_err sl_pipe_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers,
                                         int threads, int *first);

/* The share of one rank: among ranks with the same host and places, where its workers begin, and
 * how many there are in all. */
struct sl_bind_rank {
    uint64_t host, places; /* hashes */
    int64_t workers;
    int64_t have, online; /* processors: that it may use (0: not known), of its computer */
};
void sl_pipe_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                        int64_t *all);
/* The first rank whose threads, with those of the ranks that share its places, are more than its
 * processors while its computer has others; -1: none. */
int sl_pipe_bind_find_crowded(const struct sl_bind_rank *ranks, int count, int threads);

#endif
