/* The contest: candidates of all planners, played in the order of their bounds. */
#include "search/planner.h"

#include "base/clock.h"
#include "base/par.h"
#include "base/sort.h"

#include <string.h>

enum {
    AT_ONCE = 8,          /* candidates that are played side by side */
    PASSES_MAX = 1 << 18, /* of one planner */
};

bool sl_search_query_over(const struct sl_query *query) { return sl_clock_past(query->until_ns); }

double sl_search_query_memory(const struct sl_query *query) {
    double scale = query->memory_scale > 0 ? query->memory_scale : 1;
    return query->cut_scale > 0 ? scale * query->cut_scale : scale;
}

const char *const *sl_search_query_schedules(const struct sl_query *query,
                                             const char *names[SL_QUERY_SCHEDULES]) {
    int rows, count = 0;
    const struct sl_schedule *const *registry = sl_sched_row_registry(&rows);
    if (!query->schedule && query->schedules)
        return query->schedules;
    for (int i = 0; i < rows && !query->schedule; i++)
        if (registry[i]->searched == SL_SEARCHED_EQUAL) {
            SL_ASSERT(count < SL_QUERY_SCHEDULES - 1);
            names[count++] = registry[i]->name;
        }
    if (query->schedule)
        names[count++] = query->schedule;
    names[count] = NULL;
    return names;
}

bool sl_search_query_mixes(const struct sl_query *query) {
    const struct sl_schedule *row = query->schedule ? sl_sched_row_find(query->schedule) : NULL;
    return query->problem->size_count > 1 &&
           (!query->schedule || (row && row->searched == SL_SEARCHED_MIXED));
}

static int place_of(const struct sl_candidate *c, int i) { return c->order ? c->order[i] : i; }

/* Equal devices, where it matters which. */
static bool same_places(const struct sl_problem *p, const struct sl_candidate *a,
                        const struct sl_candidate *b) {
    int used = 0;
    if (p->machine->kind_count == 1 && p->machine->hosts_in_all == 1)
        return true;
    for (int s = 0; s < a->stage_count; s++)
        used += a->width[s];
    for (int i = 0; i < used; i++)
        if (place_of(a, i) != place_of(b, i))
            return false;
    return true;
}

static bool same_sizes(const struct sl_candidate *a, const struct sl_candidate *b) {
    for (int s = 0; s < a->stage_count; s++)
        if (sl_candidate_size(a, s) != sl_candidate_size(b, s))
            return false;
    return true;
}

static bool same(const struct sl_problem *p, const struct sl_candidate *a,
                 const struct sl_candidate *b) {
    size_t stages = (size_t)a->stage_count;
    return a->stage_count == b->stage_count && a->size == b->size &&
           a->sequential == b->sequential && a->across == b->across &&
           strcmp(a->schedule, b->schedule) == 0 &&
           memcmp(a->width, b->width, sizeof *a->width * stages) == 0 &&
           memcmp(a->recompute, b->recompute, sizeof *a->recompute * stages) == 0 &&
           memcmp(a->stage_of, b->stage_of, sizeof *a->stage_of * (size_t)p->unit_count) == 0 &&
           same_sizes(a, b) && same_places(p, a, b);
}

static struct sl_candidate keep(struct sl_arena *arena, const struct sl_problem *p,
                                const struct sl_candidate *c) {
    struct sl_candidate copy = *c;
    int devices = 0;
    for (int s = 0; s < c->stage_count; s++)
        devices += c->width[s];
    copy.stage_of = sl_vec_freeze(arena, c->stage_of, p->unit_count, sizeof *c->stage_of);
    copy.width = sl_vec_freeze(arena, c->width, c->stage_count, sizeof *c->width);
    copy.recompute = sl_vec_freeze(arena, c->recompute, c->stage_count, sizeof *c->recompute);
    if (c->size_of)
        copy.size_of = sl_vec_freeze(arena, c->size_of, c->stage_count, sizeof *c->size_of);
    if (c->order)
        copy.order = sl_vec_freeze(arena, c->order, devices, sizeof *c->order);
    return copy;
}

