/* Finds the row of a schedule by its name. */
#include "job/schedule.h"

#include "base/module.h"
#include "job/sim.h"
#include "schedules/module.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcasecmp(text + length - tail, end) == 0;
}

bool sl_job_schedule_is_file(const char *schedule) {
    return schedule && (ends_with(schedule, ".sched") || ends_with(schedule, ".csv"));
}

static sl_err open_module(struct sl_arena *arena, const char *schedule, const char *module,
                          const struct sl_schedule **out) {
    const void *symbol;
    /* an absolute path, because dlopen would search other names in the system's directories */
    char *path = realpath(module, NULL);
    if (!path)
        return sl_fail(SL_ERR_INPUT, "there is no schedule module %s", module);
    sl_err err = sl_module_load(path, "sluice_schedule", NULL, &symbol);
    free(path);
    if (err != SL_OK)
        return sl_err_context(SL_ERR_INPUT, "schedule module %s", module);
    SL_TRY(sl_schedules_module_row(arena, module, symbol, out));
    if (schedule && *schedule && strcmp(schedule, (*out)->name) != 0)
        return sl_fail(SL_ERR_USAGE, "`schedule`: the module %s has schedule '%s', not '%s'",
                       module, (*out)->name, schedule);
    return SL_OK;
}

sl_err sl_job_schedule_open(struct sl_arena *arena, const char *schedule, const char *module,
                            const struct sl_schedule **out) {
    struct sl_sched *file;
    if (module && *module)
        return open_module(arena, schedule, module, out);
    if (!sl_job_schedule_is_file(schedule))
        return sl_schedules_row_require(schedule, out);
    SL_TRY(sl_job_sched_read(arena, schedule, &file));
    return sl_schedules_given_row(arena, file, out);
}

sl_err sl_job_schedule_parse(struct sl_arena *arena, const char *file, const char *text,
                             const struct sl_schedule **out) {
    struct sl_sched *sched;
    SL_TRY(sl_sched_read(arena, file, text, strlen(text), &sched));
    return sl_schedules_given_row(arena, sched, out);
}
