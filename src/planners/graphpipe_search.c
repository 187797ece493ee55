/* GraphPipe's dynamic program and bisection (graphpipe.h).
 *
 * For each place of a part there is a list of labels: the ways to compose stages from there to
 * the sink of the part. Labels start from the need of the part's successors:
 *     series     place = number of children that are not composed yet
 *     parallel   place = the branches that are not composed yet */
#include "planners/graphpipe_stage.h"
#include "schedules/schedule.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

enum {
    GRAINS = 64,    /* most devices that the program counts */
    STRAIGHT = 256, /* the same if there are no replicas */
};

typedef struct sl_planners_graphpipe_part part_of_model;
typedef struct sl_planners_graphpipe_piece piece_of_model;
typedef struct sl_planners_graphpipe_label label_of_stages;
typedef struct sl_planners_graphpipe_list list_of_labels;

struct solver {
    struct sl_arena *arena; /* arena for sums of stages */
    struct sl_arena labels; /* arena for the labels of one limit */
    struct sl_planners_graphpipe_stages of;
    int devices; /* devices that the program counts */
    int needs;   /* number of configurations + 1 */
    label_of_stages *draft;
    int64_t until_ns; /* deadline; 0: none */
    int64_t states;
    bool timed_out, dropped;
    /* the solution: */
    int *stage_of, *width, *config; /* width is in devices */
    int stage_count;
    int64_t bottleneck, in_flight;
};

static int max_width(const struct solver *s, int devices) {
    return s->of.p->straight ? 1 : devices;
}

static bool is_over(struct solver *s) {
    if (++s->states % 4096 == 0 && s->until_ns && sl_clock_past(s->until_ns))
        s->timed_out = true;
    return s->timed_out;
}

/* ---- labels ---- */

static void keep(struct solver *s, list_of_labels *list) {
    if (!sl_planners_graphpipe_insert(&s->labels, list, s->draft, s->needs, s->of.rules->labels))
        s->dropped = true;
}

/* Sets the need of the stages before a stage with `samples` in flight; at least the need of
 * `beside` (NULL: none). */
static void set_need(struct solver *s, int config, int64_t samples, const label_of_stages *beside) {
    const struct sl_planners_graphpipe_config *c = s->of.rules->configs;
    for (int i = 0; i < s->needs; i++) {
        int64_t need = i == s->needs - 1
                           ? samples
                           : sl_schedules_row_need(s->of.samples[i], c[i].group, samples,
                                                   s->of.samples[config], c[config].group);
        s->draft->need[i] = beside && beside->need[i] > need ? beside->need[i] : need;
    }
}

/* Adds one stage before `behind`, in every configuration and width. Returns false if it is too slow
 * in all of them. */
static bool add_stage(struct solver *s, const piece_of_model *piece, const label_of_stages *next,
                      const int64_t *behind, list_of_labels *list) {
    bool beside = piece->part->kind == SL_SP_PARALLEL, fast = false;
    int left = s->devices - next->devices;
    for (int c = 0; c < s->needs - 1 && !is_over(s); c++) {
        const struct sl_cut_stage *sum = sl_planners_graphpipe_stage_sums(&s->of, piece, c);
        int64_t least = sl_planners_graphpipe_stage_width(&s->of, sum, c);
        fast |= least <= max_width(s, left);
        for (int w = 1; w <= max_width(s, left); w *= 2) {
            if (w < least)
                continue;
            int width = w * s->of.grain;
            if (!sl_planners_graphpipe_stage_fits(&s->of, sum, c, width, behind[c]))
                continue;
            *s->draft = (label_of_stages){.next = next,
                                          .piece = *piece,
                                          .config = c,
                                          .width = width,
                                          .devices = next->devices + w};
            set_need(s, c, sl_planners_graphpipe_stage_in_flight(&s->of, c, width, behind[c]),
                     beside ? next : NULL);
            keep(s, list);
        }
    }
    return fast;
}

/* Adds a decomposed part before `next`, or beside it. */
static void add_inner(struct solver *s, const label_of_stages *inner, const label_of_stages *next,
                      bool beside, list_of_labels *list) {
    if (next->devices + inner->devices > s->devices)
        return;
    *s->draft =
        (label_of_stages){.next = next, .inner = inner, .devices = next->devices + inner->devices};
    for (int i = 0; i < s->needs; i++)
        s->draft->need[i] =
            beside && next->need[i] > inner->need[i] ? next->need[i] : inner->need[i];
    keep(s, list);
}

