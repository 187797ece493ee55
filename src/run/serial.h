/* A serial run: the stages of a plan one after the other, in one thread. It is the reference for
 * pipelines that differ from one worker: those with replicas, with several micro-batch sizes, with a
 * schedule of another order, and asynchronous ones.
 *
 *   forward of all micro-batches, stage by stage -> backward, stages in reverse -> sums -> step
 *
 * There are no messages. It uses only the order of passes and steps of the schedule. An
 * asynchronous schedule also runs step by step: a pass reads its version (run/serial_order.h)
 * from a list of all versions that are still needed. The sums are the canonical ones
 * (docs/design/0001). A replica is a gradient buffer: micro-batch j of a stage adds to buffer j
 * mod width; buffers are added in order. All activations are kept until the step, so the whole
 * batch must fit into memory. */
#ifndef SL_RUN_SERIAL_H
#define SL_RUN_SERIAL_H

#include "plan/plan.h"
#include "run/train.h"
#include "sched/sched.h"

struct sl_serial;

/* Opens a serial run. `order`: micro-batches run and are added in the order of this schedule, which
 * is read only here; NULL: ascending. An asynchronous `order` needs one iteration per step.
 * SL_ERR_REFUSED: it is asynchronous with a policy, a dynamic loss scale or tensor parallelism. */
SL_MUST_CHECK sl_err sl_run_serial_open(const struct sl_train_config *config,
                                        const struct sl_plan *plan, const int *stage_of,
                                        const struct sl_sched *order, struct sl_serial **out);
void sl_run_serial_close(struct sl_serial *serial); /* serial may be NULL */
/* Runs one optimizer step of the whole model. */
SL_MUST_CHECK sl_err sl_run_serial_step(struct sl_serial *serial, struct sl_step_report *report);
/* Returns the slab of the newest weights. */
int sl_run_serial_newest(const struct sl_serial *serial);
const struct sl_worker *sl_run_serial_worker(const struct sl_serial *serial, int stage);

#endif
