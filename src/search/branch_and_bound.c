/* Branch and bound on simulated time over sequences of downsets, last stage first.
 *
 * A complete sequence is tried with its true edges and as a chain, with both orders of workers
 * (sl_candidate.across), and with every placement.
 *
 * A partial plan is pruned if no completion can beat the best plan. Two bounds prove that. One
 * is the time of the path through the units before a stage, of all its passes, and of the path
 * back (sl_search_candidate_bound with units instead of stages). The other is the remaining work
 * divided by the remaining devices. On small graphs the search ends and proves the best plan. On
 * large ones it stops after a number of nodes, and hill climbing continues from the best plan. */
#include "search/cuts.h"
#include "search/placements.h"
#include "search/pool.h"

#include <math.h>

enum { PLACEMENTS_MAX = 64 };

struct branch {
    struct sl_search_pool *pool;
    const struct sl_problem *p;
    const struct sl_search_downsets *downsets;
    const char *planner, *schedule;
    /* a stage may use sizes size .. size_last; in asynchronous plans the two are equal */
    int size, size_last;
    bool sync, split;
    /* [unit] longest path that ends with this unit, forward and backward, in ns */
    int64_t *up_f, *up_b;
    double *left;  /* [downset] work of the whole batch in it, in ns */
    double memory; /* bytes of the largest device */
    int64_t nodes; /* number of nodes that may still be visited */
    bool stopped;
    int depth;
    int *path;            /* [stage, counted from the last] downset before the stage */
    int *width, *size_of; /* [stage, counted from the last] */
    bool *recompute;
    struct sl_arena *arena;
    /* [devices used] placements, listed when they are first needed */
    struct sl_search_placements *placements;
};

/* ---- bounds of partial plans ---- */

static int64_t micros_of(const struct branch *b, int size) {
    return (b->p->batch + b->p->sizes[size] - 1) / b->p->sizes[size];
}

static int64_t least(const struct branch *b, int size, int unit, int what) {
    int64_t best = INT64_MAX;
    for (int k = 0; k < b->p->machine->kind_count; k++) {
        const struct sl_unit_time *t = &sl_search_problem_times(b->p, size, k)[unit];
        int64_t time = what == 0 ? t->f : what == 1 ? t->i + (b->split ? 0 : t->w) : t->i + t->w;
        best = time < best ? time : best;
    }
    return best;
}

/* Returns the least time that a unit has with any size that a stage may use. */
static int64_t least_of_sizes(const struct branch *b, int unit, int what) {
    int64_t best = INT64_MAX;
    for (int size = b->size; size <= b->size_last; size++) {
        int64_t time = least(b, size, unit, what);
        best = time < best ? time : best;
    }
    return best;
}

static double least_work(const struct branch *b, int unit) {
    double best = INFINITY;
    for (int size = b->size; size <= b->size_last; size++)
        best = fmin(best, (double)micros_of(b, size) *
                              (double)(least(b, size, unit, 0) + least(b, size, unit, 2)));
    return best;
}

static void fill_ways(struct branch *b, struct sl_arena *arena) {
    const struct sl_dag *dag = &b->p->dag;
    int *order = SL_NEW(arena, int, dag->count + 1);
    b->up_f = SL_NEW(arena, int64_t, dag->count + 1);
    b->up_b = SL_NEW(arena, int64_t, dag->count + 1);
    b->left = SL_NEW(arena, double, b->downsets->ideals.count);
    SL_ASSERT(sl_graph_dag_order(arena, dag, order));
    for (int i = 0; i < dag->count; i++) {
        int u = order[i];
        for (int e = dag->in_at[u]; e < dag->in_at[u + 1]; e++) {
            int from = dag->in[e];
            b->up_f[u] = b->up_f[from] > b->up_f[u] ? b->up_f[from] : b->up_f[u];
            b->up_b[u] = b->up_b[from] > b->up_b[u] ? b->up_b[from] : b->up_b[u];
        }
        b->up_f[u] += least_of_sizes(b, u, 0);
        b->up_b[u] += least_of_sizes(b, u, 1);
        double work = least_work(b, u);
        for (int k = 0; k < b->downsets->ideals.count; k++)
            if (sl_bit(sl_ideal(&b->downsets->ideals, k), u))
                b->left[k] += work;
    }
}

/* The stage between two downsets: the longest paths before it, forward and backward, and its
 * sums. */
struct piece {
    int size;
    int64_t there, back, i;
    struct sl_cut_stage sum;
};

