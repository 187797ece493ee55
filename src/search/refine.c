/* The final search on simulated time: branch and bound over sequences of downsets, last stage
 * first, and then a climb by small moves.
 *
 * A partial plan is given up when a bound says that no completion beats the best plan so far: the
 * way through the units in front of a stage, all of its passes, and the way back (as in
 * sl_setup_bound, with units instead of stages), or the work that is left on the devices that are
 * left. On small graphs the search ends and the best plan is proven; on large ones it stops after a
 * number of nodes, says so, and the climb goes on from the best plan.
 */
#include "search/planner.h"

#include <math.h>
#include <string.h>

struct branch {
    struct sl_contest *contest;
    const struct sl_problem *p;
    const struct sl_family *family;
    const char *planner, *schedule;
    int size;
    int64_t micros;
    bool sync, split;
    int64_t *up_f, *up_b; /* [unit] the longest way that ends with this unit */
    int64_t *left;        /* [ideal] work of one micro-batch */
    double memory;        /* of the largest device */
    int64_t nodes;        /* that may still be visited */
    bool stopped;
    int depth;
    int *path;  /* [stage from the last] downset in front of it */
    int *width; /* likewise */
    bool *recompute;
};

/* ---- bounds of partial plans ---- */

static int64_t least(const struct branch *b, int unit, int what) {
    int64_t best = INT64_MAX;
    for (int k = 0; k < b->p->machine->kind_count; k++) {
        const struct sl_unit_time *t = &sl_problem_times(b->p, b->size, k)[unit];
        int64_t time = what == 0 ? t->f : what == 1 ? t->i + (b->split ? 0 : t->w) : t->i + t->w;
        best = time < best ? time : best;
    }
    return best;
}

static void fill_ways(struct branch *b, struct sl_arena *arena) {
    const struct sl_dag *dag = &b->p->dag;
    int *order = SL_NEW(arena, int, dag->count + 1);
    b->up_f = SL_NEW(arena, int64_t, dag->count + 1);
    b->up_b = SL_NEW(arena, int64_t, dag->count + 1);
    b->left = SL_NEW(arena, int64_t, b->family->ideals.count);
    SL_ASSERT(sl_dag_order(arena, dag, order));
    for (int i = 0; i < dag->count; i++) {
        int u = order[i];
        for (int e = dag->in_at[u]; e < dag->in_at[u + 1]; e++) {
            int from = dag->in[e];
            b->up_f[u] = b->up_f[from] > b->up_f[u] ? b->up_f[from] : b->up_f[u];
            b->up_b[u] = b->up_b[from] > b->up_b[u] ? b->up_b[from] : b->up_b[u];
        }
        b->up_f[u] += least(b, u, 0);
        b->up_b[u] += least(b, u, 1);
        for (int k = 0; k < b->family->ideals.count; k++)
            if (sl_bit(sl_ideal(&b->family->ideals, k), u))
                b->left[k] += least(b, u, 0) + least(b, u, 2);
    }
}

/* The stage between two downsets: the way there and back, and what it holds. */
struct piece {
    int64_t there, back;
    struct sl_cut_stage sum;
};

static void measure(const struct branch *b, int larger, int smaller, struct piece *out) {
    const struct sl_family *f = b->family;
    const uint64_t *a = sl_ideal(&f->ideals, larger), *c = sl_ideal(&f->ideals, smaller);
    *out = (struct piece){0};
    for (int w = 0; w < f->ideals.words; w++)
        for (uint64_t bits = a[w] & ~c[w]; bits; bits &= bits - 1) {
            int u = w * 64 + __builtin_ctzll(bits);
            const struct sl_unit *unit = &b->p->units[u];
            out->sum.f += least(b, u, 0);
            out->sum.b += least(b, u, 2);
            out->sum.params += (double)unit->params;
            out->sum.fixed += (double)(unit->grads + unit->state);
            out->sum.stash += unit->stash;
            out->sum.work = unit->work > out->sum.work ? unit->work : out->sum.work;
            for (int e = b->p->dag.in_at[u]; e < b->p->dag.in_at[u + 1]; e++) {
                int from = b->p->dag.in[e];
                if (!sl_bit(c, from))
                    continue;
                out->there = b->up_f[from] > out->there ? b->up_f[from] : out->there;
                out->back = b->up_b[from] > out->back ? b->up_b[from] : out->back;
            }
        }
    for (int t = 0; t < b->p->tie_count; t++) /* held once where its units meet */
        out->sum.params -= (double)b->p->ties[t].bytes * (b->p->ties[t].count - 1);
    out->sum.params = out->sum.params > 0 ? out->sum.params : 0;
}

