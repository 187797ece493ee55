/* Schedules of torch.distributed.pipelining as CSV: one row per rank, one action per cell.
 *
 *     compute-only   0F0,0F1,0B0,...                    stage, kind, micro-batch; empty = wait
 *     with comms     0UNSHARD,0F0,0SEND_F0,1RECV_B0,... and SEND_B RECV_F WAIT_SEND_F WAIT_SEND_B
 *                                                       RESHARD REDUCE_GRAD WAIT_REDUCE_GRAD
 *     either         (0F5;7B2)OVERLAP_F_B               read as its parts, one after the other
 *
 * B is the whole backward, I and W are its halves. Stages form a chain; each is on one rank. */
#ifndef SL_INTEROP_TORCH_CSV_H
#define SL_INTEROP_TORCH_CSV_H

#include "sched/sched.h"

/* Reads either dialect into a schedule of passes, one iteration, on a sketch of a chain. Sends
 * and receives are checked (each after or before its pass, paired, in the same order at both
 * ends of a channel) and then left to our own lowering. SL_ERR_INPUT with line and column, or
 * SL_ERR_REFUSED. */
SL_MUST_CHECK sl_err sl_interop_torch_csv_read(struct sl_arena *arena, const char *file,
                                               const char *text, size_t length,
                                               struct sl_sched **out);

/* Writes one iteration. `comms` needs a lowered schedule and writes the second dialect.
 * SL_ERR_REFUSED for features that torch lacks: graphs, replicas, asynchronous rules, micro-batch
 * sizes that differ. */
SL_MUST_CHECK sl_err sl_interop_torch_csv_write(const struct sl_sched *sched, bool comms,
                                                struct sl_text *out);

/* Will torch's runtime compute the right gradients for such a file? It keeps the losses in the
 * order of the last stage's forwards and uses the m-th for micro-batch m. False: *micro comes after
 * *after. */
bool sl_interop_torch_csv_pairs_losses(const struct sl_sched *sched, int32_t *micro,
                                       int32_t *after);
/* Warns if it will not. */
void sl_interop_torch_csv_warn(const struct sl_sched *sched);

#endif
