/* A schedule from a file as a row: its passes, for any plan with the same stages on the same workers
 * and for any number of iterations.
 *
 *     file     | prologue | period | period | epilogue |   k iterations outside the period
 *     n > k    the same, with n - k repetitions
 *     n <= k   the passes of its first n iterations, in the same order
 *
 * The first repetitions of an asynchronous period move into the prologue if they read other versions
 * than the later ones; k grows by their number.
 *
 * A synchronous file of one iteration is repeated. Lowering generates new messages and steps. */
#ifndef SL_SCHEDULES_GIVEN_H
#define SL_SCHEDULES_GIVEN_H

#include "schedules/schedule.h"

/* Makes a row with the passes of `file`, which may be lowered; its idle workers are dropped. The
 * row points to the plan and the name of `file`. SL_ERR_REFUSED if the last iteration is shorter
 * than the others. */
SL_MUST_CHECK sl_err sl_schedules_given_row(struct sl_arena *arena, const struct sl_sched *file,
                                            const struct sl_schedule **out);
/* Returns the passes of such a row; NULL for a row of the registry and for NULL. */
const struct sl_sched *sl_schedules_given_passes(const struct sl_schedule *row);
/* Lowers the passes of a file for its own plan. As in a run, the first repetitions of an asynchronous
 * period move into the prologue if they read other versions than the later ones. */
SL_MUST_CHECK sl_err sl_schedules_given_lower(struct sl_arena *arena, const struct sl_sched *passes,
                                              struct sl_sched **out);
/* Do the stages of the file have several micro-batch sizes? */
bool sl_schedules_given_has_sizes(const struct sl_sched *given);
/* Adds to the error of lowering which edge of the plan the file lacks: the file may have been
 * written for other stages. Returns `err`. */
sl_err sl_schedules_given_explain(const struct sl_schedule *row, const struct sl_plan *plan,
                                  sl_err err);
/* Returns the same passes as a schedule of `plan`, for a file (sl_sched_write). The row takes over
 * the plan. */
struct sl_sched sl_schedules_given_on(const struct sl_schedule *row, const struct sl_plan *plan);

#endif