static bool too_slow(const struct branch *b, int64_t bound) {
    const struct sl_result *out = b->contest->out;
    return out->found && bound >= out->best.score.step_ns;
}

static int64_t bound_of(const struct branch *b, int64_t way, int64_t busy) {
    return b->sync ? way + busy : sl_async_bound(busy, b->micros, b->p->machine->device_count);
}

/* ---- branch ---- */

static void play(struct branch *b) {
    struct sl_arena arena = {0};
    const struct sl_ideals *ideals = &b->family->ideals;
    struct sl_setup layout;
    struct sl_score score;
    int *stage_of = SL_NEW(&arena, int, b->p->unit_count + 1);
    int *width = SL_NEW(&arena, int, b->depth);
    bool *recompute = SL_NEW(&arena, bool, b->depth);
    for (int s = 0; s < b->depth; s++) { /* path[0] is the last stage */
        int at = b->depth - 1 - s;
        const uint64_t *large = sl_ideal(ideals, at ? b->path[at - 1] : ideals->count - 1);
        const uint64_t *small = sl_ideal(ideals, b->path[at]);
        for (int u = 0; u < b->p->unit_count; u++)
            if (sl_bit(large, u) && !sl_bit(small, u))
                stage_of[u] = s;
        width[s] = b->width[at];
        recompute[s] = b->recompute[at];
    }
    struct sl_candidate c = {.stage_count = b->depth,
                             .stage_of = stage_of,
                             .width = width,
                             .recompute = recompute,
                             .size = b->size,
                             .schedule = b->schedule};
    sl_setup_build(&arena, b->p, &c, &layout);
    if (!too_slow(b, sl_setup_bound(&layout)))
        sl_contest_try(b->contest, &c, b->planner, &score);
    sl_arena_free(&arena);
}

static void visit(struct branch *b, int larger, int devices);

static void choose_width(struct branch *b, int smaller, int devices, const struct piece *piece) {
    int most = b->p->straight ? 1 : devices;
    for (int again = 0; again < 2; again++)
        for (int w = 1; w <= most && w <= b->micros; w++) {
            struct sl_cut_stage sum = piece->sum;
            int64_t rounds = (b->micros + w - 1) / w;
            int64_t busy = rounds * (sum.f + sum.b + (again ? sum.f : 0));
            sum.width = w;
            sum.recompute = again;
            if (sl_cut_bytes(&(struct sl_memory_rule){0}, 1, b->p->sizes[b->size], &sum, 1) >
                b->memory)
                break;
            if (too_slow(b, bound_of(b, piece->there + piece->back, busy)))
                continue;
            b->width[b->depth] = w;
            b->recompute[b->depth] = again;
            b->path[b->depth++] = smaller;
            visit(b, smaller, devices - w);
            b->depth--;
        }
}

static void visit(struct branch *b, int larger, int devices) {
    const struct sl_ideals *ideals = &b->family->ideals;
    if (b->nodes-- <= 0 || sl_contest_tired(b->contest)) {
        b->stopped = true;
        return;
    }
    if (larger == 0) {
        play(b);
        return;
    }
    if (devices < 1 || too_slow(b, bound_of(b, 0,
                                            (int64_t)floor((double)b->left[larger] *
                                                           (double)b->micros / devices))))
        return;
    for (int smaller = larger - 1; smaller >= 0 && !b->stopped; smaller--) {
        struct piece piece;
        if (!b->family->nested &&
            !sl_subset(sl_ideal(ideals, smaller), sl_ideal(ideals, larger), ideals->words))
            continue;
        measure(b, larger, smaller, &piece);
        choose_width(b, smaller, devices, &piece);
    }
}

