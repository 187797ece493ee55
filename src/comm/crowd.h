/* Workers of one process side by side, for measuring: threads of their own, bound as a run would
 * bind them. */
#ifndef SL_COMM_CROWD_H
#define SL_COMM_CROWD_H

#include "base/err.h"

#include <stdbool.h>

struct sl_crowd;

/* The place (device/bind.h) of the first thread of the first worker; -1: they are not bound. As
 * runs do: when there are places enough, and half of them at least are taken. */
int sl_comm_crowd_place(int workers, int threads);

/* Calls act(ctx, crowd, worker) in a thread for each; the first error of any. */
SL_MUST_CHECK sl_err sl_comm_crowd_run(int workers, int threads,
                                       sl_err (*act)(void *ctx, struct sl_crowd *crowd, int worker),
                                       void *ctx);
/* Waits until all workers are here. SL_ERR_REFUSED: one of them has failed, and none will come. */
SL_MUST_CHECK sl_err sl_comm_crowd_meet(struct sl_crowd *crowd);
/* For work that fills the time until everybody has called this, once per crowd: true when all have.
 * `*told` is false before the first call. */
SL_MUST_CHECK bool sl_comm_crowd_is_done(struct sl_crowd *crowd, bool *told);

#endif
