/* Concurrent workers of one process, for measuring: one thread each, bound as a run binds them. */
#ifndef SL_COMM_CROWD_H
#define SL_COMM_CROWD_H

#include "base/err.h"

#include <stdbool.h>

struct sl_crowd;

/* The place (device/bind.h) of the first thread of the first worker; -1: not bound. Threads are
 * bound, as in a run, if there are enough places and they use at least half of them. */
int sl_comm_crowd_place(int workers, int threads);

/* Calls act(ctx, crowd, worker) in a thread for each; the first error of any. */
SL_MUST_CHECK sl_err sl_comm_crowd_run(int workers, int threads,
                                       sl_err (*act)(void *ctx, struct sl_crowd *crowd, int worker),
                                       void *ctx);
/* Barrier. SL_ERR_REFUSED: a worker has failed. */
SL_MUST_CHECK sl_err sl_comm_crowd_meet(struct sl_crowd *crowd);
/* Nonblocking barrier, once per crowd: true when all workers have called it. `*told` is false before
 * the first call. */
SL_MUST_CHECK bool sl_comm_crowd_is_done(struct sl_crowd *crowd, bool *told);

#endif
