/* Answers questions about a query (planner.h) and about the rows of schedules (candidate.h). */
#include "search/planner.h"

#include "base/clock.h"

bool sl_search_query_timed_out(const struct sl_search_query *query) {
    return sl_clock_past(query->until_ns);
}

bool sl_search_query_takes(const struct sl_search_query *query, const struct sl_candidate *c) {
    const struct sl_schedule *row = sl_schedules_row_find(c->schedule);
    int workers = c->ranks ? c->ranks : c->stage_count;
    if (c->ranks && row && row->layout == SL_LAYOUT_CROSS && query->width && query->width % 2)
        return false;
    for (int s = 0; s < c->stage_count && query->width; s++)
        if (c->width[s] != query->width)
            return false;
    return !query->workers || workers == query->workers;
}

double sl_search_query_memory(const struct sl_search_query *query) {
    double scale = query->memory_scale > 0 ? query->memory_scale : 1;
    return query->cut_scale > 0 ? scale * query->cut_scale : scale;
}

const char *const *sl_search_query_schedules(const struct sl_search_query *query,
                                             const char *names[SL_QUERY_SCHEDULES]) {
    int rows, count = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    if (!query->schedule && query->schedules)
        return query->schedules;
    for (int i = 0; i < rows && !query->schedule; i++)
        if (registry[i]->searched == SL_SEARCHED_EQUAL) {
            SL_ASSERT(count < SL_QUERY_SCHEDULES - 1);
            names[count++] = registry[i]->name;
        }
    if (query->schedule)
        names[count++] = query->schedule;
    names[count] = NULL;
    return names;
}

bool sl_search_query_mixes_sizes(const struct sl_search_query *query) {
    const struct sl_schedule *row = query->schedule ? sl_schedules_row_find(query->schedule) : NULL;
    return query->problem->size_count > 1 &&
           (!query->schedule || (row && row->searched == SL_SEARCHED_MIXED));
}

bool sl_search_query_groups(const struct sl_search_query *query) {
    const struct sl_schedule *row = query->schedule ? sl_schedules_row_find(query->schedule) : NULL;
    return !query->schedule || (row && row->groups);
}

bool sl_search_schedule_splits(const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    return row && row->splits_backward;
}

bool sl_search_schedule_windowed(const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    return row && row->windowed;
}

const char *sl_search_mixed_schedule(void) {
    int rows, at = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    while (at < rows && registry[at]->searched != SL_SEARCHED_MIXED)
        at++;
    SL_ASSERT(at < rows);
    return registry[at]->name;
}