static const list_of_labels *solved_before(const struct solver *s, const part_of_model *part,
                                           int place, int tail, const int64_t *behind) {
    for (const struct sl_planners_graphpipe_solved *at = part->solved; at; at = at->next)
        if (at->place == place && at->tail == tail &&
            memcmp(at->behind, behind, sizeof *behind * (size_t)s->needs) == 0)
            return at->list;
    return NULL;
}

static const list_of_labels *remember(struct solver *s, const part_of_model *part, int place,
                                      int tail, const int64_t *behind, const list_of_labels *list) {
    struct sl_planners_graphpipe_solved *solved =
        SL_NEW(&s->labels, struct sl_planners_graphpipe_solved, 1);
    *solved = (struct sl_planners_graphpipe_solved){
        part->solved, place, tail, sl_vec_freeze(&s->labels, behind, s->needs, sizeof *behind),
        list};
    ((part_of_model *)(uintptr_t)part)->solved = solved;
    return list;
}

/* ---- the dynamic program ---- */

static const list_of_labels *solve_parallel(struct solver *s, const part_of_model *part, int all,
                                            const int64_t *behind);
static const list_of_labels *solve_series(struct solver *s, const part_of_model *part, int end,
                                          const int64_t *behind);

static void start(struct solver *s, const int64_t *need, list_of_labels *list) {
    *s->draft = (label_of_stages){.devices = 0};
    for (int i = 0; i < s->needs; i++)
        s->draft->need[i] = need ? need[i] : 0;
    keep(s, list);
}

/* Solves the other branches of a parallel part, and the children of one branch before its tail. */
static const list_of_labels *solve_rest(struct solver *s, const part_of_model *part, int branch,
                                        int tail, const int64_t *behind) {
    int others = sl_planners_graphpipe_has_subsets(part)
                     ? sl_planners_graphpipe_whole(part) & ~(1 << branch)
                     : 1;
    const list_of_labels *known = solved_before(s, part, -1 - branch, tail, behind);
    const list_of_labels *beside = solve_parallel(s, part, others, behind);
    if (known || !tail)
        return known ? known : beside;
    const list_of_labels *before = solve_series(s, part->children[branch], tail, behind);
    list_of_labels *list = SL_NEW(&s->labels, list_of_labels, 1);
    for (int i = 0; i < beside->count; i++)
        for (int k = 0; k < before->count; k++)
            add_inner(s, before->at[k], beside->at[i], true, list);
    return remember(s, part, -1 - branch, tail, behind, list);
}

/* Adds the stages of a run that begin with the tail of a branch before the run. */
static void add_tails(struct solver *s, const part_of_model *part, int from, int to,
                      const label_of_stages *next, list_of_labels *list) {
    const part_of_model *before = part->children[from - 1];
    /* of many branches only the first, so that the others remain neighbours */
    int branches = sl_planners_graphpipe_has_subsets(before) ? before->child_count : 1;
    for (int b = 0; b < branches && before->tail_count; b++) {
        const part_of_model *branch = before->children[b];
        bool fast = true;
        for (int t = branch->kind == SL_SP_SERIES ? branch->child_count - 1 : 0; t >= 0 && fast;
             t--) {
            list_of_labels stages = {0};
            fast = add_stage(s, &(piece_of_model){part, from, to, b, t}, next, next->need, &stages);
            for (int i = 0; i < stages.count; i++) {
                const label_of_stages *stage = stages.at[i];
                const list_of_labels *rest = solve_rest(s, before, b, t, stage->need);
                for (int k = 0; k < rest->count; k++)
                    add_inner(s, rest->at[k], stage, false, list);
            }
        }
    }
}

/* Adds all stages that end before child `end`, and the decompositions of the part that ends
 * there. */
static void extend_series(struct solver *s, const part_of_model *part, int end,
                          const label_of_stages *next, list_of_labels *at) {
    const part_of_model *last = part->children[end - 1];
    double left = (double)(s->devices - next->devices) * s->of.grain;
    bool fast = true;
    if (next->devices == s->devices || part->ahead[end] > left * (double)s->of.limit * (1 + 1e-9))
        return;
    for (int from = end - 1; from >= 0 && fast; from--) {
        piece_of_model run = {part, from, end, -1, 0};
        fast = add_stage(s, &run, next, next->need, &at[from]);
        if (fast && from > 0 && part->children[from - 1]->kind == SL_SP_PARALLEL)
            add_tails(s, part, from, end, next, &at[from - 1]);
    }
    if (last->kind != SL_SP_PARALLEL)
        return;
    int all = sl_planners_graphpipe_whole(last);
    const list_of_labels *inner = solve_parallel(s, last, all, next->need);
    for (int k = 0; k < inner->count; k++)
        add_inner(s, inner->at[k], next, false, &at[end - 1]);
}

