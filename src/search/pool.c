/* Implements the pool of candidates (pool.h). */
#include "search/pool.h"

#include "base/par.h"
#include "search/bound.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_ONCE = 8,          /* number of candidates simulated in parallel */
    PASSES_MAX = 1 << 18, /* most passes simulated per call of sl_search_pool_simulate */
};

static int device_of(const struct sl_candidate *c, int i) { return c->order ? c->order[i] : i; }

/* Do two candidates use equal devices? Always true on a machine of equal devices. */
static bool same_placement(const struct sl_problem *p, const struct sl_candidate *a,
                           const struct sl_candidate *b) {
    int used = sl_search_candidate_devices(a);
    if (p->machine->kind_count == 1 && p->machine->hosts_in_all == 1)
        return true;
    for (int i = 0; i < used; i++)
        if (device_of(a, i) != device_of(b, i))
            return false;
    return true;
}

static bool same_sizes(const struct sl_candidate *a, const struct sl_candidate *b) {
    for (int s = 0; s < a->stage_count; s++)
        if (sl_search_candidate_size(a, s) != sl_search_candidate_size(b, s))
            return false;
    return true;
}

static bool same_groups(const struct sl_candidate *a, const struct sl_candidate *b) {
    for (int s = 0; s < a->stage_count; s++)
        if (sl_search_candidate_group(a, s) != sl_search_candidate_group(b, s))
            return false;
    return true;
}

static bool same(const struct sl_problem *p, const struct sl_candidate *a,
                 const struct sl_candidate *b) {
    size_t stages = (size_t)a->stage_count;
    return a->stage_count == b->stage_count && a->size == b->size &&
           a->sequential == b->sequential && a->across == b->across && a->ranks == b->ranks &&
           strcmp(a->schedule, b->schedule) == 0 &&
           memcmp(a->width, b->width, sizeof *a->width * stages) == 0 &&
           memcmp(a->recompute, b->recompute, sizeof *a->recompute * stages) == 0 &&
           memcmp(a->stage_of, b->stage_of, sizeof *a->stage_of * (size_t)p->unit_count) == 0 &&
           same_sizes(a, b) && same_groups(a, b) && same_placement(p, a, b);
}

static struct sl_candidate copy_candidate(struct sl_arena *arena, const struct sl_problem *p,
                                          const struct sl_candidate *c) {
    struct sl_candidate copy = *c;
    int devices = sl_search_candidate_devices(c);
    copy.stage_of = sl_vec_freeze(arena, c->stage_of, p->unit_count, sizeof *c->stage_of);
    copy.width = sl_vec_freeze(arena, c->width, c->stage_count, sizeof *c->width);
    copy.recompute = sl_vec_freeze(arena, c->recompute, c->stage_count, sizeof *c->recompute);
    if (c->size_of)
        copy.size_of = sl_vec_freeze(arena, c->size_of, c->stage_count, sizeof *c->size_of);
    if (c->group_of)
        copy.group_of = sl_vec_freeze(arena, c->group_of, c->stage_count, sizeof *c->group_of);
    if (c->order)
        copy.order = sl_vec_freeze(arena, c->order, devices, sizeof *c->order);
    return copy;
}

/* Computes the values that need no simulation. */
static struct sl_candidate_entry estimate(const struct sl_problem *p,
                                          const struct sl_candidate *c) {
    struct sl_arena scratch = {0};
    struct sl_candidate_detail detail;
    sl_search_candidate_expand(&scratch, p, c, &detail);
    struct sl_candidate_entry found = {.c = *c,
                                       .bottleneck = sl_search_candidate_bottleneck(&detail, NULL),
                                       .bound = sl_search_candidate_bound(&detail),
                                       .passes = sl_search_candidate_folded_passes(&detail),
                                       .shortfall = sl_search_candidate_shortfall(&detail)};
    sl_arena_free(&scratch);
    return found;
}

static bool is_uniform(const struct sl_candidate *c) {
    for (int s = 1; s < c->stage_count; s++)
        if (c->width[s] != c->width[0] || c->recompute[s] != c->recompute[0] ||
            sl_search_candidate_size(c, s) != sl_search_candidate_size(c, 0))
            return false;
    return true;
}

/* Does the problem allow the candidate's replicas and choice of recomputation? */
static bool is_allowed(const struct sl_problem *p, const struct sl_candidate *c) {
    if (p->uniform && !is_uniform(c))
        return false;
    for (int s = 0; s < c->stage_count; s++)
        if (p->recompute == (c->recompute[s] ? SL_RECOMPUTE_NEVER : SL_RECOMPUTE_ALWAYS))
            return false;
    return true;
}

