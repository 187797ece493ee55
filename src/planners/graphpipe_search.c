/* GraphPipe's dynamic program and bisection (graphpipe.h). */
#include "planners/graphpipe_parts.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

enum {
    NONE = INT16_MAX, /* window: no solution */
    UNKNOWN = -1,     /* window: not solved yet */
    SPLIT = -1,       /* cut: a parallel part that is decomposed */
    GRAINS = 64,      /* devices of the program, at most */
    STRAIGHT = 256,   /* the same without replicas */
};

struct solver {
    struct sl_arena *arena; /* scratch */
    const struct sl_problem *p;
    const struct sl_planners_graphpipe_rules *rules;
    struct sl_search_memory_rule rule;
    int64_t micros, size, limit; /* limit: ns of an iteration, of this run */
    int grain, devices;          /* a device of the program stands for `grain` devices */
    double memory;
    bool *inside;     /* [unit] scratch of sums */
    int *set;         /* [unit] scratch of sums */
    int64_t until_ns; /* deadline; 0: none */
    int64_t states;   /* solved */
    bool timed_out;
    int *stage_of, *width; /* the solution; width in devices */
    int stage_count;
    int64_t bottleneck;
};

/* ---- one stage ---- */

static int64_t stage_ns(const struct solver *s, const struct sl_cut_stage *sum, int width) {
    const struct sl_machine *m = s->p->machine;
    int64_t rounds = (s->micros + width - 1) / width, reduce = 0, wire = 0;
    if (width > 1) {
        const struct sl_link *link = sl_cost_machine_between(m, 0, width - 1);
        reduce = (int64_t)ceil(1e9 * 2 * (width - 1) / width * sum->params / link->bandwidth) +
                 2 * (width - 1) * link->latency_ns;
    }
    if (sum->in > 0 && m->device_count > 1) {
        const struct sl_link *link = sl_cost_machine_between(m, 0, m->device_count - 1);
        wire = (int64_t)floor(1e9 * (double)rounds * sum->in * (double)s->size / link->bandwidth);
    }
    int64_t busy = rounds * (sum->f + sum->b) + sum->step + reduce;
    return wire > busy ? wire : busy;
}

static bool is_feasible(const struct solver *s, const struct sl_cut_stage *sum, int width,
                        int behind) {
    struct sl_cut_stage stage = *sum;
    stage.width = width * s->grain;
    if (stage.width > s->micros || stage_ns(s, sum, stage.width) > s->limit)
        return false;
    return sl_search_cut_bytes(&s->rule, s->micros, s->size, &stage,
                               (int64_t)(behind + width) * s->grain) <= s->memory;
}

/* Slower than the limit on any number of devices? So is every larger stage. */
static bool is_too_slow(const struct solver *s, const struct sl_cut_stage *sum) {
    int64_t max = s->p->straight ? 1 : (int64_t)s->devices * s->grain;
    return (s->micros + max - 1) / max * (sum->f + sum->b) > s->limit;
}

static int max_width(const struct solver *s, int devices) { return s->p->straight ? 1 : devices; }

static void fill_sums(struct solver *s, int count, struct sl_cut_stage *out) {
    for (int i = 0; i < count; i++)
        s->inside[s->set[i]] = true;
    sl_planners_graphpipe_sums(s->p, s->rules, s->inside, s->set, count, out);
    for (int i = 0; i < count; i++)
        s->inside[s->set[i]] = false;
}

static int collect(struct solver *s, const struct sl_planners_graphpipe_part *part, int child,
                   int count) {
    const struct sl_planners_graphpipe_part *c = part->children[child];
    memcpy(s->set + count, c->units, sizeof *s->set * (size_t)c->unit_count);
    return count + c->unit_count;
}

/* Children [from, to) of a series as one stage. */
static const struct sl_cut_stage *
run_sums(struct solver *s, const struct sl_planners_graphpipe_part *part, int from, int to) {
    int at = from * (part->child_count + 1) + to, count = 0;
    if (!part->known[at]) {
        for (int c = from; c < to; c++)
            count = collect(s, part, c, count);
        fill_sums(s, count, &part->stages[at]);
        part->known[at] = true;
    }
    return &part->stages[at];
}

/* ---- sets of branches ---- */

/* The next set after `set` that contains the first branch of `all`; 0: that was the last one. */
static int next_set(const struct sl_planners_graphpipe_part *part, int all, int set) {
    if (!sl_planners_graphpipe_has_subsets(part))
        return set + 1 < part->child_count + 1 ? set + 1 : 0;
    int first = all & -all, rest = all & ~first;
    int next = ((set & ~first) - rest) & rest; /* subsets of `rest`, ascending */
    return next ? next | first : 0;
}

