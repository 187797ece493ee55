/* The contest: candidates of all planners, played in the order of their bounds. */
#include "search/planner.h"

#include "base/clock.h"
#include "base/par.h"
#include "base/sort.h"

#include <string.h>

bool sl_query_over(const struct sl_query *query) {
    return query->until_ns && sl_clock_ns() > query->until_ns;
}

const char *const *sl_query_schedules(const struct sl_query *query, const char *one[2]) {
    static const char *const sync[] = {"1f1b", "gpipe", "zb-graph", NULL};
    if (!query->schedule)
        return sync;
    one[0] = query->schedule;
    one[1] = NULL;
    return one;
}

static bool same(const struct sl_problem *p, const struct sl_candidate *a,
                 const struct sl_candidate *b) {
    size_t stages = (size_t)a->stage_count;
    return a->stage_count == b->stage_count && a->size == b->size &&
           a->sequential == b->sequential && a->across == b->across &&
           strcmp(a->schedule, b->schedule) == 0 &&
           memcmp(a->width, b->width, sizeof *a->width * stages) == 0 &&
           memcmp(a->recompute, b->recompute, sizeof *a->recompute * stages) == 0 &&
           memcmp(a->stage_of, b->stage_of, sizeof *a->stage_of * (size_t)p->unit_count) == 0;
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
    if (c->order)
        copy.order = sl_vec_freeze(arena, c->order, devices, sizeof *c->order);
    return copy;
}

/* What does not depend on the simulation. */
static struct sl_found measure(const struct sl_problem *p, const struct sl_candidate *c) {
    struct sl_arena scratch = {0};
    struct sl_setup layout;
    sl_setup_build(&scratch, p, c, &layout);
    struct sl_found found = {.c = *c,
                             .bottleneck = sl_setup_bottleneck(&layout, NULL),
                             .bound = sl_setup_bound(&layout)};
    sl_arena_free(&scratch);
    return found;
}

void sl_contest_offer(struct sl_contest *contest, const struct sl_candidate *c,
                      const char *planner) {
    const struct sl_problem *p = contest->query->problem;
    int devices = 0;
    for (int s = 0; s < c->stage_count; s++)
        devices += c->width[s];
    if (devices > p->machine->device_count)
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
    sl_setup_build(&scratch, b->p, &b->at[i].c, &layout);
    b->err[i] = sl_setup_score(&layout, NULL, &b->at[i].score);
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

bool sl_contest_try(struct sl_contest *contest, const struct sl_candidate *c, const char *planner,
                    struct sl_score *score) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_found found = measure(p, c);
    struct batch batch = {p, &found, &(sl_err){SL_OK}};
    play_one(&batch, 0);
    contest->out->played++;
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

static int compare_bounds(const void *a, const void *b) {
    const struct sl_found *x = a, *y = b;
    if (x->bound != y->bound)
        return x->bound < y->bound ? -1 : 1;
    return (x->bottleneck > y->bottleneck) - (x->bottleneck < y->bottleneck);
}

void sl_contest_play(struct sl_contest *contest, int most) {
    enum { AT_ONCE = 8 };
    struct sl_found *at = contest->at.at + contest->played;
    int count = (int)contest->at.count - contest->played, done = 0;
    if (!count)
        return;
    qsort(at, (size_t)count, sizeof *at, compare_bounds);
    while (done < count && done < most) {
        sl_err err[AT_ONCE];
        int now = count - done < AT_ONCE ? count - done : AT_ONCE;
        if (contest->out->found && at[done].bound > contest->out->best.score.step_ns)
            break;
        if (done && sl_query_over(contest->query)) {
            contest->out->timed_out = true;
            break;
        }
        struct batch batch = {contest->query->problem, at + done, err};
        sl_par_for(now, contest->query->threads, play_one, &batch);
        contest->out->played += now;
        for (int i = 0; i < now; i++)
            if (err[i] == SL_OK)
                take(contest, &at[done + i]);
        done += now;
    }
    contest->played = (int)contest->at.count;
}

void sl_contest_close(struct sl_contest *contest) { SL_VEC_FREE(&contest->at); }

/* ---- what nothing can beat ---- */

/* The longest way through the units, there and back. */
static int64_t longest_way(const struct sl_problem *p, int size) {
    struct sl_arena arena = {0};
    int *order = SL_NEW(&arena, int, p->unit_count + 1);
    int64_t *way = SL_NEW(&arena, int64_t, p->unit_count + 1), longest = 0;
    SL_ASSERT(sl_dag_order(&arena, &p->dag, order));
    for (int i = 0; i < p->unit_count; i++) {
        int u = order[i];
        int64_t least = INT64_MAX;
        for (int k = 0; k < p->machine->kind_count; k++) {
            const struct sl_unit_time *t = &sl_problem_times(p, size, k)[u];
            least = t->f + t->i < least ? t->f + t->i : least;
        }
        for (int e = p->dag.in_at[u]; e < p->dag.in_at[u + 1]; e++)
            way[u] = way[p->dag.in[e]] > way[u] ? way[p->dag.in[e]] : way[u];
        way[u] += least;
        longest = way[u] > longest ? way[u] : longest;
    }
    sl_arena_free(&arena);
    return longest;
}

int64_t sl_space_bound(const struct sl_problem *p, bool async) {
    int64_t best = INT64_MAX;
    for (int s = 0; s < p->size_count; s++) {
        int64_t micros = (p->batch + p->sizes[s] - 1) / p->sizes[s], way = longest_way(p, s);
        double speed = 0; /* micro-batches per nanosecond of all devices together */
        for (int k = 0; k < p->machine->kind_count; k++) {
            const struct sl_unit_time *t = sl_problem_times(p, s, k);
            int64_t pass = 0;
            int devices = 0;
            for (int u = 0; u < p->unit_count; u++)
                pass += t[u].f + t[u].i + t[u].w;
            for (int d = 0; d < p->machine->device_count; d++)
                devices += p->machine->kind_of[d] == k;
            speed += (double)devices / (double)(pass ? pass : 1);
        }
        int64_t work = (int64_t)((double)micros / speed), bound = work > way ? work : way;
        if (async)
            bound = sl_async_bound(work, micros, p->machine->device_count);
        best = bound < best ? bound : best;
    }
    return best;
}
