/* A schedule from a module (sluice/schedule.h) as a row. */
#ifndef SL_SCHEDULES_MODULE_H
#define SL_SCHEDULES_MODULE_H

#include "schedules/schedule.h"

struct sl_schedule_module;

/* Makes a row from a module; `file` is its name in messages. SL_ERR_INPUT if the module was built
 * for another version, or lacks a field. */
SL_MUST_CHECK sl_err sl_schedules_module_row(struct sl_arena *arena, const char *file,
                                             const struct sl_schedule_module *module,
                                             const struct sl_schedule **out);

#endif