/* What does not depend on the simulation. */
static struct sl_found measure(const struct sl_problem *p, const struct sl_candidate *c) {
    struct sl_arena scratch = {0};
    struct sl_setup layout;
    sl_search_setup_build(&scratch, p, c, &layout);
    struct sl_found found = {.c = *c,
                             .bottleneck = sl_search_setup_bottleneck(&layout, NULL),
                             .bound = sl_search_setup_bound(&layout),
                             .passes = sl_search_setup_passes(&layout),
                             .lacks = sl_search_setup_lacks(&layout)};
    sl_arena_free(&scratch);
    return found;
}

/* What the question rules out, whoever offers it. */
static bool is_allowed(const struct sl_problem *p, const struct sl_candidate *c) {
    for (int s = 0; s < c->stage_count; s++)
        if (p->recompute == (c->recompute[s] ? SL_RECOMPUTE_NEVER : SL_RECOMPUTE_ALWAYS))
            return false;
    return true;
}

void sl_search_contest_offer(struct sl_contest *contest, const struct sl_candidate *c,
                             const char *planner) {
    const struct sl_problem *p = contest->query->problem;
    int devices = 0;
    for (int s = 0; s < c->stage_count; s++)
        devices += c->width[s];
    if (devices > p->machine->device_count || !is_allowed(p, c))
        return;
    for (int64_t i = 0; i < contest->at.count; i++)
        if (same(p, &contest->at.at[i].c, c))
            return;
    struct sl_found found = measure(p, c);
    found.c = keep(contest->arena, p, c);
    found.planner = planner;
    SL_PUSH(&contest->at, found);
    contest->out->offered++;
}

/* ---- playing ---- */

struct batch {
    const struct sl_problem *p;
    struct sl_found *at;
    sl_err *err;
};

static void play_one(void *ctx, int64_t i) {
    struct batch *b = ctx;
    struct sl_arena scratch = {0};
    struct sl_setup layout;
    sl_search_setup_build(&scratch, b->p, &b->at[i].c, &layout);
    b->err[i] = sl_search_setup_score_fast(&layout, &b->at[i].score);
    sl_arena_free(&scratch);
}

static bool better(const struct sl_found *a, const struct sl_found *b) {
    if (a->score.step_ns != b->score.step_ns)
        return a->score.step_ns < b->score.step_ns;
    return a->score.peak_bytes < b->score.peak_bytes;
}

static void take_runner(struct sl_result *out, const struct sl_found *found) {
    int at = out->runner_count < SL_RUNNERS ? out->runner_count++ : SL_RUNNERS - 1;
    if (at == SL_RUNNERS - 1 && out->runner_count == SL_RUNNERS && out->runner[at].planner &&
        !better(found, &out->runner[at]))
        return;
    for (; at > 0 && better(found, &out->runner[at - 1]); at--)
        out->runner[at] = out->runner[at - 1];
    out->runner[at] = *found;
}

static void take(struct sl_contest *contest, const struct sl_found *found) {
    struct sl_result *out = contest->out;
    double scale = contest->query->memory_scale > 0 ? contest->query->memory_scale : 1;
    int64_t over = found->score.over_bytes;
    if (scale < 1 && over > INT64_MIN / 2) /* keep a part of the memory free */
        over += (int64_t)((1 - scale) * (double)(found->score.peak_bytes - over));
    if (over > 0) {
        if (!out->near_found || over < out->near.score.over_bytes)
            out->near = *found;
        out->near_found = true;
        return;
    }
    if (out->found && !better(found, &out->best)) {
        take_runner(out, found);
        return;
    }
    if (out->found)
        take_runner(out, &out->best);
    out->best = *found;
    out->found = true;
}

bool sl_search_contest_try(struct sl_contest *contest, const struct sl_candidate *c,
                           const char *planner, struct sl_score *score) {
    const struct sl_problem *p = contest->query->problem;
    if (!is_allowed(p, c))
        return false;
    struct sl_found found = measure(p, c);
    struct batch batch = {p, &found, &(sl_err){SL_OK}};
    play_one(&batch, 0);
    contest->out->played++;
    contest->passes += found.passes;
    if (*batch.err != SL_OK)
        return false;
    *score = found.score;
    found.planner = planner;
    if (!contest->out->found || better(&found, &contest->out->best))
        found.c = keep(contest->arena, p, c);
    else
        return found.score.over_bytes <= 0;
    take(contest, &found);
    return found.score.over_bytes <= 0;
}

