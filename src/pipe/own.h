/* Divided optimizer state (zero1): every replica of a stage steps its own range of the weights and sends
 * it to the others. */
#ifndef SL_PIPE_OWN_H
#define SL_PIPE_OWN_H

#include "pipe/state.h"

/* Do the replicas of the stage divide their optimizer state? */
bool sl_pipe_own_divides(const struct sl_pipe *pipe, int stage);
/* Do replicas on different ranks? */
bool sl_pipe_own_spans(const struct sl_pipe *pipe);
/* Refuses policies that read the whole state. */
SL_MUST_CHECK sl_err sl_pipe_own_check(const struct sl_pipe_config *config,
                                       const struct sl_sched *sched);
/* All ranks, after the workers are open: groups, and the table of ranges of all seats. */
SL_MUST_CHECK sl_err sl_pipe_own_open(struct sl_pipe *pipe);
void sl_pipe_own_close(struct sl_pipe *pipe);
/* After an update of weight slab `version`: it then has the ranges of all replicas. */
SL_MUST_CHECK sl_err sl_pipe_own_gather(struct sl_pipe_worker *worker, struct sl_pipe_seat *seat,
                                        int version);

/* The elements of a parameter (of the graph) that a seat of any rank owns. */
struct sl_part sl_pipe_own_of(const struct sl_pipe *pipe, int seat, int param);

#endif
