/* Concurrent workers of one process, for measuring: one thread each, bound as a run binds them. */
#ifndef SL_COMM_CROWD_H
#define SL_COMM_CROWD_H

#include "base/err.h"

#include <stdbool.h>

struct sl_crowd;

/* Returns the place (device/bind.h) of the first thread of the first worker; -1: not bound. Threads
 * are bound as in a run: if there are enough places and the threads use at least half of them. */
int sl_comm_crowd_place(int workers, int threads);

/* Calls act(ctx, crowd, worker) in one thread per worker. Returns the first error of any. */
SL_MUST_CHECK sl_err sl_comm_crowd_run(int workers, int threads,
                                       sl_err (*act)(void *ctx, struct sl_crowd *crowd, int worker),
                                       void *ctx);
/* A barrier. SL_ERR_REFUSED: a worker has failed. */
SL_MUST_CHECK sl_err sl_comm_crowd_meet(struct sl_crowd *crowd);
/* A barrier that does not block and can be used once per crowd: returns true once all workers have
 * called it. `*told` must be false at the first call. */
SL_MUST_CHECK bool sl_comm_crowd_is_done(struct sl_crowd *crowd, bool *told);

#endif