/* What should fit comes first, smallest bound first; then what lacks least. */
static int compare_bounds(const void *a, const void *b) {
    const struct sl_found *x = a, *y = b;
    if ((x->lacks > 0) != (y->lacks > 0))
        return x->lacks > 0 ? 1 : -1;
    if (x->lacks > 0 && x->lacks != y->lacks)
        return x->lacks < y->lacks ? -1 : 1;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->bottleneck > y->bottleneck) - (x->bottleneck < y->bottleneck);
}

/* Plays a few side by side, at most *count and no more than the budget; false: enough. */
static bool play_some(struct sl_contest *contest, struct sl_found *at, int *max) {
    sl_err err[AT_ONCE];
    struct batch batch = {contest->query->problem, at, err};
    int count = 1;
    if (contest->passes && contest->passes + at[0].passes > PASSES_MAX)
        return false;
    if (contest->passes && sl_search_query_over(contest->query)) {
        contest->out->timed_out = true;
        return false;
    }
    for (int64_t sum = contest->passes + at[0].passes; count < *max; count++) {
        sum += at[count].passes;
        if (sum > PASSES_MAX)
            break;
    }
    *max = count;
    sl_search_contest_tell(contest, at->planner);
    sl_par_for(count, contest->query->threads, play_one, &batch);
    contest->out->played += count;
    for (int i = 0; i < count; i++) {
        contest->passes += at[i].passes;
        if (err[i] == SL_OK)
            take(contest, &at[i]);
    }
    return true;
}

/* What should not fit, once nothing else is left: the sums may be too high, and if they are right,
 * this is the plan to name. */
static void play_unfit(struct sl_contest *contest, struct sl_found *at, int count) {
    int now = count < AT_ONCE ? count : AT_ONCE;
    struct sl_result *out = contest->out;
    if (out->found || !count)
        return;
    if (at->passes <= PASSES_MAX) {
        play_some(contest, at, &now);
    } else if (!out->near_found) { /* too large to play: as estimated */
        out->near = *at;
        out->near.score.over_bytes = (int64_t)at->lacks;
        out->near.score.peak_bytes = (int64_t)at->lacks + contest->query->problem->memory[0];
        out->near_found = true;
    }
}

void sl_search_contest_play(struct sl_contest *contest) {
    struct sl_found *at = contest->at.at + contest->played;
    int count = (int)contest->at.count - contest->played, done = 0, fit = 0;
    contest->passes = 0;
    if (count)
        qsort(at, (size_t)count, sizeof *at, compare_bounds);
    while (fit < count && at[fit].lacks <= 0)
        fit++;
    while (done < fit) {
        int now = fit - done < AT_ONCE ? fit - done : AT_ONCE;
        const struct sl_result *out = contest->out;
        if (out->found && at[done].bound > out->best.score.step_ns)
            break; /* and so are all that follow */
        if (!play_some(contest, at + done, &now))
            break;
        done += now;
    }
    play_unfit(contest, at + fit, count - fit);
    contest->played = (int)contest->at.count;
}

bool sl_search_contest_tired(const struct sl_contest *contest) {
    return contest->passes >= 8 * PASSES_MAX || sl_search_query_over(contest->query);
}

void sl_search_contest_tell(const struct sl_contest *contest, const char *phase) {
    const struct sl_query *query = contest->query;
    if (query->progress)
        query->progress(query->progress_ctx, phase, contest->out);
}

void sl_search_contest_close(struct sl_contest *contest) { SL_VEC_FREE(&contest->at); }

bool sl_search_contest_hopeless(const struct sl_contest *contest, const char *schedule, int size) {
    const struct sl_schedule *row = sl_sched_row_find(schedule);
    bool async = row && row->rule != SL_RULE_SYNC;
    return contest->out->found && sl_search_size_bound(contest->query->problem, size, async) >=
                                      contest->out->best.score.step_ns;
}