static void measure(const struct branch *b, int larger, int smaller, int size, struct piece *out) {
    const struct sl_search_downsets *f = b->downsets;
    const uint64_t *a = sl_ideal(&f->ideals, larger), *c = sl_ideal(&f->ideals, smaller);
    *out = (struct piece){.size = size};
    for (int w = 0; w < f->ideals.words; w++)
        for (uint64_t bits = a[w] & ~c[w]; bits; bits &= bits - 1) {
            int u = w * 64 + __builtin_ctzll(bits);
            const struct sl_unit *unit = &b->p->units[u];
            out->sum.f += least(b, size, u, 0);
            out->sum.b += least(b, size, u, 2);
            out->i += least(b, size, u, 1);
            out->sum.params += (double)unit->params;
            out->sum.fixed += (double)(unit->fixed + unit->grads + unit->state);
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
    for (int t = 0; t < b->p->tie_count; t++) /* for a lower bound, tied parameters count once */
        out->sum.params -= (double)b->p->ties[t].bytes * (b->p->ties[t].count - 1);
    out->sum.params = out->sum.params > 0 ? out->sum.params : 0;
}

static bool too_slow(const struct branch *b, int64_t bound) {
    const struct sl_search_result *out = b->pool->out;
    return out->found && bound >= out->best.score.step_ns;
}

/* Lower bound on an iteration with `rounds` passes of the piece. If W is split off, earlier stages
 * do not wait for it. */
static int64_t bound_of(const struct branch *b, const struct piece *piece, int64_t rounds,
                        bool recompute) {
    int64_t f = piece->sum.f + (recompute ? sl_search_recompute_ns(b->p, piece->sum.f) : 0);
    int64_t busy = rounds * (f + piece->sum.b);
    if (!b->sync)
        return sl_search_async_bound(busy, micros_of(b, b->size), b->p->machine->device_count);
    int64_t way = piece->back + (b->split ? rounds * (f + piece->i) : busy);
    return piece->there + (way > busy ? way : busy);
}

/* ---- branch ---- */

/* Does every stage send to the next one? Then `sequential` gives the same plan. */
static bool is_chain(const struct sl_candidate_detail *detail) {
    for (int s = 0; s + 1 < detail->c.stage_count; s++) {
        bool next = false;
        for (int e = detail->edge_at[s]; e < detail->edge_at[s + 1]; e++)
            next |= detail->edges[e].to == s + 1;
        if (!next)
            return false;
    }
    return true;
}

/* Tries the candidate with all placements. Returns is_chain of it. */
static bool try_placements(struct branch *b, struct sl_candidate *c, int used) {
    struct sl_search_placements *placements = &b->placements[used];
    bool chain = false;
    if (!placements->count)
        sl_search_placements_list(b->arena, b->p, used, PLACEMENTS_MAX, placements);
    if (!placements->complete)
        b->pool->out->proven = false;
    for (int i = 0; i < placements->count; i++) {
        struct sl_arena arena = {0};
        struct sl_candidate_detail detail;
        struct sl_candidate_score score;
        c->order = placements->at[i];
        sl_search_candidate_expand(&arena, b->p, c, &detail);
        chain = is_chain(&detail);
        if (!too_slow(b, sl_search_candidate_bound(&detail)))
            sl_search_pool_try(b->pool, c, b->planner, &score);
        sl_arena_free(&arena);
    }
    return chain;
}

static void try_variants(struct branch *b, struct sl_candidate *c) {
    int used = 0;
    bool chain = false;
    for (int s = 0; s < c->stage_count; s++)
        used += c->width[s];
    for (int kind = 0; kind < 4; kind++) {
        c->sequential = kind & 1;
        c->across = kind & 2;
        if ((c->sequential && chain) ||
            (c->across && (c->stage_count == 1 || used == c->stage_count)))
            continue;
        chain |= try_placements(b, c, used) && !c->sequential;
    }
}

static void try_sequence(struct branch *b) {
    struct sl_arena arena = {0};
    const struct sl_ideals *ideals = &b->downsets->ideals;
    int *stage_of = SL_NEW(&arena, int, b->p->unit_count + 1);
    int *width = SL_NEW(&arena, int, b->depth);
    int *size_of = SL_NEW(&arena, int, b->depth), smallest = b->size_last;
    bool *recompute = SL_NEW(&arena, bool, b->depth);
    for (int s = 0; s < b->depth; s++) { /* path[0] belongs to the last stage */
        int at = b->depth - 1 - s;
        const uint64_t *large = sl_ideal(ideals, at ? b->path[at - 1] : ideals->count - 1);
        const uint64_t *small = sl_ideal(ideals, b->path[at]);
        for (int u = 0; u < b->p->unit_count; u++)
            if (sl_bit(large, u) && !sl_bit(small, u))
                stage_of[u] = s;
        width[s] = b->width[at];
        recompute[s] = b->recompute[at];
        size_of[s] = b->size_of[at];
        smallest = size_of[s] < smallest ? size_of[s] : smallest;
    }
    struct sl_candidate c = {.stage_count = b->depth,
                             .stage_of = stage_of,
                             .width = width,
                             .recompute = recompute,
                             .size = smallest,
                             .size_of = b->size < b->size_last ? size_of : NULL,
                             .schedule = b->schedule};
    if (sl_search_candidate_check(b->p, &c))
        try_variants(b, &c);
    sl_arena_free(&arena);
}

static void visit(struct branch *b, int larger, int devices);

static void choose_width(struct branch *b, int smaller, int devices, const struct piece *piece) {
    int max = b->p->straight ? 1 : devices;
    int64_t micros = micros_of(b, piece->size);
    for (int recompute = 0; recompute < 2; recompute++)
        for (int w = 1; w <= max && w <= micros; w++) {
            struct sl_cut_stage sum = piece->sum;
            sum.width = w;
            sum.recompute = recompute;
            if (sl_search_cut_bytes(&(struct sl_search_memory_rule){0}, 1, b->p->sizes[piece->size],
                                    &sum, 1) > b->memory)
                break;
            if (too_slow(b, bound_of(b, piece, (micros + w - 1) / w, recompute)))
                continue;
            b->width[b->depth] = w;
            b->recompute[b->depth] = recompute;
            b->size_of[b->depth] = piece->size;
            b->path[b->depth++] = smaller;
            visit(b, smaller, devices - w);
            b->depth--;
        }
}

static void visit(struct branch *b, int larger, int devices) {
    const struct sl_ideals *ideals = &b->downsets->ideals;
    if (b->nodes-- <= 0 || sl_search_pool_exhausted(b->pool)) {
        b->stopped = true;
        return;
    }
    if (larger == 0) {
        sl_search_pool_progress(b->pool, "branch and bound");
        try_sequence(b);
        return;
    }
    if (devices < 1)
        return;
    int64_t work = (int64_t)floor(b->left[larger] / devices);
    if (!b->sync)
        work = sl_search_async_bound(work, micros_of(b, b->size), b->p->machine->device_count);
    if (too_slow(b, work))
        return;
    for (int smaller = larger - 1; smaller >= 0 && !b->stopped; smaller--) {
        struct piece piece;
        if (!b->downsets->nested &&
            !sl_subset(sl_ideal(ideals, smaller), sl_ideal(ideals, larger), ideals->words))
            continue;
        for (int size = b->size; size <= b->size_last; size++) {
            measure(b, larger, smaller, size, &piece);
            choose_width(b, smaller, devices, &piece);
        }
    }
}

static void branch(struct sl_search_pool *pool, const struct sl_search_downsets *downsets,
                   const char *planner, const char *schedule, int size, int size_last) {
    enum { USUAL = 20000, LARGE = 1 << 16 };
    const struct sl_problem *p = pool->query->problem;
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    struct sl_arena arena = {0};
    int devices = p->machine->device_count;
    struct branch b = {.pool = pool,
                       .p = p,
                       .downsets = downsets,
                       .planner = planner,
                       .schedule = schedule,
                       .size = size,
                       .size_last = size_last,
                       .sync = !row || row->rule == SL_RULE_SYNC,
                       .split = sl_search_schedule_splits(schedule),
                       .arena = &arena,
                       .nodes = pool->query->effort ? pool->query->effort
                                                    : USUAL / (1 + p->unit_count / 32)};
    b.path = SL_NEW(&arena, int, devices + 1);
    b.placements = SL_NEW(&arena, struct sl_search_placements, devices + 1);
    b.width = SL_NEW(&arena, int, devices + 1);
    b.recompute = SL_NEW(&arena, bool, devices + 1);
    b.size_of = SL_NEW(&arena, int, devices + 1);
    for (int d = 0; d < devices; d++) {
        double memory = p->memory[d] > 0 ? (double)p->memory[d] : INFINITY;
        b.memory = memory > b.memory ? memory : b.memory;
    }
    /* simulations would be slow: only hill climbing */
    if (2 * micros_of(&b, size) * devices > LARGE)
        b.nodes = 0;
    fill_ways(&b, &arena);
    visit(&b, downsets->ideals.count - 1, devices);
    if (b.stopped) {
        pool->out->proven = false;
        pool->out->out_of_budget |= !sl_search_query_timed_out(pool->query);
    }
    sl_arena_free(&arena);
}

void sl_search_branch_and_bound(struct sl_search_pool *pool,
                                const struct sl_search_downsets *downsets, const char *planner) {
    const struct sl_problem *p = pool->query->problem;
    const char *one[SL_QUERY_SCHEDULES];
    pool->out->proven = downsets->complete;
    pool->out->complete = downsets->complete;
    for (const char *const *s = sl_search_query_schedules(pool->query, one); *s; s++)
        for (int size = 0; size < p->size_count; size++)
            if (!sl_search_pool_cannot_win(pool, *s, size))
                branch(pool, downsets, planner, *s, size, size);
    if (sl_search_query_mixes_sizes(pool->query))
        branch(pool, downsets, planner, sl_search_mixed_schedule(), 0, p->size_count - 1);
    sl_search_hill_climb(pool, planner);
}
