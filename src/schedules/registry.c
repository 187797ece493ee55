/* The table of schedules, and the generation of passes from a row. */
#include "schedules/gen.h"

#include <stdlib.h>
#include <string.h>

/* One line per schedule, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_schedules_row_1f1b) \
    ROW(sl_schedules_row_2bw) \
    ROW(sl_schedules_row_async) \
    ROW(sl_schedules_row_chimera) \
    ROW(sl_schedules_row_dualpipe_v) \
    ROW(sl_schedules_row_forward) \
    ROW(sl_schedules_row_gpipe) \
    ROW(sl_schedules_row_graph) \
    ROW(sl_schedules_row_interleaved) \
    ROW(sl_schedules_row_kfkb) \
    ROW(sl_schedules_row_paci) \
    ROW(sl_schedules_row_serial) \
    ROW(sl_schedules_row_stash) \
    ROW(sl_schedules_row_vsync) \
    ROW(sl_schedules_row_zb_graph) \
    ROW(sl_schedules_row_zb_h1) \
    ROW(sl_schedules_row_zb_h2) \
    ROW(sl_schedules_row_zb_v)
/* clang-format on */

#define DECLARE(row) extern const struct sl_schedule row;
ROWS(DECLARE)
#define POINT(row) &(row),
static const struct sl_schedule *const rows[] = {ROWS(POINT)};

const struct sl_schedule *const *sl_schedules_row_registry(int *count) {
    *count = SL_COUNT(rows);
    return rows;
}

const struct sl_schedule *sl_schedules_row_find(const char *name) {
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return rows[i]->name;
}

sl_err sl_schedules_row_require(const char *name, const struct sl_schedule **out) {
    *out = sl_schedules_row_find(name ? name : "");
    if (*out)
        return SL_OK;
    const char *near = name ? sl_nearest(name, SL_COUNT(rows), row_name, NULL) : NULL;
    return sl_fail(SL_ERR_USAGE, "unknown schedule '%s'%s%s%s", name ? name : "",
                   near ? "; did you mean '" : "; see 'sluice list schedules'", near ? near : "",
                   near ? "'?" : "");
}

/* With two versions a stage cannot begin iteration t before step t-1. If more micro-batches are in
 * flight than an iteration has, the stage stalls until the pipeline has drained. */
bool sl_schedules_row_is_crowded(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int i = 0; i < plan->seat_count && sched->rule == SL_RULE_2BW; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        if (sched->pools[i][SL_POOL_STASH].count >
            sl_sched_deps_share(sched->micros[seat->stage], plan->stages[seat->stage].width,
                                seat->replica))
            return true;
    }
    return false;
}

int64_t sl_schedules_row_slack(const struct sl_plan *plan, const struct sl_schedule_opts *opts) {
    const struct sl_schedule *row = opts->row ? opts->row : sl_schedules_row_find(opts->schedule);
    struct sl_arena scratch = {0};
    struct sl_schedule_opts more = *opts;
    const struct sl_sched *sched;
    if (!row || !row->slack)
        return 0;
    more.slack = row->slack;
    bool takes = sl_schedules_build(&scratch, plan, &more, &sched) == SL_OK;
    takes = takes && !sl_schedules_row_is_crowded(sched);
    sl_arena_free(&scratch);
    return takes ? row->slack : 0;
}

/* A 2bw pass reads the version of a step one iteration later, so a step that waits for all stages
 * adds no delay. */
bool sl_schedules_row_is_global(const struct sl_schedule *row) {
    return row->rule == SL_RULE_SYNC || row->rule == SL_RULE_FORWARD || row->rule == SL_RULE_2BW;
}
