/* Reading and writing the lines of a plan inside a larger file (.sched). */
#ifndef SL_PLAN_TEXT_H
#define SL_PLAN_TEXT_H

#include "base/lex.h"
#include "plan/plan.h"

/* Reads lines until one does not start with a word of the plan format; then builds and checks the
 * plan. */
SL_MUST_CHECK sl_err sl_plan_read_lines(struct sl_arena *arena, struct sl_lex *lex,
                                        const struct sl_plan **out);
void sl_plan_write_lines(const struct sl_plan *plan, struct sl_text *out);

#endif
