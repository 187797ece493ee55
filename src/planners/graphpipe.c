/* graphpipe: the paper's planner (graphpipe.h), first with every micro-batch size, as in the
 * paper's evaluation; then with separate sizes and k for every stage, if the schedule takes
 * them. The simulation chooses among the results.
 *
 * If the query names no schedule, it tries 1F1B, and kFkB on a graph of stages. */
#include "planners/graphpipe.h"
#include "base/log.h"
#include "planners/parts.h"
#include "search/bound.h"

#include <string.h>

enum {
    LABELS = 32, /* labels per place in a search with several configurations */
    SIZES = 4,   /* number of micro-batch sizes in such a search */
};

static const int groups[] = {1, 2, 4};

struct graphpipe {
    struct sl_search_pool *pool;
    struct sl_sp_tree tree;
    int64_t best_ns; /* bottleneck with the best micro-batch size */
    int best_size;   /* the best micro-batch size; -1: none fits */
};

/* Adds a solution with devices. The dynamic program only counts devices. Stages get them in order
 * of their numbers, the widest first: as widths are powers of two, the replicas of a stage then
 * share a host where possible. */
static void add_placed(struct sl_arena *arena, struct sl_search_pool *pool,
                       const struct sl_candidate *found) {
    struct sl_candidate c = *found;
    int at = 0, used = 0, *order = SL_NEW(arena, int, pool->query->problem->machine->device_count);
    sl_search_pool_add(pool, &c, "graphpipe");
    for (int w = pool->query->problem->machine->device_count; w > 0; w--) {
        used = 0;
        for (int s = 0; s < c.stage_count; used += c.width[s++])
            for (int r = 0; c.width[s] == w && r < w; r++)
                order[used + r] = at++;
    }
    c.order = order;
    sl_search_pool_add(pool, &c, "graphpipe");
}

/* Adds the best plan with these configurations. Returns its bottleneck, or INT64_MAX. */
static int64_t add_plan(struct graphpipe *g, const char *schedule,
                        const struct sl_planners_graphpipe_config *configs, int count) {
    struct sl_arena arena = {0};
    const struct sl_search_query *query = g->pool->query;
    struct sl_planners_graphpipe_found found;
    struct sl_planners_graphpipe_rules rules = {.schedule = schedule,
                                                .configs = configs,
                                                .config_count = count,
                                                .memory_scale = sl_search_query_memory(query),
                                                .tolerance =
                                                    query->problem->unit_count > 64 ? 1e-3 : 0,
                                                .labels = count > 1 ? LABELS : 0,
                                                .until_ns = query->until_ns};
    sl_planners_graphpipe_solve(&arena, query->problem, &g->tree, &rules, &found);
    g->pool->out->pairs += found.states;
    g->pool->out->out_of_budget |= found.dropped;
    if (found.found)
        add_placed(&arena, g->pool, &found.c);
    sl_arena_free(&arena);
    return found.found ? found.bottleneck : INT64_MAX;
}

/* Tries one size and one k for all stages. */
static void add_equal(struct graphpipe *g, const char *schedule, bool grouped) {
    const struct sl_problem *p = g->pool->query->problem;
    for (int size = 0; size < p->size_count && !sl_search_query_timed_out(g->pool->query); size++)
        for (int k = 0; k < (grouped ? SL_COUNT(groups) : 1); k++) {
            struct sl_planners_graphpipe_config config = {size, groups[k]};
            if (sl_search_pool_cannot_win(g->pool, schedule, size))
                continue;
            int64_t ns = add_plan(g, schedule, &config, 1);
            if (ns < g->best_ns) {
                g->best_ns = ns;
                g->best_size = size;
            }
        }
}

static bool has_whole_tensors(const struct sl_problem *p) {
    for (int t = 0; t < p->tensor_count; t++)
        if (p->tensors[t].whole)
            return true;
    return false;
}

/* Tries separate sizes and k for every stage, with the sizes next to the best common one. */
static void add_mixed(struct graphpipe *g, const char *schedule) {
    const struct sl_problem *p = g->pool->query->problem;
    struct sl_planners_graphpipe_config configs[SIZES * SL_COUNT(groups)];
    int count = 0, first = g->best_size - SIZES / 2;
    first = first + SIZES > p->size_count ? p->size_count - SIZES : first;
    first = first < 0 ? 0 : first;
    if (g->best_size < 0 || has_whole_tensors(p) || sl_search_query_timed_out(g->pool->query))
        return;
    for (int size = first; size < p->size_count && size < first + SIZES; size++)
        for (int k = 0; k < SL_COUNT(groups); k++)
            configs[count++] = (struct sl_planners_graphpipe_config){size, groups[k]};
    g->pool->out->out_of_budget |= p->size_count > SIZES;
    add_plan(g, schedule, configs, count);
}

static void add_schedule(struct graphpipe *g, const char *name) {
    const struct sl_schedule *row = sl_schedules_row_find(name);
    bool grouped = row && row->groups;
    add_equal(g, name, grouped);
    if (grouped && row->any_micro_size)
        add_mixed(g, name);
}

static void begin(struct graphpipe *g, struct sl_search_pool *pool, struct sl_arena *arena) {
    *g = (struct graphpipe){.pool = pool, .best_ns = INT64_MAX, .best_size = -1};
    sl_graph_sp_build(arena, &pool->query->problem->dag, &g->tree);
}

static void add_all(struct graphpipe *g) {
    const struct sl_search_query *query = g->pool->query;
    if (query->schedule) {
        add_schedule(g, query->schedule);
        return;
    }
    add_schedule(g, "1f1b");
    add_schedule(g, sl_search_mixed_schedule());
}

void sl_planners_add_graphpipe(struct sl_search_pool *pool) {
    struct sl_arena arena = {0};
    struct graphpipe g;
    begin(&g, pool, &arena);
    add_all(&g);
    sl_arena_free(&arena);
}

/* Notes that the graph was rewritten: like the paper, graph/series_parallel.h rewrites a graph that
 * is not series-parallel. */
static void say_rewritten(const struct graphpipe *g) {
    const struct sl_problem *p = g->pool->query->problem;
    const int *n = g->tree.example;
    if (!g->tree.added)
        return;
    sl_log_note("graphpipe: %s is not series-parallel: %s feeds %s, while %s feeds both %s and %s; "
                "planned with %lld more orders between its units, which only delay",
                p->model, p->units[n[0]].name, p->units[n[2]].name, p->units[n[1]].name,
                p->units[n[2]].name, p->units[n[3]].name, (long long)g->tree.added);
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    struct sl_arena scratch = {0};
    struct graphpipe g;
    begin(&g, &pool, &scratch);
    /* only in the first round of a search */
    if (!query->quiet && sl_search_query_memory(query) >= 1)
        say_rewritten(&g);
    add_all(&g);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    sl_arena_free(&scratch);
    return SL_OK;
}

const struct sl_planner sl_planners_graphpipe = {
    .name = "graphpipe",
    .brief = "series-parallel stage graphs, sizes and k per stage (GraphPipe)",
    .run = run,
};
