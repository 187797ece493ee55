/* Hill climbing from the best plan, as long as the simulated step gets shorter. The moves: a
 * unit goes to the next stage, recomputation is switched on or off, a stage gets one more
 * replica, two devices are exchanged, a stage gets another micro-batch size or k. */
#include "search/placements.h"
#include "search/pool.h"

struct climb {
    struct sl_search_pool *pool;
    const char *planner;
    struct sl_arena arena;
    int *stage_of, *width, *order; /* order: all devices, with those in use first */
    int *size_of, *group_of;
    bool *recompute;
    int64_t passes; /* number of passes that may still be simulated */
};

static bool try_move(struct climb *c, const struct sl_candidate *move) {
    struct sl_search_result *out = c->pool->out;
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate_score score;
    int64_t before = out->best.score.step_ns, bound;
    if (!sl_search_candidate_check(c->pool->query->problem, move))
        return false;
    sl_search_candidate_expand(&arena, c->pool->query->problem, move, &detail);
    bound = sl_search_candidate_bound(&detail);
    if (bound < before)
        c->passes -= sl_search_candidate_folded_passes(&detail);
    sl_arena_free(&arena);
    if (bound < before && c->passes <= 0)
        c->pool->out->out_of_budget = true;
    if (bound >= before || c->passes <= 0)
        return false;
    sl_search_pool_progress(c->pool, "hill climbing");
    sl_search_pool_try(c->pool, move, c->planner, &score);
    return out->best.score.step_ns < before;
}

/* May unit u move to stage `to`? Every tensor must still go forward afterwards. */
static bool may_move(const struct sl_problem *p, const int *stage_of, int u, int to) {
    for (int e = p->dag.in_at[u]; e < p->dag.in_at[u + 1]; e++)
        if (stage_of[p->dag.in[e]] > to)
            return false;
    for (int e = p->dag.out_at[u]; e < p->dag.out_at[u + 1]; e++)
        if (stage_of[p->dag.out[e]] < to)
            return false;
    return true;
}

static bool move_units(struct climb *c, struct sl_candidate *move) {
    const struct sl_problem *p = c->pool->query->problem;
    int *count = SL_NEW(&c->arena, int, move->stage_count);
    for (int u = 0; u < p->unit_count; u++)
        count[c->stage_of[u]]++;
    for (int u = 0; u < p->unit_count && !sl_search_query_timed_out(c->pool->query); u++)
        for (int step = -1; step <= 1; step += 2) {
            int from = c->stage_of[u], to = from + step;
            if (to < 0 || to >= move->stage_count || count[from] < 2 ||
                !may_move(p, c->stage_of, u, to))
                continue;
            c->stage_of[u] = to;
            if (try_move(c, move))
                return true;
            c->stage_of[u] = from;
        }
    return false;
}

static bool change_stages(struct climb *c, struct sl_candidate *move) {
    const struct sl_problem *p = c->pool->query->problem;
    int used = sl_search_candidate_devices(move);
    for (int s = 0; s < move->stage_count && !sl_search_query_timed_out(c->pool->query); s++) {
        c->recompute[s] ^= true;
        if (try_move(c, move))
            return true;
        c->recompute[s] ^= true;
        if (used >= p->machine->device_count || p->straight || move->ranks)
            continue;
        c->width[s]++;
        if (try_move(c, move))
            return true;
        c->width[s]--;
    }
    return false;
}

/* Tries larger and smaller micro-batches on one stage, if a row gives the same schedule for mixed
 * sizes. */
static bool change_sizes(struct climb *c, struct sl_candidate *move) {
    const struct sl_search_query *query = c->pool->query;
    struct sl_candidate own = *move;
    const struct sl_schedule *row = sl_schedules_row_find(move->schedule);
    if (!sl_search_query_mixes_sizes(query) || !row || !row->mixed)
        return false;
    own.schedule = row->mixed->name;
    own.size_of = c->size_of;
    for (int s = 0; s < move->stage_count && !sl_search_query_timed_out(query); s++)
        for (int step = -1; step <= 1; step += 2) {
            int old = c->size_of[s], now = old + step;
            if (now < 0 || now >= query->problem->size_count)
                continue;
            c->size_of[s] = now;
            own.size = now;
            for (int i = 0; i < move->stage_count; i++)
                own.size = c->size_of[i] < own.size ? c->size_of[i] : own.size;
            if (try_move(c, &own))
                return true;
            c->size_of[s] = old;
        }
    return false;
}

