/* graph-dp, pipedream-dp, piper-dp: the bottleneck search (cuts.h) in three search spaces.
 *
 *                  stages     where they cut           widths         recomputation
 *     graph-dp     a graph    branch after branch      powers of two  no
 *     pipedream-dp a chain    one topological order    any            no
 *     piper-dp     a chain    every downset            any            per stage
 *
 * For every micro-batch size each planner takes the plan with the smallest bottleneck, its own
 * objective; the simulation chooses among the sizes.
 * piper-dp refuses graphs with too many downsets, like the published program.
 *
 * These rows search the space of a published planner under Sluice's own costs. The authors' cost
 * models, for imported files, are in peers/; the importers are in interop/.
 */
#include "planners/parts.h"
#include "search/cuts.h"

struct rules {
    const char *name;
    bool sequential, doubling;
    enum sl_recompute recompute;
    int downsets; /* most downsets, for sl_search_downsets_build */
    bool whole;   /* refuses graphs with more downsets */
};

static const struct rules table[] = {
    {"graph-dp", false, true, SL_RECOMPUTE_NEVER, 512, false},
    {"pipedream-dp", true, false, SL_RECOMPUTE_NEVER, 0, false},
    {"piper-dp", true, false, SL_RECOMPUTE_MAY, 20000, true},
};

static void add_size(struct sl_search_pool *pool, const struct sl_search_downsets *downsets,
                     const struct rules *r, const char *schedule, int size) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct sl_cut_found found;
    struct sl_cut_rules rules = {.sequential = r->sequential,
                                 .doubling = r->doubling,
                                 .recompute = r->recompute,
                                 .schedule = schedule,
                                 .size = size,
                                 .devices = p->machine->device_count,
                                 .labels = 64,
                                 .best_only = true,
                                 .limit = pool->out->found ? pool->out->best.score.step_ns : 0,
                                 .memory_scale = sl_search_query_memory(pool->query),
                                 .tolerance = downsets->ideals.count > 256 ? 1e-3 : 0};
    sl_search_cuts_search(&arena, p, downsets, &rules, pool->query->until_ns, &found);
    pool->out->pairs += found.pairs;
    pool->out->out_of_budget |= found.dropped;
    if (found.at.count) /* the one with the smallest bottleneck */
        sl_search_pool_add(pool, &found.at.at[0], r->name);
    SL_VEC_FREE(&found.at);
    sl_arena_free(&arena);
}

static sl_err add(struct sl_search_pool *pool, const struct rules *r) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct sl_search_downsets downsets;
    const char *one[SL_QUERY_SCHEDULES];
    sl_search_downsets_build(&arena, p, r->downsets, &downsets);
    if (r->whole && !downsets.complete) {
        sl_arena_free(&arena);
        return sl_fail(SL_ERR_REFUSED, "%s: the graph has more than %d downsets", r->name,
                       r->downsets);
    }
    pool->out->complete = downsets.complete;
    for (const char *const *schedule = sl_search_query_schedules(pool->query, one); *schedule;
         schedule++)
        for (int size = 0; size < p->size_count && !sl_search_query_timed_out(pool->query); size++)
            if (!sl_search_pool_cannot_win(pool, *schedule, size))
                add_size(pool, &downsets, r, *schedule, size);
    sl_arena_free(&arena);
    return SL_OK;
}

void sl_planners_add_cuts(struct sl_search_pool *pool, void (*each)(struct sl_search_pool *pool)) {
    enum { LARGE = 256 }; /* number of units; with more, listing all downsets takes long */
    bool large = pool->query->problem->unit_count > LARGE;
    for (int i = 0; i < SL_COUNT(table) && !sl_search_query_timed_out(pool->query); i++) {
        if (table[i].whole && large)
            continue;
        sl_search_pool_progress(pool, table[i].name);
        sl_err err = add(pool, &table[i]);
        (void)err; /* an error means that this planner has no candidates */
        each(pool);
    }
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out, const struct rules *rules) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    sl_err err = add(&pool, rules);
    if (err == SL_OK)
        sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return err;
}

#define ROW(c_name, index)                                                                         \
    static sl_err run_##c_name(struct sl_arena *arena, const struct sl_search_query *query,        \
                               struct sl_search_result *out) {                                     \
        return run(arena, query, out, &table[index]);                                              \
    }                                                                                              \
    const struct sl_planner sl_planners_##c_name

ROW(graph_dp, 0) = {
    .name = "graph-dp",
    .brief = "stages along the branches of the graph, any cut",
    .run = run_graph_dp,
};
ROW(pipedream_dp, 1) = {
    .name = "pipedream-dp",
    .old_name = "pipedream",
    .brief = "contiguous parts of one topological order, with replicas (PipeDream)",
    .run = run_pipedream_dp,
};
ROW(piper_dp, 2) = {
    .name = "piper-dp",
    .old_name = "piper",
    .brief = "a chain of downsets with replicas and recomputation (Piper)",
    .run = run_piper_dp,
};
