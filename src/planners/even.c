/* even: stages of nearly equal time in one topological order, one device each. */
#include "planners/parts.h"

#include <string.h>

/* Makes runs of at most `limit` ns, greedily; returns their number. */
static int runs(const struct sl_unit_time *t, const int *order, int count, int64_t limit,
                int *stage_of) {
    int64_t sum = 0;
    int stage = 0;
    for (int i = 0; i < count; i++) {
        const struct sl_unit_time *u = &t[order[i]];
        int64_t time = u->f + u->i + u->w;
        if (i && sum + time > limit) {
            stage++;
            sum = 0;
        }
        sum += time;
        stage_of[order[i]] = stage;
    }
    return stage + 1;
}

int sl_planners_even_cut(const struct sl_problem *p, const int *order, int size, int stages,
                         int *stage_of) {
    const struct sl_unit_time *t = sl_search_problem_times(p, size, 0);
    int64_t low = 0, high = 0;
    for (int u = 0; u < p->unit_count; u++)
        high += t[u].f + t[u].i + t[u].w;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (runs(t, order, p->unit_count, middle, stage_of) <= stages)
            high = middle;
        else
            low = middle;
    }
    return runs(t, order, p->unit_count, high, stage_of);
}

void sl_planners_add_even(struct sl_search_pool *pool) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    int devices = p->machine->device_count;
    int *order = SL_NEW(&arena, int, p->unit_count + 1);
    int *stage_of = SL_NEW(&arena, int, p->unit_count + 1);
    int *width = SL_NEW(&arena, int, devices + 1);
    bool *recompute = SL_NEW(&arena, bool, devices + 1);
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, order));
    for (int d = 0; d < devices; d++)
        width[d] = 1;
    for (const char *const *schedule = sl_search_query_schedules(pool->query, one); *schedule;
         schedule++)
        for (int size = 0; size < p->size_count; size++)
            for (int with = 0; with < 2; with++) {
                memset(recompute, with, sizeof *recompute * (size_t)devices);
                struct sl_candidate c = {
                    .stage_count = sl_planners_even_cut(p, order, size, devices, stage_of),
                    .stage_of = stage_of,
                    .width = width,
                    .recompute = recompute,
                    .size = size,
                    .schedule = *schedule};
                sl_search_pool_add(pool, &c, "even");
            }
    sl_arena_free(&arena);
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    sl_planners_add_even(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_even = {
    .name = "even",
    .brief = "one stage per device, nearly equal times in graph order",
    .plans_imported = true,
    .even_stages = true,
    .run = run,
};