static void branch(struct sl_contest *contest, const struct sl_family *family, const char *planner,
                   const char *schedule, int size) {
    enum { USUAL = 20000, LARGE = 1 << 16 };
    const struct sl_problem *p = contest->query->problem;
    const struct sl_schedule *row = sl_schedule_find(schedule);
    struct sl_arena arena = {0};
    int devices = p->machine->device_count;
    struct branch b = {.contest = contest,
                       .p = p,
                       .family = family,
                       .planner = planner,
                       .schedule = schedule,
                       .size = size,
                       .micros = (p->batch + p->sizes[size] - 1) / p->sizes[size],
                       .sync = !row || row->rule == SL_RULE_SYNC,
                       .split = strncmp(schedule, "zb", 2) == 0,
                       .nodes = contest->query->effort ? contest->query->effort
                                                       : USUAL / (1 + p->unit_count / 32)};
    b.path = SL_NEW(&arena, int, devices + 1);
    b.width = SL_NEW(&arena, int, devices + 1);
    b.recompute = SL_NEW(&arena, bool, devices + 1);
    for (int d = 0; d < devices; d++) {
        double memory = p->memory[d] > 0 ? (double)p->memory[d] : INFINITY;
        b.memory = memory > b.memory ? memory : b.memory;
    }
    if (2 * b.micros * devices > LARGE) /* a play takes a while: the climb has to do */
        b.nodes = 0;
    fill_ways(&b, &arena);
    visit(&b, family->ideals.count - 1, devices);
    if (b.stopped)
        contest->out->proven = false;
    sl_arena_free(&arena);
}

/* ---- climb ---- */

struct climb {
    struct sl_contest *contest;
    const char *planner;
    struct sl_arena arena;
    int *stage_of, *width;
    bool *recompute;
    int64_t passes; /* that may still be played */
};

static bool try_move(struct climb *c, const struct sl_candidate *move) {
    struct sl_result *out = c->contest->out;
    struct sl_arena arena = {0};
    struct sl_setup layout;
    struct sl_score score;
    int64_t before = out->best.score.step_ns, bound;
    sl_setup_build(&arena, c->contest->query->problem, move, &layout);
    bound = sl_setup_bound(&layout);
    if (bound < before)
        c->passes -= sl_setup_passes(&layout);
    sl_arena_free(&arena);
    if (bound >= before || c->passes <= 0)
        return false;
    sl_contest_try(c->contest, move, c->planner, &score);
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
    for (int u = 0; u < p->unit_count && !sl_query_over(c->contest->query); u++)
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
    for (int s = 0; s < move->stage_count && !sl_query_over(c->contest->query); s++) {
        c->recompute[s] ^= true;
        if (try_move(c, move))
            return true;
        c->recompute[s] ^= true;
        if (used >= p->machine->device_count || p->straight)
            continue;
        c->width[s]++;
        move->order = NULL;
        if (try_move(c, move))
            return true;
        c->width[s]--;
    }
    return false;
}

static void climb(struct sl_contest *contest, const char *planner) {
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
        better = move_units(&c, &move);
        if (!better)
            better = change_stages(&c, &move);
        better &= !sl_query_over(contest->query);
    }
    sl_arena_free(&c.arena);
}

void sl_refine(struct sl_contest *contest, const struct sl_family *family, const char *planner) {
    const struct sl_problem *p = contest->query->problem;
    const char *one[2];
    contest->out->proven = family->complete && p->machine->kind_count == 1;
    contest->out->complete = family->complete;
    for (const char *const *s = sl_query_schedules(contest->query, one); *s; s++)
        for (int size = 0; size < p->size_count; size++)
            branch(contest, family, planner, *s, size);
    climb(contest, planner);
}