/* Returns the ways to compose children [0, end) of a series before stages with this need. */
static const list_of_labels *solve_series(struct solver *s, const part_of_model *part, int end,
                                          const int64_t *behind) {
    const list_of_labels *known = solved_before(s, part, end, 0, behind);
    if (known)
        return known;
    list_of_labels *at = SL_NEW(&s->labels, list_of_labels, end + 1);
    start(s, behind, &at[end]);
    for (int place = end; place > 0; place--)
        for (int i = 0; i < at[place].count && !s->timed_out; i++)
            extend_series(s, part, place, at[place].at[i], at);
    return remember(s, part, end, 0, behind, &at[0]);
}

/* Adds stages of some of the remaining branches, or a decomposition of the first of them. */
static void extend_parallel(struct solver *s, const part_of_model *part, int all,
                            const label_of_stages *next, const int64_t *behind,
                            list_of_labels *at) {
    bool subsets = sl_planners_graphpipe_has_subsets(part);
    int first = sl_planners_graphpipe_lowest(part, all);
    const part_of_model *branch = part->children[first];
    for (int set = sl_planners_graphpipe_first_set(part, all); set;
         set = sl_planners_graphpipe_next_set(part, all, set))
        add_stage(s, &(piece_of_model){part, all, set, -1, 0}, next, behind,
                  &at[sl_planners_graphpipe_without(part, all, set)]);
    if (branch->kind != SL_SP_SERIES)
        return;
    const list_of_labels *inner = solve_series(s, branch, branch->child_count, behind);
    int left = sl_planners_graphpipe_without(part, all, subsets ? 1 << first : first + 1);
    for (int k = 0; k < inner->count; k++)
        add_inner(s, inner->at[k], next, true, &at[left]);
}

/* Returns the ways to compose the branches of `all` before stages with this need. */
static const list_of_labels *solve_parallel(struct solver *s, const part_of_model *part, int all,
                                            const int64_t *behind) {
    const list_of_labels *known = solved_before(s, part, all, 0, behind);
    if (known)
        return known;
    bool subsets = sl_planners_graphpipe_has_subsets(part);
    int count = subsets ? all + 1 : part->child_count + 1, end = subsets ? 0 : part->child_count;
    list_of_labels *at = SL_NEW(&s->labels, list_of_labels, count);
    start(s, NULL, &at[all]);
    for (int now = all; now != end; now += subsets ? -1 : 1)
        for (int i = 0; i < at[now].count && !s->timed_out; i++)
            if (at[now].at[i]->devices < s->devices)
                extend_parallel(s, part, now, at[now].at[i], behind, at);
    return remember(s, part, all, 0, behind, &at[end]);
}

/* ---- the solution ---- */

static void emit_stage(struct solver *s, const label_of_stages *stage) {
    const struct sl_cut_stage *sum =
        sl_planners_graphpipe_stage_sums(&s->of, &stage->piece, stage->config);
    int count = sl_planners_graphpipe_stage_units(&s->of, &stage->piece);
    for (int i = 0; i < count; i++)
        s->stage_of[s->of.set[i]] = s->stage_count;
    int64_t ns = sl_planners_graphpipe_stage_ns(&s->of, sum, stage->config, stage->width);
    s->bottleneck = ns > s->bottleneck ? ns : s->bottleneck;
    s->config[s->stage_count] = stage->config;
    s->width[s->stage_count++] = stage->width;
}

/* Emits the stages, source first; the last label only carries the need of the successors. */
static void emit(struct solver *s, const label_of_stages *label) {
    for (; label->next; label = label->next)
        if (label->inner)
            emit(s, label->inner);
        else
            emit_stage(s, label);
}

/* ---- tables and bisection ---- */

/* Prepares the tails of the branches of a parallel part, for the runs that follow it in a
 * series. */
static void open_tails(struct solver *s, part_of_model *part, int runs) {
    enum { ENTRIES = 1 << 19 };
    int count = 0;
    part->tail_at = SL_NEW(s->arena, int, part->child_count);
    for (int b = 0; b < part->child_count; b++) {
        bool series = part->children[b]->kind == SL_SP_SERIES;
        part->tail_at[b] = count;
        count += series ? part->children[b]->child_count : 1;
    }
    int64_t entries = (int64_t)(runs + 1) * count * s->of.p->size_count;
    if (entries > ENTRIES) {
        s->dropped = true;
        return;
    }
    part->tail_count = count;
    part->tails = SL_NEW(s->arena, struct sl_cut_stage, entries);
    part->tails_known = SL_NEW(s->arena, bool, entries);
}

