/* Collectives of the shards of a stage. Private to this directory. */
#ifndef SL_PIPE_SHARDS_H
#define SL_PIPE_SHARDS_H

#include "pipe/state.h"

/* Opens the groups of the shards of every stage and compares their programs with the plan. */
SL_MUST_CHECK sl_err sl_pipe_shards_open(struct sl_pipe *pipe);
void sl_pipe_shards_close(struct sl_pipe *pipe);
/* Runs a pass with its collectives. */
SL_MUST_CHECK sl_err sl_pipe_shards_pass(struct sl_pipe_worker *worker, struct sl_pipe_seat *seat,
                                         const struct sl_worker_pass *pass);
/* Adds the squared norms of the gradients of all shards of the seat's stage into worker->norms.
 * Does nothing if the stage has one shard. */
SL_MUST_CHECK sl_err sl_pipe_shards_norms(struct sl_pipe_worker *worker, struct sl_pipe_seat *seat);

#endif
