/* The baselines of the papers: dp, model-parallel and tp.
 *
 *     dp               one stage on all devices: each holds the whole model, and they sum their
 *                      gradients. The report adds other ways to sum (data_parallel.h).
 *     model-parallel   stages of nearly equal time and one micro-batch at a time (schedule
 *                      `serial`): inter-layer model parallelism without a pipeline
 *     tp               tensor parallelism over the devices of a host, pipelines of equal stages and
 *                      replicas across hosts (Narayanan et al. 2021) */
#include "planners/parts.h"

#include <string.h>

struct rows {
    struct sl_search_pool *pool;
    const char *planner;
    int *order, *stage_of, *width;
    bool *recompute;
};

static struct rows open_rows(struct sl_search_pool *pool, struct sl_arena *arena,
                             const char *planner) {
    const struct sl_problem *p = pool->query->problem;
    int devices = p->machine->device_count;
    struct rows rows = {.pool = pool,
                        .planner = planner,
                        .order = SL_NEW(arena, int, p->unit_count + 1),
                        .stage_of = SL_NEW(arena, int, p->unit_count + 1),
                        .width = SL_NEW(arena, int, devices + 1),
                        .recompute = SL_NEW(arena, bool, devices + 1)};
    SL_ASSERT(sl_graph_dag_order(arena, &p->dag, rows.order));
    return rows;
}

/* Adds stages of one width, with and without recomputation. */
static void add_both(struct rows *r, const char *schedule, int stages, int width, int size) {
    const struct sl_problem *p = r->pool->query->problem;
    struct sl_candidate c = {.stage_of = r->stage_of,
                             .width = r->width,
                             .recompute = r->recompute,
                             .size = size,
                             .schedule = schedule};
    c.stage_count = sl_planners_even_cut(p, r->order, size, stages, r->stage_of);
    for (int s = 0; s < c.stage_count; s++)
        r->width[s] = width;
    for (int with = 0; with < 2; with++) {
        memset(r->recompute, with, sizeof *r->recompute * (size_t)c.stage_count);
        if (sl_search_candidate_check(p, &c))
            sl_search_pool_add(r->pool, &c, r->planner);
    }
}

static bool is_synchronous(const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    return row && row->rule == SL_RULE_SYNC;
}

/* ---- dp ---- */

void sl_planners_add_dp(struct sl_search_pool *pool) {
    const struct sl_search_query *query = pool->query;
    const struct sl_problem *p = query->problem;
    struct sl_arena arena = {0};
    struct rows rows = open_rows(pool, &arena, "dp");
    const char *schedule = query->schedule ? query->schedule : "1f1b";
    for (int size = 0; size < p->size_count; size++) {
        int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
        int width = p->straight ? 1 : p->machine->device_count;
        if (micros >= width || size == 0) /* uses all devices, if the batch has work for them */
            add_both(&rows, schedule, 1, width > micros ? (int)micros : width, size);
    }
    sl_arena_free(&arena);
}

static sl_err run_dp(struct sl_arena *arena, const struct sl_search_query *query,
                     struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    if (query->schedule && !is_synchronous(query->schedule))
        return sl_fail(SL_ERR_REFUSED,
                       "dp: data parallelism is synchronous, and %s is not; choose a synchronous "
                       "schedule or none",
                       query->schedule);
    sl_planners_add_dp(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_dp = {
    .name = "dp",
    .brief = "a replica of the whole model on every device: data parallelism",
    .run = run_dp,
};

/* ---- model-parallel ---- */

static const char serial[] = "serial";

/* Tries every depth from 2 on; the remaining devices hold replicas. */
void sl_planners_add_model_parallel(struct sl_search_pool *pool) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct rows rows = open_rows(pool, &arena, "model-parallel");
    int devices = p->machine->device_count;
    int max = devices < p->unit_count ? devices : p->unit_count;
    for (int depth = max < 2 ? 1 : 2; depth <= max && !sl_search_query_timed_out(pool->query);
         depth++)
        for (int size = 0; size < p->size_count; size++) {
            int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
            int width = p->straight ? 1 : devices / depth;
            bool power = depth == max || !(depth & (depth - 1));
            if (devices <= 16 || power)
                add_both(&rows, serial, depth, width > micros ? (int)micros : width, size);
        }
    sl_arena_free(&arena);
}

static sl_err run_model_parallel(struct sl_arena *arena, const struct sl_search_query *query,
                                 struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    if (query->schedule && strcmp(query->schedule, serial) != 0)
        return sl_fail(SL_ERR_REFUSED,
                       "model-parallel: runs one micro-batch at a time (schedule serial), not %s; "
                       "leave out the schedule",
                       query->schedule);
    sl_planners_add_model_parallel(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_model_parallel = {
    .name = "model-parallel",
    .brief = "equal stages, one micro-batch at a time: layers spread without a pipeline",
    .run = run_model_parallel,
};

/* ---- tp ---- */

/* Adds the tp candidates. A device of the problem is a team, namely a host; all hosts are used. */
static void add_tp(struct sl_search_pool *pool) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct rows rows = open_rows(pool, &arena, "tp");
    int devices = p->machine->device_count;
    const char *schedule = pool->query->schedule ? pool->query->schedule : "1f1b";
    for (int depth = 1; depth <= devices && depth <= p->unit_count; depth++)
        for (int size = 0; size < p->size_count && devices % depth == 0; size++) {
            int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
            int width = p->straight ? 1 : devices / depth;
            add_both(&rows, schedule, depth, width > micros ? (int)micros : width, size);
        }
    sl_arena_free(&arena);
}

static sl_err run_tp(struct sl_arena *arena, const struct sl_search_query *query,
                     struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    add_tp(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_tp = {
    .name = "tp",
    .brief = "tensor parallelism inside of a host, equal pipelines across hosts",
    .teams = SL_TEAMS_HOST,
    .run = run_tp,
};