static void open_tables(struct solver *s, part_of_model *part) {
    int64_t side = part->child_count + 1;
    bool subsets = part->kind == SL_SP_PARALLEL && sl_planners_graphpipe_has_subsets(part);
    int64_t sets = subsets ? (int64_t)1 << part->child_count : side * side;
    if (part->kind == SL_SP_LEAF)
        return;
    part->stages = SL_NEW(s->arena, struct sl_cut_stage, sets * s->of.p->size_count);
    part->known = SL_NEW(s->arena, bool, sets * s->of.p->size_count);
    part->ahead = SL_NEW(s->arena, double, part->child_count + 1);
    for (int c = 0; c < part->child_count; c++) {
        part_of_model *child = (part_of_model *)(uintptr_t)part->children[c];
        part->ahead[c + 1] = part->ahead[c] + sl_planners_graphpipe_stage_work(&s->of, child->units,
                                                                               child->unit_count);
        open_tables(s, child);
        if (child->kind == SL_SP_PARALLEL)
            open_tails(s, child, part->child_count - c - 1);
    }
}

static void forget(part_of_model *part) {
    part->solved = NULL;
    for (int c = 0; c < part->child_count; c++)
        forget((part_of_model *)(uintptr_t)part->children[c]);
}

static bool solve(struct solver *s, const part_of_model *root, int64_t limit) {
    const label_of_stages *best = NULL;
    int64_t *sink = SL_NEW(&s->labels, int64_t, s->needs);
    for (int c = 0; c < s->needs - 1; c++)
        sink[c] = s->of.rules->configs[c].group * s->of.samples[c];
    s->of.limit = limit;
    s->stage_count = 0;
    s->bottleneck = 0;
    const list_of_labels *list = solve_series(s, root, root->child_count, sink);
    for (int i = 0; i < list->count && !s->timed_out; i++)
        if (!best || list->at[i]->need[s->needs - 1] < best->need[s->needs - 1])
            best = list->at[i];
    if (best) {
        s->in_flight = best->need[s->needs - 1];
        emit(s, best);
    }
    forget((part_of_model *)(uintptr_t)root);
    sl_arena_free(&s->labels);
    s->labels = (struct sl_arena){0};
    return best;
}

/* Finds a limit with a solution. With large limits a solve takes long, because every stage is fast
 * enough; so it begins near the smallest limit. */
static bool find_limit(struct solver *s, const part_of_model *root, int64_t *low) {
    enum { TRIES = 16 };
    int64_t limit = *low + *low / 8 + 1;
    for (int i = 0; i < TRIES && !s->timed_out; i++) {
        if (solve(s, root, limit))
            return true;
        *low = limit;
        limit += limit / 4 + 1;
    }
    return solve(s, root, INT64_MAX / 4);
}

/* Finds the smallest limit with a solution, and leaves that solution in *s. */
static bool bisect(struct solver *s, const part_of_model *root) {
    double least = root->ahead[root->child_count] / s->of.p->machine->device_count;
    int64_t low = (int64_t)(least * (1 - 1e-9)) - 1, high;
    if (!find_limit(s, root, &low)) {
        s->dropped |= s->timed_out;
        return false;
    }
    for (high = s->bottleneck; high - low > 1;) {
        int64_t middle = low + (high - low) / 2;
        if ((double)(high - low) <= s->of.rules->tolerance * (double)high || s->timed_out)
            break;
        if (solve(s, root, middle))
            high = s->bottleneck;
        else
            low = middle;
    }
    s->dropped |= s->timed_out;
    s->timed_out = false;
    s->until_ns = 0; /* no deadline: this run is short, and its solution is needed */
    return solve(s, root, high);
}

static double least_memory(const struct sl_problem *p, double scale) {
    double least = INFINITY;
    for (int d = 0; d < p->machine->device_count; d++)
        if (p->memory[d] > 0 && (double)p->memory[d] < least)
            least = (double)p->memory[d];
    return least * (scale > 0 ? scale : 1);
}

/* Wraps the part in a series, because the program starts with one. */
static const part_of_model *as_series(struct sl_arena *arena, const part_of_model *part) {
    if (part->kind == SL_SP_SERIES)
        return part;
    part_of_model *series = SL_NEW(arena, part_of_model, 1);
    *series = (part_of_model){.kind = SL_SP_SERIES,
                              .children = SL_NEW(arena, const part_of_model *, 1),
                              .child_count = 1,
                              .units = part->units,
                              .unit_count = part->unit_count};
    series->children[0] = part;
    return series;
}

