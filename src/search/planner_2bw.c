/* 2bw: every width x depth with equal runs of units, micro-batch size and recomputation; all
 * stages have the same width (Narayanan et al. 2021 (PipeDream-2BW), sec. 4). */
#include "search/pool.h"

#include <string.h>

/* Runs of nearly equal time, like equal numbers of transformer blocks. Returns how many. */
static int cut(const struct sl_problem *p, const int *order, int size, int depth, int *stage_of) {
    const struct sl_unit_time *t = sl_search_problem_times(p, size, 0);
    double all = 0, sum = 0;
    int last = -1;
    for (int u = 0; u < p->unit_count; u++)
        all += (double)(t[u].f + t[u].i + t[u].w);
    for (int i = 0; i < p->unit_count; i++) {
        const struct sl_unit_time *u = &t[order[i]];
        double time = (double)(u->f + u->i + u->w);
        int stage = (int)((sum + time / 2) / all * depth);
        stage = stage >= depth ? depth - 1 : stage;
        stage = stage > last + 1 ? last + 1 : stage;
        last = stage > last ? stage : last;
        stage_of[order[i]] = last;
        sum += time;
    }
    return last + 1;
}

struct equal_stages {
    int *order, *stage_of, *width;
    bool *recompute;
};

static void add_equal(struct sl_search_pool *pool, struct equal_stages *s, struct sl_candidate c,
                      int width) {
    const struct sl_problem *p = pool->query->problem;
    int depth = c.stage_count;
    c.stage_count = cut(p, s->order, c.size, depth, s->stage_of);
    if (c.stage_count != depth)
        return;
    for (int i = 0; i < depth; i++)
        s->width[i] = width;
    for (int recompute = 0; recompute < 2; recompute++)
        for (int across = 0; across < (width > 1 && depth > 1 ? 2 : 1); across++) {
            memset(s->recompute, recompute, sizeof *s->recompute * (size_t)depth);
            c.across = across;
            sl_search_pool_add(pool, &c, "2bw");
        }
}

/* All depths for one schedule, size and width. */
static void add_depths(struct sl_search_pool *pool, struct equal_stages *s, struct sl_candidate c,
                       int width) {
    const struct sl_problem *p = pool->query->problem;
    int devices = p->machine->device_count;
    int max = devices / width < p->unit_count ? devices / width : p->unit_count;
    if (p->batch / p->sizes[c.size] < width)
        return;
    for (int depth = 1; depth <= max; depth++) {
        if (devices > 64 && ((width & (width - 1)) || (depth != max && (depth & (depth - 1)))))
            continue; /* large machines: powers of two, and all devices */
        c.stage_count = depth;
        add_equal(pool, s, c, width);
    }
}

void sl_search_add_2bw(struct sl_search_pool *pool) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    int devices = p->machine->device_count;
    struct equal_stages s = {SL_NEW(&arena, int, p->unit_count + 1),
                             SL_NEW(&arena, int, p->unit_count + 1),
                             SL_NEW(&arena, int, devices + 1), SL_NEW(&arena, bool, devices + 1)};
    struct sl_candidate c = {.stage_of = s.stage_of, .width = s.width, .recompute = s.recompute};
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, s.order));
    for (const char *const *row = sl_search_query_schedules(pool->query, one); *row; row++)
        for (c.size = 0; c.size < p->size_count; c.size++)
            for (int width = 1; width <= (p->straight ? 1 : devices); width++) {
                c.schedule = *row;
                add_depths(pool, &s, c, width);
            }
    sl_arena_free(&arena);
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    sl_search_add_2bw(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_search_planner_2bw = {
    .name = "2bw",
    .brief = "width x depth exhaustively, equal stages (PipeDream-2BW)",
    .run = run,
};
