/* The table of planners, in alphabetical order. */
#include "planners/registry.h"

#include "base/log.h"

#include <string.h>

/* One line per planner, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_planners_2bw) \
    ROW(sl_planners_balanced) \
    ROW(sl_planners_brute) \
    ROW(sl_planners_dp) \
    ROW(sl_planners_even) \
    ROW(sl_planners_graph_dp) \
    ROW(sl_planners_graphpipe) \
    ROW(sl_planners_hetpipe) \
    ROW(sl_planners_model_parallel) \
    ROW(sl_planners_pipedream_dp) \
    ROW(sl_planners_piper_dp) \
    ROW(sl_planners_sluice) \
    ROW(sl_planners_tp)
/* clang-format on */

#define DECLARE(row) extern const struct sl_planner row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_planner *const sl_planners_rows[] = {ROWS(POINT) NULL};

static const char *planner_name(const void *ctx, int i) {
    (void)ctx;
    return sl_planners_rows[i]->name;
}

static const struct sl_planner *find(const char *name) {
    for (int i = 0; sl_planners_rows[i]; i++) {
        const struct sl_planner *row = sl_planners_rows[i];
        if (strcmp(row->name, name) == 0)
            return row;
        if (row->old_name && strcmp(row->old_name, name) == 0) {
            sl_log_note("planner '%s' is now called '%s'", name, row->name);
            return row;
        }
    }
    return NULL;
}

sl_err sl_planners_find(const char *name, const struct sl_planner **out) {
    int count = 0;
    while (sl_planners_rows[count])
        count++;
    *out = find(name);
    if (*out)
        return SL_OK;
    const char *nearest = sl_nearest(name, count, planner_name, NULL);
    return sl_fail(SL_ERR_USAGE, "plan: no planner '%s'%s%s%s", name,
                   nearest ? "; did you mean '" : "; see 'sluice list planners'",
                   nearest ? nearest : "", nearest ? "'?" : "");
}
