/* hetpipe: every virtual worker has one device of each kind, and all run the same pipeline (Park
 * et al. 2020 (HetPipe), equal distribution). Its other policies cut every virtual worker
 * differently, which one plan cannot express. On machines of one kind a virtual worker is a
 * host. */
#include "planners/parts.h"
#include "search/cuts.h"

static int devices_of(const struct sl_machine *m, int kind) {
    int count = 0;
    for (int d = 0; d < m->device_count; d++)
        count += m->kind_of[d] == kind;
    return count;
}

/* Distributes devices to virtual workers: order[v * depth + i]. Returns the number of virtual
 * workers. */
static int deal(const struct sl_machine *m, int *order, int *depth) {
    int kinds = m->kind_count, least = m->device_count;
    if (kinds == 1) {
        *depth = m->hosts_in_all > 1 ? m->device_count / m->hosts_in_all : m->device_count;
        *depth = *depth > 0 ? *depth : 1;
        for (int d = 0; d < m->device_count; d++)
            order[d] = d;
        return m->device_count / *depth;
    }
    *depth = 0; /* number of kinds that have a device */
    for (int k = 0; k < kinds; k++) {
        int count = devices_of(m, k);
        *depth += count > 0;
        least = count && count < least ? count : least;
    }
    for (int k = 0, at = 0; k < kinds; k++) {
        for (int d = 0, v = 0; d < m->device_count && v < least; d++)
            if (m->kind_of[d] == k)
                order[v++ * *depth + at] = d;
        at += devices_of(m, k) > 0;
    }
    return least;
}

/* Plans one virtual worker with its share of the batch, then replicates every stage on all
 * others. */
static void add_size(struct sl_search_pool *pool, const struct sl_search_downsets *downsets,
                     const char *schedule, int size) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct sl_cut_found found;
    int depth, count = p->machine->device_count;
    int *order = SL_NEW(&arena, int, count), *sink_first = SL_NEW(&arena, int, count);
    int workers = deal(p->machine, order, &depth);
    workers = p->straight ? 1 : workers;
    if (p->batch / p->sizes[size] < workers)
        workers = 1;
    for (int i = 0; i < depth; i++)
        sink_first[i] = order[depth - 1 - i];
    struct sl_problem share = *p;
    share.batch = p->batch / workers;
    share.straight = true;
    struct sl_cut_rules rules = {.recompute = SL_RECOMPUTE_NEVER,
                                 .sequential = true,
                                 .schedule = schedule,
                                 .size = size,
                                 .devices = depth,
                                 .labels = 64,
                                 .best_only = true,
                                 .order = sink_first,
                                 .memory_scale = sl_search_query_memory(pool->query),
                                 .tolerance = 1e-3};
    if (share.batch >= p->sizes[size])
        sl_search_cuts_search(&arena, &share, downsets, &rules, pool->query->until_ns, &found);
    else
        found = (struct sl_cut_found){0};
    if (found.at.count) {
        struct sl_candidate c = found.at.at[0];
        int *width = SL_NEW(&arena, int, c.stage_count), *all = SL_NEW(&arena, int, count);
        int used = 0;
        for (int s = 0; s < c.stage_count; s++)
            width[s] = workers;
        for (int v = 0; v < workers; v++) /* replica v of all stages is virtual worker v */
            for (int s = 0; s < c.stage_count; s++)
                all[used++] = order[v * depth + (depth - c.stage_count) + s];
        c.width = width;
        c.order = all;
        c.across = true;
        sl_search_pool_add(pool, &c, "hetpipe");
    }
    SL_VEC_FREE(&found.at);
    sl_arena_free(&arena);
}

void sl_planners_add_hetpipe(struct sl_search_pool *pool) {
    struct sl_arena arena = {0};
    struct sl_search_downsets downsets;
    const char *one[SL_QUERY_SCHEDULES];
    sl_search_downsets_build(&arena, pool->query->problem, 0, &downsets);
    for (const char *const *s = sl_search_query_schedules(pool->query, one); *s; s++)
        for (int size = 0; size < pool->query->problem->size_count; size++)
            add_size(pool, &downsets, *s, size);
    sl_arena_free(&arena);
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    sl_planners_add_hetpipe(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_hetpipe = {
    .name = "hetpipe",
    .brief = "equal virtual workers of mixed devices (HetPipe, equal distribution)",
    .run = run,
};