/* Tries a larger and a smaller k on one stage, if the schedule has groups or there is a row with
 * them. */
static bool change_groups(struct climb *c, struct sl_candidate *move) {
    enum { GROUP_MAX = 8 };
    const struct sl_search_query *query = c->pool->query;
    const struct sl_schedule *row = sl_schedules_row_find(move->schedule);
    struct sl_candidate own = *move;
    if (row && !row->groups)
        row = row->mixed;
    if (!row || !row->groups || !sl_search_query_groups(query))
        return false;
    own.schedule = row->name;
    own.group_of = c->group_of;
    for (int s = 0; s < move->stage_count && !sl_search_query_timed_out(query); s++)
        for (int up = 0; up < 2; up++) {
            int old = c->group_of[s], now = up ? 2 * old : old / 2;
            if (now < 1 || now > GROUP_MAX)
                continue;
            c->group_of[s] = now;
            if (try_move(c, &own))
                return true;
            c->group_of[s] = old;
        }
    return false;
}

/* Tries to exchange two devices that differ. */
static bool change_devices(struct climb *c, struct sl_candidate *move) {
    enum { DEVICES_MAX = 64 };
    const struct sl_problem *p = c->pool->query->problem;
    int used = sl_search_candidate_devices(move), all = p->machine->device_count;
    for (int i = 0; i < used && all <= DEVICES_MAX; i++)
        for (int j = i + 1; j < all && !sl_search_query_timed_out(c->pool->query); j++) {
            int a = c->order[i], b = c->order[j];
            if (!sl_search_devices_differ(p, a, b))
                continue;
            c->order[i] = b;
            c->order[j] = a;
            if (try_move(c, move))
                return true;
            c->order[i] = a;
            c->order[j] = b;
        }
    return false;
}

/* Fills the order: the candidate's devices, then the others. */
static void fill_order(struct climb *c, const struct sl_candidate *from) {
    const struct sl_machine *m = c->pool->query->problem->machine;
    bool *taken = SL_NEW(&c->arena, bool, m->device_count);
    int used = sl_search_candidate_devices(from), at = 0;
    c->order = SL_NEW(&c->arena, int, m->device_count);
    for (int i = 0; i < used; i++) {
        c->order[at] = from->order ? from->order[i] : i;
        taken[c->order[at++]] = true;
    }
    for (int d = 0; d < m->device_count; d++)
        if (!taken[d])
            c->order[at++] = d;
}

void sl_search_hill_climb(struct sl_search_pool *pool, const char *planner) {
    enum { PASSES = 1 << 18 };
    const struct sl_problem *p = pool->query->problem;
    struct climb c = {.pool = pool, .planner = planner, .passes = PASSES};
    for (bool better = pool->out->found; better;) {
        struct sl_candidate move = pool->out->best.c;
        c.stage_of = sl_vec_freeze(&c.arena, move.stage_of, p->unit_count, sizeof(int));
        c.width = sl_vec_freeze(&c.arena, move.width, move.stage_count, sizeof(int));
        c.recompute = sl_vec_freeze(&c.arena, move.recompute, move.stage_count, sizeof(bool));
        move.stage_of = c.stage_of;
        move.width = c.width;
        move.recompute = c.recompute;
        c.size_of = SL_NEW(&c.arena, int, move.stage_count);
        c.group_of = SL_NEW(&c.arena, int, move.stage_count);
        for (int s = 0; s < move.stage_count; s++) {
            c.size_of[s] = sl_search_candidate_size(&move, s);
            c.group_of[s] = sl_search_candidate_group(&move, s);
        }
        fill_order(&c, &move);
        move.order = c.order;
        better = move_units(&c, &move);
        if (!better)
            better = change_stages(&c, &move);
        if (!better)
            better =
                change_devices(&c, &move) || change_sizes(&c, &move) || change_groups(&c, &move);
        better &= !sl_search_query_timed_out(pool->query);
    }
    sl_arena_free(&c.arena);
}
