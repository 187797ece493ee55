/* balanced: pipelines of stages of nearly equal time in one topological order, all equally wide,
 * with as little recomputation as memory allows. Their simulations are folded (candidate.h), so
 * it can try many even on large machines. */
#include "planners/parts.h"
#include "search/bound.h"

#include <limits.h>

struct balanced {
    struct sl_search_pool *pool;
    int *order, *stage_of, *width;
    bool *recompute;
};

/* Adds the candidate with recomputation only where memory needs it. `always`: even if no stage
 * changes. */
static void add_less_recompute(struct sl_search_pool *pool, const struct sl_candidate *c,
                               bool always) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate less = *c;
    bool *recompute = SL_NEW(&arena, bool, c->stage_count);
    sl_search_candidate_expand(&arena, p, c, &detail);
    bool changed =
        sl_search_candidate_drop_recompute(&detail, sl_search_query_memory(pool->query), recompute);
    less.recompute = recompute;
    if (changed || always)
        sl_search_pool_add(pool, &less, "sluice");
    sl_arena_free(&arena);
}

void sl_planners_add_less_recompute(struct sl_search_pool *pool) {
    for (int64_t i = 0, count = pool->at.count; i < count; i++) {
        struct sl_candidate c = pool->at.at[i].c;
        for (int s = 0; s < c.stage_count; s++)
            if (c.recompute[s]) {
                add_less_recompute(pool, &c, false);
                break;
            }
    }
}

static void add_width(struct balanced *s, struct sl_candidate *c, int width) {
    for (int i = 0; i < c->stage_count; i++) {
        s->width[i] = width;
        s->recompute[i] = true;
    }
    for (int across = 0; across < (width > 1 && c->stage_count > 1 ? 2 : 1); across++) {
        c->across = across;
        add_less_recompute(s->pool, c, true);
    }
}

/* Tries three widths: all devices; the largest power of two; the largest divisor of the
 * micro-batches. */
static void add_depth(struct balanced *s, struct sl_candidate *c, int depth) {
    const struct sl_problem *p = s->pool->query->problem;
    int64_t micros = (p->batch + p->sizes[c->size] - 1) / p->sizes[c->size];
    int max = p->straight ? 1 : p->machine->device_count / depth, power = 1, even = 1;
    max = max > micros ? (int)micros : max;
    if (s->pool->query->width) {
        if (s->pool->query->width > max)
            return;
        max = power = even = s->pool->query->width;
    }
    c->stage_count = sl_planners_even_cut(p, s->order, c->size, depth, s->stage_of);
    while (2 * power <= max)
        power *= 2;
    for (int w = even; w <= max; w++)
        even = micros % w ? even : w;
    add_width(s, c, max);
    if (power != max)
        add_width(s, c, power);
    if (even != max && even != power)
        add_width(s, c, even);
}

/* Returns the time of the longest of `depth` stages. */
static int64_t longest(struct balanced *s, int size, int depth) {
    const struct sl_problem *p = s->pool->query->problem;
    const struct sl_unit_time *t = sl_search_problem_times(p, size, 0);
    int64_t sum = 0, max = 0;
    sl_planners_even_cut(p, s->order, size, depth, s->stage_of);
    for (int i = 0; i < p->unit_count; i++) {
        int u = s->order[i];
        sum = i && s->stage_of[u] != s->stage_of[s->order[i - 1]] ? 0 : sum;
        sum += t[u].f + t[u].i + t[u].w;
        max = sum > max ? sum : max;
    }
    return max;
}

/* Should this depth be tried? On a small machine every depth. On a large one 2^k, 3 * 2^k, and
 * depths that make the longest stage shorter: with 96 layers and a head, 97 stages beat 96. */
static bool tries_depth(struct balanced *s, int size, int depth, int64_t *shortest) {
    enum { SMALL = 16 };
    if (s->pool->query->workers)
        return depth == s->pool->query->workers;
    if (s->pool->query->problem->machine->device_count <= SMALL)
        return true;
    int odd = depth / (depth & -depth);
    int64_t max = longest(s, size, depth);
    bool shorter = max < *shortest - *shortest / 64;
    *shortest = shorter ? max : *shortest;
    return odd == 1 || odd == 3 || shorter;
}

/* Adds candidates of depth `low` to `high`. */
static void add_depths(struct sl_search_pool *pool, int low, int high) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    int devices = p->machine->device_count;
    struct balanced s = {pool, SL_NEW(&arena, int, p->unit_count + 1),
                         SL_NEW(&arena, int, p->unit_count + 1), SL_NEW(&arena, int, devices + 1),
                         SL_NEW(&arena, bool, devices + 1)};
    struct sl_candidate c = {.stage_of = s.stage_of, .width = s.width, .recompute = s.recompute};
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, s.order));
    for (const char *const *row = sl_search_query_schedules(pool->query, one); *row; row++)
        for (c.size = 0; c.size < p->size_count; c.size++) {
            int64_t shortest = INT64_MAX;
            c.schedule = *row;
            if (sl_search_pool_cannot_win(pool, *row, c.size))
                continue;
            for (int depth = 1; depth <= devices && depth <= p->unit_count; depth++)
                if (tries_depth(&s, c.size, depth, &shortest) && depth >= low && depth <= high)
                    add_depth(&s, &c, depth);
        }
    sl_arena_free(&arena);
}

void sl_planners_add_balanced(struct sl_search_pool *pool) { add_depths(pool, 1, INT_MAX); }

static void simulate(struct sl_search_pool *pool) { sl_search_pool_simulate(pool); }

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    if (query->schedule && sl_search_schedule_shares(query->schedule))
        sl_planners_add_virtual(&pool, simulate);
    /* Groups of depths, shallow ones first: each group has its own budget, and deep pipelines cost
     * more of it. Ends when a group has no better pipeline than the one before. */
    for (int low = 1, high = 8; low <= query->problem->machine->device_count;
         low = high + 1, high = high > INT_MAX / 4 ? INT_MAX : 4 * high) {
        int64_t before = out->found ? out->best.score.step_ns : INT64_MAX;
        add_depths(&pool, low, high);
        sl_search_pool_simulate(&pool);
        if (before < INT64_MAX && out->best.score.step_ns == before)
            break;
    }
    const char *one[SL_QUERY_SCHEDULES];
    out->lower_bound =
        sl_search_space_bound(query->problem, sl_search_query_schedules(query, one), false);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_balanced = {
    .name = "balanced",
    .brief = "balanced stages with equal numbers of replicas, for large machines",
    .shares_workers = true,
    .teams = SL_TEAMS_SEARCHED,
    .run = run,
};
