/* A plan's stages one after the other, in one thread: the reference for pipelines whose sums are
 * not those of one worker, because stages have replicas or micro-batches of their own sizes.
 *
 * It obeys no schedule and sends no message: all forwards stage by stage, all backwards in reverse,
 * then the canonical sums (docs/design/0001). A replica is a gradient buffer: micro-batch j of a
 * stage adds to buffer j mod width, and buffers are added in order. Everything is kept until the
 * step, so it needs the memory of the whole batch.
 */
#ifndef SL_RUN_SERIAL_H
#define SL_RUN_SERIAL_H

#include "plan/plan.h"
#include "run/train.h"

struct sl_serial;

SL_MUST_CHECK sl_err sl_run_serial_open(const struct sl_train_config *config,
                                        const struct sl_plan *plan, const int *stage_of,
                                        struct sl_serial **out);
void sl_run_serial_close(struct sl_serial *serial); /* NULL is fine */
/* One optimizer step of the whole model. */
SL_MUST_CHECK sl_err sl_run_serial_step(struct sl_serial *serial, struct sl_step_report *report);
const struct sl_worker *sl_run_serial_worker(const struct sl_serial *serial, int stage);

#endif
