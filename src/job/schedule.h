/* A user's name for a schedule can be a row of the registry, a file, or a module:
 *
 *     1f1b            the registry (schedules/registry.c)
 *     mine.sched      passes or a lowered program (schedules/given.h)
 *     mine.csv        PyTorch's CSV, compute-level or with communication
 *     --schedule-module mine.so   the generator of a module (sluice/schedule.h) */
#ifndef SL_JOB_SCHEDULE_H
#define SL_JOB_SCHEDULE_H

#include "schedules/given.h"

/* Does the name end with .sched or .csv? */
bool sl_job_schedule_is_file(const char *schedule);
/* Opens a schedule. `module` NULL or "": none; else `schedule` must be its name, NULL or "". Rows
 * of files and modules are in the arena. */
SL_MUST_CHECK sl_err sl_job_schedule_open(struct sl_arena *arena, const char *schedule,
                                          const char *module, const struct sl_schedule **out);
/* Returns the row of the text of a .sched file. */
SL_MUST_CHECK sl_err sl_job_schedule_parse(struct sl_arena *arena, const char *file,
                                           const char *text, const struct sl_schedule **out);

#endif
