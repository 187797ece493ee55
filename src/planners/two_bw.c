/* 2bw: every width x depth with equal runs of units; all stages have the same width (Narayanan et
 * al. 2021 (PipeDream-2BW), sec. 4).
 *
 *     for width, depth:  the micro-batch size b and recomputation r with the largest throughput
 *         rule           m >= depth micro-batches per pipeline, else two versions stall
 *         MEMORY         versions |W| + state + stashes; d - i micro-batches in flight on stage i,
 *                        only inputs stashed if r (sl_search_candidate_shortfall)
 *         THROUGHPUT     width b / t,  t = max over stages of
 *                            max(compute + transfers of one micro-batch, all-reduce / m)
 *                        compute includes the recomputation; transfers go both ways
 *
 * The closed forms ignore fill, drain and contention. So the simulator compares the best few,
 * each with a different width x depth. */
#include "planners/parts.h"

#include <math.h>
#include <string.h>

enum { KEPT = 16 }; /* number of candidates simulated per schedule */

/* Cuts into runs of nearly equal time, like equal numbers of transformer blocks. Returns their
 * number. */
static int cut(const struct sl_problem *p, const int *order, int size, int depth, int *stage_of) {
    const struct sl_unit_time *t = sl_search_problem_times(p, size, 0);
    double all = 0, sum = 0;
    int last = -1;
    for (int u = 0; u < p->unit_count; u++)
        all += (double)(t[u].f + t[u].i + t[u].w);
    for (int i = 0; i < p->unit_count; i++) {
        const struct sl_unit_time *u = &t[order[i]];
        double time = (double)(u->f + u->i + u->w);
        int stage = (int)((sum + time / 2) / all * depth);
        stage = stage >= depth ? depth - 1 : stage;
        stage = stage > last + 1 ? last + 1 : stage;
        last = stage > last ? stage : last;
        stage_of[order[i]] = last;
        sum += time;
    }
    return last + 1;
}

struct choice {
    int width, depth, size;
    bool recompute;
    double missing; /* bytes that it lacks; <= 0: it fits */
    double time;    /* seconds per sample of the whole job */
};

struct equal_stages {
    struct sl_search_pool *pool;
    const char *schedule;
    int *order, *stage_of, *width;
    bool *recompute;
    struct choice kept[KEPT]; /* best first */
    int kept_count;
};

static bool is_better(const struct choice *a, const struct choice *b) {
    if (a->missing > 0 || b->missing > 0)
        return a->missing < b->missing;
    return a->time < b->time;
}

