/* A schedule from a module (sluice/schedule.h) as a row. */
#ifndef SL_SCHEDULES_MODULE_H
#define SL_SCHEDULES_MODULE_H

#include "schedules/schedule.h"

struct sl_schedule_module;

/* `file` is for messages. SL_ERR_INPUT: the module is of another version, or lacks a field. */
SL_MUST_CHECK sl_err sl_schedules_module_row(struct sl_arena *arena, const char *file,
                                             const struct sl_schedule_module *module,
                                             const struct sl_schedule **out);

#endif