static int first_set(const struct sl_planners_graphpipe_part *part, int all) {
    return sl_planners_graphpipe_has_subsets(part) ? all & -all : all + 1;
}

/* `all` without `set`. Of many branches: `all` is the first branch left, `set` the end. */
static int without(const struct sl_planners_graphpipe_part *part, int all, int set) {
    return sl_planners_graphpipe_has_subsets(part) ? all & ~set : set;
}

static bool is_empty(const struct sl_planners_graphpipe_part *part, int all) {
    return sl_planners_graphpipe_has_subsets(part) ? !all : all == part->child_count;
}

static int lowest(const struct sl_planners_graphpipe_part *part, int all) {
    return sl_planners_graphpipe_has_subsets(part) ? __builtin_ctz((unsigned)all) : all;
}

static bool holds(const struct sl_planners_graphpipe_part *part, int all, int set, int branch) {
    return sl_planners_graphpipe_has_subsets(part) ? set >> branch & 1
                                                   : branch >= all && branch < set;
}

static int whole(const struct sl_planners_graphpipe_part *part) {
    return sl_planners_graphpipe_has_subsets(part) ? (1 << part->child_count) - 1 : 0;
}

static const struct sl_cut_stage *
set_sums(struct solver *s, const struct sl_planners_graphpipe_part *part, int all, int set) {
    int at = sl_planners_graphpipe_has_subsets(part) ? set : all * (part->child_count + 1) + set,
        count = 0;
    if (!part->known[at]) {
        for (int c = 0; c < part->child_count; c++)
            if (holds(part, all, set, c))
                count = collect(s, part, c, count);
        fill_sums(s, count, &part->stages[at]);
        part->known[at] = true;
    }
    return &part->stages[at];
}

/* ---- the dynamic program ---- */

static struct sl_planners_graphpipe_entry *entry_at(const struct solver *s,
                                                    const struct sl_planners_graphpipe_part *part,
                                                    int position, int behind, int devices) {
    int64_t side = s->devices + 1;
    return part->memo + (position * side + behind) * side + devices;
}

static void offer(struct sl_planners_graphpipe_entry *best, int window, int cut, int width) {
    if (window < best->window)
        *best = (struct sl_planners_graphpipe_entry){(int16_t)window, (int16_t)cut, (int16_t)width};
}

static bool is_over(struct solver *s) {
    if (++s->states % 4096 == 0 && s->until_ns && sl_clock_ns() > s->until_ns)
        s->timed_out = true;
    return s->timed_out;
}

static int solve_parallel(struct solver *s, const struct sl_planners_graphpipe_part *part, int all,
                          int behind, int devices);

/* Smallest source window of children [0, end) on at most `devices`, before a window `behind`. */
static int solve_series(struct solver *s, const struct sl_planners_graphpipe_part *part, int end,
                        int behind, int devices) {
    if (end == 0)
        return behind;
    struct sl_planners_graphpipe_entry *known = entry_at(s, part, end, behind, devices),
                                       best = {NONE, 0, 0};
    if (known->window != UNKNOWN)
        return known->window;
    if (is_over(s))
        return NONE;
    for (int from = end - 1; from >= 0; from--) {
        const struct sl_cut_stage *sum = run_sums(s, part, from, end);
        if (is_too_slow(s, sum))
            break;
        for (int w = 1; w <= max_width(s, devices); w *= 2)
            if (is_feasible(s, sum, w, behind))
                offer(&best, solve_series(s, part, from, behind + w, devices - w), from, w);
    }
    const struct sl_planners_graphpipe_part *last = part->children[end - 1];
    for (int d = 1; last->kind == SL_SP_PARALLEL && d <= devices; d++) {
        int window = solve_parallel(s, last, whole(last), behind, d);
        if (window != NONE)
            offer(&best, solve_series(s, part, end - 1, window, devices - d), SPLIT, d);
    }
    *known = best;
    return best.window;
}

static int solve_parallel(struct solver *s, const struct sl_planners_graphpipe_part *part, int all,
                          int behind, int devices) {
    if (is_empty(part, all))
        return 0;
    struct sl_planners_graphpipe_entry *known = entry_at(s, part, all, behind, devices),
                                       best = {NONE, 0, 0};
    if (known->window != UNKNOWN)
        return known->window;
    if (is_over(s))
        return NONE;
    for (int set = first_set(part, all); set; set = next_set(part, all, set)) {
        const struct sl_cut_stage *sum = set_sums(s, part, all, set);
        for (int w = 1; !is_too_slow(s, sum) && w <= max_width(s, devices); w *= 2) {
            if (!is_feasible(s, sum, w, behind))
                continue;
            int rest = solve_parallel(s, part, without(part, all, set), behind, devices - w);
            offer(&best, rest > behind + w ? rest : behind + w, set, w);
        }
    }
    int first = lowest(part, all);
    const struct sl_planners_graphpipe_part *branch = part->children[first];
    int left = without(part, all, sl_planners_graphpipe_has_subsets(part) ? 1 << first : first + 1);
    for (int d = 2; branch->kind == SL_SP_SERIES && d <= devices; d++) {
        int window = solve_series(s, branch, branch->child_count, behind, d);
        int rest = window == NONE ? NONE : solve_parallel(s, part, left, behind, devices - d);
        offer(&best, rest > window ? rest : window, SPLIT, d);
    }
    *known = best;
    return best.window;
}

