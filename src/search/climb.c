/* A climb from the best plan by small moves: a unit to the next stage, recomputation, one replica
 * more, two devices in each other's place, other micro-batches on one stage; as long as the
 * simulated step gets shorter. */
#include "search/places.h"
#include "search/planner.h"

#include <string.h>

struct climb {
    struct sl_contest *contest;
    const char *planner;
    struct sl_arena arena;
    int *stage_of, *width, *order; /* order: all devices, those in use first */
    int *size_of;
    bool *recompute;
    int64_t passes; /* that may still be played */
};

static bool try_move(struct climb *c, const struct sl_candidate *move) {
    struct sl_result *out = c->contest->out;
    struct sl_arena arena = {0};
    struct sl_setup layout;
    struct sl_score score;
    int64_t before = out->best.score.step_ns, bound;
    if (!sl_search_candidate_check(c->contest->query->problem, move))
        return false;
    sl_search_setup_build(&arena, c->contest->query->problem, move, &layout);
    bound = sl_search_setup_bound(&layout);
    if (bound < before)
        c->passes -= sl_search_setup_passes(&layout);
    sl_arena_free(&arena);
    if (bound >= before || c->passes <= 0)
        return false;
    sl_search_contest_tell(c->contest, "climb");
    sl_search_contest_try(c->contest, move, c->planner, &score);
    return out->best.score.step_ns < before;
}

/* May unit u go to stage `to` without a tensor going backwards? */
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
    const struct sl_problem *p = c->contest->query->problem;
    int *count = SL_NEW(&c->arena, int, move->stage_count);
    for (int u = 0; u < p->unit_count; u++)
        count[c->stage_of[u]]++;
    for (int u = 0; u < p->unit_count && !sl_search_query_over(c->contest->query); u++)
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
    const struct sl_problem *p = c->contest->query->problem;
    int used = 0;
    for (int s = 0; s < move->stage_count; s++)
        used += c->width[s];
    for (int s = 0; s < move->stage_count && !sl_search_query_over(c->contest->query); s++) {
        c->recompute[s] ^= true;
        if (try_move(c, move))
            return true;
        c->recompute[s] ^= true;
        if (used >= p->machine->device_count || p->straight)
            continue;
        c->width[s]++;
        if (try_move(c, move))
            return true;
        c->width[s]--;
    }
    return false;
}

/* Larger or smaller micro-batches on one stage; that is for the schedule `graph`, which is 1F1B
 * where all are equal. */
static bool change_sizes(struct climb *c, struct sl_candidate *move) {
    const struct sl_query *query = c->contest->query;
    struct sl_candidate own = *move;
    const struct sl_schedule *row = sl_sched_row_find(move->schedule);
    if (!sl_search_query_mixes(query) || !row || !row->mixed)
        return false;
    own.schedule = row->mixed->name;
    own.size_of = c->size_of;
    for (int s = 0; s < move->stage_count && !sl_search_query_over(query); s++)
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

/* Two devices that are not alike change places. */
static bool change_places(struct climb *c, struct sl_candidate *move) {
    enum { DEVICES_MAX = 64 };
    const struct sl_problem *p = c->contest->query->problem;
    int used = 0, all = p->machine->device_count;
    for (int s = 0; s < move->stage_count; s++)
        used += c->width[s];
    for (int i = 0; i < used && all <= DEVICES_MAX; i++)
        for (int j = i + 1; j < all && !sl_search_query_over(c->contest->query); j++) {
            int a = c->order[i], b = c->order[j];
            if (!sl_search_places_differ(p, a, b))
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

/* The candidate's devices, then the others. */
static void fill_order(struct climb *c, const struct sl_candidate *from) {
    const struct sl_machine *m = c->contest->query->problem->machine;
    bool *taken = SL_NEW(&c->arena, bool, m->device_count);
    int used = 0, at = 0;
    for (int s = 0; s < from->stage_count; s++)
        used += from->width[s];
    c->order = SL_NEW(&c->arena, int, m->device_count);
    for (int i = 0; i < used; i++) {
        c->order[at] = from->order ? from->order[i] : i;
        taken[c->order[at++]] = true;
    }
    for (int d = 0; d < m->device_count; d++)
        if (!taken[d])
            c->order[at++] = d;
}

void sl_search_climb(struct sl_contest *contest, const char *planner) {
    enum { PASSES = 1 << 18 };
    const struct sl_problem *p = contest->query->problem;
    struct climb c = {.contest = contest, .planner = planner, .passes = PASSES};
    for (bool better = contest->out->found; better;) {
        struct sl_candidate move = contest->out->best.c;
        c.stage_of = sl_vec_freeze(&c.arena, move.stage_of, p->unit_count, sizeof(int));
        c.width = sl_vec_freeze(&c.arena, move.width, move.stage_count, sizeof(int));
        c.recompute = sl_vec_freeze(&c.arena, move.recompute, move.stage_count, sizeof(bool));
        move.stage_of = c.stage_of;
        move.width = c.width;
        move.recompute = c.recompute;
        c.size_of = SL_NEW(&c.arena, int, move.stage_count);
        for (int s = 0; s < move.stage_count; s++)
            c.size_of[s] = sl_candidate_size(&move, s);
        fill_order(&c, &move);
        move.order = c.order;
        better = move_units(&c, &move);
        if (!better)
            better = change_stages(&c, &move);
        if (!better)
            better = change_places(&c, &move) || change_sizes(&c, &move);
        better &= !sl_search_query_over(contest->query);
    }
    sl_arena_free(&c.arena);
}