static void write_candidate(struct sl_arena *arena, const struct solver *s,
                            struct sl_planners_graphpipe_found *out) {
    const struct sl_planners_graphpipe_config *configs = s->of.rules->configs;
    int *size_of = SL_NEW(arena, int, s->stage_count), smallest = s->of.p->size_count;
    int *group_of = SL_NEW(arena, int, s->stage_count);
    bool *recompute = SL_NEW(arena, bool, s->stage_count), mixed = false, grouped = false;
    for (int i = 0; i < s->stage_count; i++) {
        size_of[i] = configs[s->config[i]].size;
        group_of[i] = configs[s->config[i]].group;
        recompute[i] = s->of.p->recompute == SL_RECOMPUTE_ALWAYS;
        smallest = size_of[i] < smallest ? size_of[i] : smallest;
        mixed |= size_of[i] != size_of[0];
        grouped |= group_of[i] > 1;
    }
    out->c = (struct sl_candidate){
        .stage_count = s->stage_count,
        .stage_of = sl_vec_freeze(arena, s->stage_of, s->of.p->unit_count, sizeof(int)),
        .width = sl_vec_freeze(arena, s->width, s->stage_count, sizeof(int)),
        .recompute = recompute,
        .size = smallest,
        .size_of = mixed ? size_of : NULL,
        .group_of = grouped ? group_of : NULL,
        .schedule = s->of.rules->schedule};
    out->bottleneck = s->bottleneck;
    out->in_flight = s->in_flight;
    out->found = true;
}

static void open_solver(struct solver *s) {
    int devices = s->of.p->machine->device_count, grain = (devices + GRAINS - 1) / GRAINS;
    s->of.grain = s->of.p->straight ? 1 : grain;
    s->devices = devices / s->of.grain < STRAIGHT ? devices / s->of.grain : STRAIGHT;
    s->needs = s->of.rules->config_count + 1;
    s->of.rule = sl_search_memory_rule(s->of.rules->schedule);
    s->of.memory = least_memory(s->of.p, s->of.rules->memory_scale);
    s->until_ns = s->of.rules->until_ns;
    s->of.ring = SL_NEW(s->arena, const struct sl_link *, 32);
    for (int i = 0; devices > 1 && (s->of.grain << i) <= devices; i++)
        s->of.ring[i] = sl_cost_machine_between(
            s->of.p->machine, 0, (s->of.grain << i) > 1 ? (s->of.grain << i) - 1 : 1);
    s->of.wire = devices > 1 ? sl_cost_machine_between(s->of.p->machine, 0, devices - 1) : NULL;
    s->of.samples = SL_NEW(s->arena, int64_t, s->needs);
    s->of.micros = SL_NEW(s->arena, int64_t, s->needs);
    for (int c = 0; c < s->of.rules->config_count; c++) {
        s->of.samples[c] = s->of.p->sizes[s->of.rules->configs[c].size];
        s->of.micros[c] = (s->of.p->batch + s->of.samples[c] - 1) / s->of.samples[c];
    }
    s->of.inside = SL_NEW(s->arena, bool, s->of.p->unit_count);
    s->of.set = SL_NEW(s->arena, int, s->of.p->unit_count);
    s->stage_of = SL_NEW(s->arena, int, s->of.p->unit_count);
    s->width = SL_NEW(s->arena, int, s->devices + 1);
    s->config = SL_NEW(s->arena, int, s->devices + 1);
    s->draft = sl_arena_alloc(
        s->arena, (int64_t)(sizeof *s->draft + sizeof s->draft->need[0] * (size_t)s->needs));
}

void sl_planners_graphpipe_solve(struct sl_arena *arena, const struct sl_problem *p,
                                 const struct sl_sp_tree *tree,
                                 const struct sl_planners_graphpipe_rules *rules,
                                 struct sl_planners_graphpipe_found *out) {
    struct sl_arena scratch = {0};
    struct solver s = {.arena = &scratch, .of = {.p = p, .rules = rules}};
    const part_of_model *root =
        sl_planners_graphpipe_parts(&scratch, p, tree, rules->configs[0].size);
    *out = (struct sl_planners_graphpipe_found){0};
    if (!root)
        return;
    open_solver(&s);
    root = as_series(&scratch, root);
    open_tables(&s, (part_of_model *)(uintptr_t)root);
    if (bisect(&s, root))
        write_candidate(arena, &s, out);
    out->dropped = s.dropped;
    out->states = s.states;
    sl_arena_free(&scratch);
}
