/* Emulation of a pipeline on one worker: the micro-batches run one after another through the whole
 * model, and each pass reads the weights that it would read in the pipeline. Losses, weights and
 * optimizer state have the bits of the pipeline of the same plan, schedule and policy.
 *
 *   open -> runner: { steps, evaluations, checkpoints } -> close
 *
 * There are no messages and no threads per stage. Memory: that of one worker; one
 * more weight slab for the forward passes, and one for the backward passes, if these read other
 * weights than the newest; and of each stage the versions that later micro-batches still read
 * (docs/design/0033). */
#ifndef SL_EMULATE_EMULATE_H
#define SL_EMULATE_EMULATE_H

#include "pipe/pipe.h"

struct sl_emulate;

/* Opens an emulation. It uses these fields of `config`: train, plan, stage_of, schedule, row,
 * slack, global_step. SL_ERR_REFUSED: there are ranks, several kinds of device, replicas, tensor
 * parallelism, stages with different micro-batch sizes, recomputation where forward and backward
 * passes read different weights, or measurements of a pipeline (trace, staleness, lend,
 * on_action). */
SL_MUST_CHECK sl_err sl_emulate_open(const struct sl_pipe_config *config, struct sl_emulate **out);
void sl_emulate_close(struct sl_emulate *emulate); /* NULL is allowed */

SL_MUST_CHECK sl_err sl_emulate_step(struct sl_emulate *emulate, struct sl_step_report *report);

/* runner.c: returns the runner for the training loop. Its checkpoints continue only in an
 * emulation. */
struct sl_runner sl_emulate_runner(struct sl_emulate *emulate);

/* Returns the worker, whose weight slab 0 is the newest. A tied parameter has a row for each stage
 * if its stages read different versions; the first of these rows is that of the model. */
const struct sl_worker *sl_emulate_worker(const struct sl_emulate *emulate);
/* Returns the device memory of the weights of earlier and later versions. */
int64_t sl_emulate_version_bytes(const struct sl_emulate *emulate);

#endif