static void count_tried(struct sl_search_result *out, const char *planner, int may_fit) {
    int at = 0;
    while (at < out->tried_count && strcmp(out->tried[at].planner, planner) != 0)
        at++;
    if (at == SL_TRIED_PLANNERS)
        return;
    if (at == out->tried_count)
        out->tried[out->tried_count++] = (struct sl_search_tried){.planner = planner};
    out->tried[at].may_fit += may_fit;
}

/* Recomputation on some stages becomes recomputation on all. */
static void add_uniform(struct sl_search_pool *pool, const struct sl_candidate *c,
                        const char *planner) {
    struct sl_arena scratch = {0};
    struct sl_candidate all = *c;
    bool *recompute = SL_NEW(&scratch, bool, c->stage_count);
    for (int s = 0; s < c->stage_count; s++)
        recompute[s] = true;
    all.recompute = recompute;
    if (is_uniform(&all))
        sl_search_pool_add(pool, &all, planner);
    sl_arena_free(&scratch);
}

void sl_search_pool_add(struct sl_search_pool *pool, const struct sl_candidate *c,
                        const char *planner) {
    const struct sl_problem *p = pool->query->problem;
    if (p->uniform && !is_uniform(c)) {
        add_uniform(pool, c, planner);
        return;
    }
    if (sl_search_candidate_devices(c) > p->machine->device_count || !is_allowed(p, c) ||
        !sl_search_query_takes(pool->query, c))
        return;
    if (sl_search_schedule_shares(c->schedule) && !c->ranks)
        return; /* this schedule needs several stages per worker; with one it would not be what
                 * its name says */
    for (int64_t i = 0; i < pool->at.count; i++)
        if (same(p, &pool->at.at[i].c, c)) {
            count_tried(pool->out, planner, pool->at.at[i].shortfall <= 0);
            return;
        }
    struct sl_candidate_entry found = estimate(p, c);
    count_tried(pool->out, planner, found.shortfall <= 0);
    found.c = copy_candidate(pool->arena, p, c);
    found.planner = planner;
    SL_PUSH(&pool->at, found);
    pool->out->offered++;
}

/* ---- simulation ---- */

struct batch {
    const struct sl_problem *p;
    struct sl_candidate_entry *at;
    sl_err *err;
};

static void simulate_one(void *ctx, int64_t i) {
    struct batch *b = ctx;
    struct sl_arena scratch = {0};
    struct sl_candidate_detail detail;
    sl_search_candidate_expand(&scratch, b->p, &b->at[i].c, &detail);
    b->err[i] = sl_search_candidate_simulate_folded(&detail, &b->at[i].score);
    sl_arena_free(&scratch);
}

static bool better(const struct sl_candidate_entry *a, const struct sl_candidate_entry *b) {
    if (a->score.step_ns != b->score.step_ns)
        return a->score.step_ns < b->score.step_ns;
    return a->score.peak_bytes < b->score.peak_bytes;
}

static void keep_runner(struct sl_search_result *out, const struct sl_candidate_entry *found) {
    int at = out->runner_count < SL_RUNNERS ? out->runner_count++ : SL_RUNNERS - 1;
    if (at == SL_RUNNERS - 1 && out->runner_count == SL_RUNNERS && out->runner[at].planner &&
        !better(found, &out->runner[at]))
        return;
    for (; at > 0 && better(found, &out->runner[at - 1]); at--)
        out->runner[at] = out->runner[at - 1];
    out->runner[at] = *found;
}

static void keep_score(struct sl_search_pool *pool, const struct sl_candidate_entry *found) {
    struct sl_search_result *out = pool->out;
    double scale = pool->query->memory_scale > 0 ? pool->query->memory_scale : 1;
    int64_t over = found->score.over_bytes;
    if (scale < 1 && over > INT64_MIN / 2) /* part of the memory must stay free */
        over += (int64_t)((1 - scale) * (double)(found->score.peak_bytes - over));
    if (over > 0) {
        count_tried(out, found->planner, found->shortfall <= 0 ? -1 : 0);
        if (!out->nearest_found || over < out->nearest.score.over_bytes)
            out->nearest = *found;
        out->nearest_found = true;
        return;
    }
    if (out->found && !better(found, &out->best)) {
        keep_runner(out, found);
        return;
    }
    if (out->found)
        keep_runner(out, &out->best);
    out->best = *found;
    out->found = true;
}

