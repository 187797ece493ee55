/* The table of planners, in alphabetical order. */
#include "search/planner.h"

#include <string.h>

extern const struct sl_planner sl_search_planner_2bw, sl_search_planner_brute,
    sl_search_planner_even, sl_search_planner_graphpipe, sl_search_planner_hetpipe,
    sl_search_planner_pipedream, sl_search_planner_piper, sl_search_planner_sluice;

const struct sl_planner *const sl_search_planners[] = {
    &sl_search_planner_2bw,       &sl_search_planner_brute,   &sl_search_planner_even,
    &sl_search_planner_graphpipe, &sl_search_planner_hetpipe, &sl_search_planner_pipedream,
    &sl_search_planner_piper,     &sl_search_planner_sluice,  NULL,
};

static const char *planner_name(const void *ctx, int i) {
    (void)ctx;
    return sl_search_planners[i]->name;
}

sl_err sl_search_planner_find(const char *name, const struct sl_planner **out) {
    int count = 0;
    for (; sl_search_planners[count]; count++)
        if (strcmp(sl_search_planners[count]->name, name) == 0) {
            *out = sl_search_planners[count];
            return SL_OK;
        }
    const char *near = sl_nearest(name, count, planner_name, NULL);
    return sl_fail(SL_ERR_USAGE, "plan: no planner '%s'%s%s%s", name,
                   near ? "; did you mean '" : "; see 'sluice list planners'", near ? near : "",
                   near ? "'?" : "");
}