/* ---- the solution ---- */

static void emit_stage(struct solver *s, const struct sl_cut_stage *sum, int width) {
    int64_t ns = stage_ns(s, sum, width * s->grain);
    s->bottleneck = ns > s->bottleneck ? ns : s->bottleneck;
    s->width[s->stage_count++] = width * s->grain;
}

static void place(struct solver *s, const struct sl_planners_graphpipe_part *part) {
    for (int i = 0; i < part->unit_count; i++)
        s->stage_of[part->units[i]] = s->stage_count;
}

static int emit_parallel(struct solver *s, const struct sl_planners_graphpipe_part *part, int all,
                         int behind, int devices);

/* Repeats the choices of the program, source first; returns the source window. */
static int emit_series(struct solver *s, const struct sl_planners_graphpipe_part *part, int end,
                       int behind, int devices) {
    if (end == 0)
        return behind;
    struct sl_planners_graphpipe_entry e = *entry_at(s, part, end, behind, devices);
    if (e.cut == SPLIT) {
        const struct sl_planners_graphpipe_part *last = part->children[end - 1];
        int window = entry_at(s, last, whole(last), behind, e.width)->window;
        emit_series(s, part, end - 1, window, devices - e.width);
        emit_parallel(s, last, whole(last), behind, e.width);
    } else {
        emit_series(s, part, e.cut, behind + e.width, devices - e.width);
        for (int c = e.cut; c < end; c++)
            place(s, part->children[c]);
        emit_stage(s, run_sums(s, part, e.cut, end), e.width);
    }
    return e.window;
}

static int emit_parallel(struct solver *s, const struct sl_planners_graphpipe_part *part, int all,
                         int behind, int devices) {
    if (is_empty(part, all))
        return 0;
    struct sl_planners_graphpipe_entry e = *entry_at(s, part, all, behind, devices);
    if (e.cut == SPLIT) {
        int first = lowest(part, all),
            bit = sl_planners_graphpipe_has_subsets(part) ? 1 << first : first + 1;
        const struct sl_planners_graphpipe_part *branch = part->children[first];
        emit_series(s, branch, branch->child_count, behind, e.width);
        emit_parallel(s, part, without(part, all, bit), behind, devices - e.width);
    } else {
        for (int c = 0; c < part->child_count; c++)
            if (holds(part, all, e.cut, c))
                place(s, part->children[c]);
        emit_stage(s, set_sums(s, part, all, e.cut), e.width);
        emit_parallel(s, part, without(part, all, e.cut), behind, devices - e.width);
    }
    return e.window;
}

/* ---- tables and bisection ---- */

static int positions(const struct sl_planners_graphpipe_part *part) {
    if (part->kind == SL_SP_LEAF)
        return 0;
    return part->kind == SL_SP_PARALLEL && sl_planners_graphpipe_has_subsets(part)
               ? 1 << part->child_count
               : part->child_count + 1;
}

static void open_tables(struct solver *s, struct sl_planners_graphpipe_part *part) {
    int count = positions(part), side = s->devices + 1;
    int sets = part->kind == SL_SP_PARALLEL && sl_planners_graphpipe_has_subsets(part)
                   ? count
                   : (part->child_count + 1) * (part->child_count + 1);
    if (!count)
        return;
    part->stages = SL_NEW(s->arena, struct sl_cut_stage, sets);
    part->known = SL_NEW(s->arena, bool, sets);
    part->memo = SL_NEW(s->arena, struct sl_planners_graphpipe_entry, (int64_t)count * side * side);
    for (int c = 0; c < part->child_count; c++)
        open_tables(s, (struct sl_planners_graphpipe_part *)(uintptr_t)part->children[c]);
}

static void clear_tables(const struct solver *s, const struct sl_planners_graphpipe_part *part) {
    int64_t side = s->devices + 1, count = positions(part) * side * side;
    for (int64_t i = 0; i < count; i++)
        part->memo[i].window = UNKNOWN;
    for (int c = 0; c < part->child_count; c++)
        clear_tables(s, part->children[c]);
}