static void keep(struct equal_stages *s, struct choice choice) {
    if (s->kept_count == KEPT && !is_better(&choice, &s->kept[KEPT - 1]))
        return;
    int at = s->kept_count < KEPT ? s->kept_count++ : KEPT - 1;
    for (; at > 0 && is_better(&choice, &s->kept[at - 1]); at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = choice;
}

/* Returns the time in ns that activations and gradients of one micro-batch take over the link into
 * the stage. */
static double transfer(const struct sl_candidate_detail *detail, int stage, double bytes) {
    int from = detail->device_of[detail->workers[stage - 1][0]];
    int to = detail->device_of[detail->workers[stage][0]];
    return 2e9 * bytes / sl_cost_machine_between(detail->problem->machine, from, to)->bandwidth;
}

/* Returns THROUGHPUT as seconds per sample. */
static double time_of(const struct sl_candidate_detail *detail, const struct choice *choice) {
    const struct sl_problem *p = detail->problem;
    double size = (double)p->sizes[choice->size], slowest = 0;
    double micros = (double)p->batch / size / choice->width;
    for (int i = 0; i < choice->depth; i++) {
        const struct sl_candidate_stage *stage = &detail->stages[i];
        double busy = (double)(stage->f + stage->i + stage->w);
        if (choice->recompute)
            busy += (double)sl_search_recompute_ns(p, stage->f);
        if (i)
            busy += transfer(detail, i, (double)stage->in_bytes * size);
        if (i + 1 < choice->depth)
            busy += transfer(detail, i + 1, (double)stage->out_bytes * size);
        slowest = fmax(slowest, fmax(busy, (double)stage->reduce / micros));
    }
    return slowest / 1e9 / (choice->width * size);
}

/* Makes a candidate of equal stages. False: there are fewer units than stages. */
static bool set_candidate(struct equal_stages *s, const struct choice *choice,
                          struct sl_candidate *out) {
    *out = (struct sl_candidate){.stage_count = choice->depth,
                                 .stage_of = s->stage_of,
                                 .width = s->width,
                                 .recompute = s->recompute,
                                 .size = choice->size,
                                 .schedule = s->schedule};
    for (int i = 0; i < choice->depth; i++) {
        s->width[i] = choice->width;
        s->recompute[i] = choice->recompute;
    }
    return cut(s->pool->query->problem, s->order, choice->size, choice->depth, s->stage_of) ==
           choice->depth;
}

/* Chooses the better recomputation rule for one width, depth and size. False: none is allowed. */
static bool weigh(struct equal_stages *s, struct choice *choice, struct choice *best) {
    const struct sl_problem *p = s->pool->query->problem;
    double spare = (1 - sl_search_query_memory(s->pool->query)) * (double)p->memory[0];
    struct sl_candidate c;
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    bool found = false;
    if (!set_candidate(s, choice, &c))
        return false;
    sl_search_candidate_expand(&arena, p, &c, &detail);
    for (int recompute = 0; recompute < 2; recompute++) {
        if (p->recompute == (recompute ? SL_RECOMPUTE_NEVER : SL_RECOMPUTE_ALWAYS))
            continue;
        choice->recompute = recompute;
        memset(s->recompute, recompute, sizeof *s->recompute * (size_t)choice->depth);
        choice->missing = sl_search_candidate_shortfall(&detail) + spare;
        choice->time = time_of(&detail, choice);
        if (!found || is_better(choice, best))
            *best = *choice;
        found = true;
    }
    sl_arena_free(&arena);
    return found;
}

/* Finds the best micro-batch size for one width and depth. */
static void try_shape(struct equal_stages *s, int width, int depth) {
    const struct sl_problem *p = s->pool->query->problem;
    struct choice best, one;
    bool found = false;
    for (int size = 0; size < p->size_count; size++) {
        struct choice choice = {.width = width, .depth = depth, .size = size};
        int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
        if (micros / width < depth || !weigh(s, &choice, &one))
            continue;
        if (!found || is_better(&one, &best))
            best = one;
        found = true;
    }
    if (found)
        keep(s, best);
}

static void try_shapes(struct equal_stages *s) {
    const struct sl_problem *p = s->pool->query->problem;
    int devices = p->machine->device_count;
    for (int width = 1; width <= (p->straight ? 1 : devices); width++) {
        int max = devices / width < p->unit_count ? devices / width : p->unit_count;
        for (int depth = 1; depth <= max && !sl_search_query_timed_out(s->pool->query); depth++) {
            bool power = !(width & (width - 1)) && (depth == max || !(depth & (depth - 1)));
            if (devices <= 64 || power) /* on large machines: powers of two, and all devices */
                try_shape(s, width, depth);
        }
    }
}

void sl_planners_add_2bw(struct sl_search_pool *pool) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    int devices = p->machine->device_count;
    struct equal_stages s = {
        .pool = pool,
        .order = SL_NEW(&arena, int, p->unit_count + 1),
        .stage_of = SL_NEW(&arena, int, p->unit_count + 1),
        .width = SL_NEW(&arena, int, devices + 1),
        .recompute = SL_NEW(&arena, bool, devices + 1),
    };
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, s.order));
    for (const char *const *row = sl_search_query_schedules(pool->query, one); *row; row++) {
        struct sl_candidate c;
        s.schedule = *row;
        s.kept_count = 0;
        try_shapes(&s);
        for (int i = 0; i < s.kept_count; i++)
            if (set_candidate(&s, &s.kept[i], &c))
                sl_search_pool_add(pool, &c, "2bw");
    }
    sl_arena_free(&arena);
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    sl_planners_add_2bw(&pool);
    sl_search_pool_simulate(&pool);
    sl_search_pool_close(&pool);
    return SL_OK;
}

const struct sl_planner sl_planners_2bw = {
    .name = "2bw",
    .brief = "width x depth of equal stages by closed formulas, at least as many micro-batches "
             "as stages (PipeDream-2BW)",
    .run = run,
};