bool sl_search_pool_try(struct sl_search_pool *pool, const struct sl_candidate *c,
                        const char *planner, struct sl_candidate_score *score) {
    const struct sl_problem *p = pool->query->problem;
    if (!is_allowed(p, c) || !sl_search_query_takes(pool->query, c))
        return false;
    struct sl_candidate_entry found = estimate(p, c);
    struct batch batch = {p, &found, &(sl_err){SL_OK}};
    simulate_one(&batch, 0);
    pool->out->simulated++;
    pool->passes += found.passes;
    if (*batch.err != SL_OK)
        return false;
    *score = found.score;
    found.planner = planner;
    if (!pool->out->found || better(&found, &pool->out->best))
        found.c = copy_candidate(pool->arena, p, c);
    else
        return found.score.over_bytes <= 0;
    keep_score(pool, &found);
    return found.score.over_bytes <= 0;
}

/* Order of simulation: candidates that should fit, by bound; then the others, by shortfall. */
static int compare_bounds(const void *a, const void *b) {
    const struct sl_candidate_entry *x = a, *y = b;
    if ((x->shortfall > 0) != (y->shortfall > 0))
        return x->shortfall > 0 ? 1 : -1;
    if (x->shortfall > 0 && x->shortfall != y->shortfall)
        return x->shortfall < y->shortfall ? -1 : 1;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->bottleneck > y->bottleneck) - (x->bottleneck < y->bottleneck);
}

/* Simulates the first few of `at` in parallel: at most *max, which becomes their number. Returns
 * false if the limit of passes or the deadline is reached. */
static bool simulate_some(struct sl_search_pool *pool, struct sl_candidate_entry *at, int *max) {
    sl_err err[AT_ONCE];
    struct batch batch = {pool->query->problem, at, err};
    int count = 1;
    if (pool->passes && pool->passes + at[0].passes > PASSES_MAX) {
        pool->out->out_of_budget = true;
        return false;
    }
    if (pool->passes && sl_search_query_timed_out(pool->query)) {
        pool->out->timed_out = true;
        return false;
    }
    for (int64_t sum = pool->passes + at[0].passes; count < *max; count++) {
        sum += at[count].passes;
        if (sum > PASSES_MAX)
            break;
    }
    *max = count;
    sl_search_pool_progress(pool, at->planner);
    sl_par_for(count, pool->query->threads, simulate_one, &batch);
    pool->out->simulated += count;
    for (int i = 0; i < count; i++) {
        pool->passes += at[i].passes;
        if (err[i] == SL_OK)
            keep_score(pool, &at[i]);
    }
    return true;
}

/* Simulates candidates that should not fit, if nothing else was found. The estimate may be too
 * high; if not, the error message names the nearest one. */
static void simulate_unfit(struct sl_search_pool *pool, struct sl_candidate_entry *at, int count) {
    int now = count < AT_ONCE ? count : AT_ONCE;
    struct sl_search_result *out = pool->out;
    if (out->found || !count)
        return;
    if (at->passes <= PASSES_MAX) {
        simulate_some(pool, at, &now);
    } else if (!out->nearest_found) { /* too large to simulate: keeps the estimate */
        out->nearest = *at;
        out->nearest.score.over_bytes = (int64_t)at->shortfall;
        out->nearest.score.peak_bytes = (int64_t)at->shortfall + pool->query->problem->memory[0];
        out->nearest_found = true;
    }
}

void sl_search_pool_simulate(struct sl_search_pool *pool) {
    struct sl_candidate_entry *at = pool->at.at + pool->done;
    int count = (int)pool->at.count - pool->done, done = 0, fit = 0;
    pool->passes = 0;
    if (count)
        qsort(at, (size_t)count, sizeof *at, compare_bounds);
    while (fit < count && at[fit].shortfall <= 0)
        fit++;
    while (done < fit) {
        int now = fit - done < AT_ONCE ? fit - done : AT_ONCE;
        const struct sl_search_result *out = pool->out;
        if (out->found && at[done].bound > out->best.score.step_ns)
            break; /* later candidates have larger bounds */
        if (!simulate_some(pool, at + done, &now))
            break;
        done += now;
    }
    simulate_unfit(pool, at + fit, count - fit);
    pool->done = (int)pool->at.count;
}

bool sl_search_pool_exhausted(const struct sl_search_pool *pool) {
    return pool->passes >= 8 * PASSES_MAX || sl_search_query_timed_out(pool->query);
}

void sl_search_pool_progress(const struct sl_search_pool *pool, const char *phase) {
    const struct sl_search_query *query = pool->query;
    if (query->progress)
        query->progress(query->progress_ctx, phase, pool->out);
}

void sl_search_pool_close(struct sl_search_pool *pool) { SL_VEC_FREE(&pool->at); }

bool sl_search_pool_cannot_win(const struct sl_search_pool *pool, const char *schedule, int size) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    bool async = row && row->rule != SL_RULE_SYNC;
    return pool->out->found &&
           sl_search_size_bound(pool->query->problem, size, async) >= pool->out->best.score.step_ns;
}