static bool solve(struct solver *s, const struct sl_planners_graphpipe_part *root, int64_t limit,
                  int *window) {
    s->limit = limit;
    s->stage_count = 0;
    s->bottleneck = 0;
    clear_tables(s, root);
    if (solve_series(s, root, root->child_count, 0, s->devices) == NONE || s->timed_out)
        return false;
    *window = emit_series(s, root, root->child_count, 0, s->devices);
    return true;
}

/* The smallest limit with a solution; leaves that solution in *s. */
static bool bisect(struct solver *s, const struct sl_planners_graphpipe_part *root, int *window) {
    int64_t low = -1, high;
    if (!solve(s, root, INT64_MAX / 4, window))
        return false;
    for (high = s->bottleneck; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        if ((double)(high - low) <= s->rules->tolerance * (double)high || s->timed_out)
            break;
        if (solve(s, root, middle, window))
            high = s->bottleneck;
        else
            low = middle;
    }
    s->timed_out = false;
    s->until_ns = 0; /* the last run is short, and its solution is needed */
    return solve(s, root, high, window);
}

static double least_memory(const struct sl_problem *p, double scale) {
    double least = INFINITY;
    for (int d = 0; d < p->machine->device_count; d++)
        if (p->memory[d] > 0 && (double)p->memory[d] < least)
            least = (double)p->memory[d];
    return least * (scale > 0 ? scale : 1);
}

/* A series, so that the program starts with one; its only child may be the whole model. */
static const struct sl_planners_graphpipe_part *
as_series(struct sl_arena *arena, const struct sl_planners_graphpipe_part *part) {
    if (part->kind == SL_SP_SERIES)
        return part;
    struct sl_planners_graphpipe_part *series = SL_NEW(arena, struct sl_planners_graphpipe_part, 1);
    *series = (struct sl_planners_graphpipe_part){
        .kind = SL_SP_SERIES,
        .children = SL_NEW(arena, const struct sl_planners_graphpipe_part *, 1),
        .child_count = 1,
        .units = part->units,
        .unit_count = part->unit_count};
    series->children[0] = part;
    return series;
}

static void keep(struct sl_arena *arena, const struct solver *s,
                 struct sl_planners_graphpipe_found *out) {
    int *stage_of = SL_NEW(arena, int, s->p->unit_count);
    int *width = SL_NEW(arena, int, s->stage_count);
    memcpy(stage_of, s->stage_of, sizeof *stage_of * (size_t)s->p->unit_count);
    memcpy(width, s->width, sizeof *width * (size_t)s->stage_count);
    out->c = (struct sl_candidate){.stage_count = s->stage_count,
                                   .stage_of = stage_of,
                                   .width = width,
                                   .recompute = SL_NEW(arena, bool, s->stage_count),
                                   .size = s->rules->size,
                                   .schedule = s->rules->schedule};
    out->bottleneck = s->bottleneck;
    out->found = true;
}

void sl_planners_graphpipe_solve(struct sl_arena *arena, const struct sl_problem *p,
                                 const struct sl_sp_tree *tree,
                                 const struct sl_planners_graphpipe_rules *rules,
                                 struct sl_planners_graphpipe_found *out) {
    struct sl_arena scratch = {0};
    int devices = p->machine->device_count, grain = (devices + GRAINS - 1) / GRAINS;
    struct solver s = {.arena = &scratch,
                       .p = p,
                       .rules = rules,
                       .rule = sl_search_memory_rule(rules->schedule),
                       .size = p->sizes[rules->size],
                       .until_ns = rules->until_ns,
                       .grain = p->straight ? 1 : grain,
                       .memory = least_memory(p, rules->memory_scale)};
    const struct sl_planners_graphpipe_part *root =
        sl_planners_graphpipe_parts(&scratch, p, tree, rules->size);
    *out = (struct sl_planners_graphpipe_found){0};
    if (!root)
        return;
    root = as_series(&scratch, root);
    s.devices = devices / s.grain < STRAIGHT ? devices / s.grain : STRAIGHT;
    s.micros = (p->batch + s.size - 1) / s.size;
    s.inside = SL_NEW(&scratch, bool, p->unit_count);
    s.set = SL_NEW(&scratch, int, p->unit_count);
    s.stage_of = SL_NEW(&scratch, int, p->unit_count);
    s.width = SL_NEW(&scratch, int, s.devices + 1);
    open_tables(&s, (struct sl_planners_graphpipe_part *)(uintptr_t)root);
    if (bisect(&s, root, &out->window))
        keep(arena, &s, out);
    out->states = s.states;
    out->window *= s.grain;
    sl_arena_free(&scratch);
}
