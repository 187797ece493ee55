/* The bottleneck search (cuts.h): labels, sweeps, bisection. */
#include "search/cuts_table.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

struct label {
    int ideal, from; /* label on the larger downset that it continues; -1: none */
    int devices, stages;
    int width;
    bool recompute;
    /* index of the windows of the crossing tensors in windows.at; sequential: of one window */
    int64_t vec;
    int next; /* next label on the same downset */
};

struct cut_search {
    struct sl_cut_table t;
    struct sl_cut_found *out;
    struct sl_arena *arena;
    int *head; /* [downset] first label */
    SL_VEC(struct label) labels;
    SL_VEC(int) windows;
    int *scratch; /* windows of the label that is being made */
    int *needs;   /* [downset] lower bound on the number of devices for its units */
};

/* ---- labels ---- */

static int vec_length(const struct cut_search *s, int ideal) {
    return s->t.rules->sequential
               ? 1
               : s->t.downsets->live_at[ideal + 1] - s->t.downsets->live_at[ideal];
}

static bool dominates(const int *a, int a_devices, const int *b, int b_devices, int length) {
    if (a_devices > b_devices)
        return false;
    for (int i = 0; i < length; i++)
        if (a[i] > b[i])
            return false;
    return true;
}

static void add_label(struct cut_search *s, struct label label) {
    int length = vec_length(s, label.ideal), count = 0;
    int *link = &s->head[label.ideal];
    while (*link >= 0) {
        struct label *old = &s->labels.at[*link];
        const int *windows = s->windows.at + old->vec;
        if (dominates(windows, old->devices, s->scratch, label.devices, length))
            return;
        if (dominates(s->scratch, label.devices, windows, old->devices, length)) {
            *link = old->next;
            continue;
        }
        link = &old->next;
        count++;
    }
    if (s->t.rules->labels && count >= s->t.rules->labels) {
        s->out->dropped = true;
        return;
    }
    label.vec = s->windows.count;
    SL_VEC_RESERVE(&s->windows, length);
    if (length)
        memcpy(s->windows.at + s->windows.count, s->scratch, sizeof(int) * (size_t)length);
    s->windows.count += length;
    label.next = s->head[label.ideal];
    s->head[label.ideal] = (int)s->labels.count;
    SL_PUSH(&s->labels, label);
}

/* Returns the largest window of the stages that read the stage larger \ smaller, given a label on
 * `larger`. */
static int window_behind(const struct cut_search *s, const struct label *label, int smaller) {
    const struct sl_search_downsets *f = s->t.downsets;
    const int *windows = s->windows.at + label->vec;
    int max = 0, larger = label->ideal;
    if (s->t.rules->sequential)
        return windows[0];
    for (int i = f->live_at[larger]; i < f->live_at[larger + 1]; i++) {
        bool made = !sl_bit(sl_ideal(&f->ideals, smaller), s->t.p->tensors[f->live[i]].from);
        int window = windows[i - f->live_at[larger]];
        max = made && window > max ? window : max;
    }
    return max;
}

/* Fills the windows of the tensors that cross `smaller`, if the new stage has window `window`. */
static void windows_after(struct cut_search *s, const struct label *label, int smaller,
                          int window) {
    const struct sl_search_downsets *f = s->t.downsets;
    const int *old = s->windows.at + label->vec;
    int larger = label->ideal, at = f->live_at[larger];
    if (s->t.rules->sequential) {
        s->scratch[0] = window;
        return;
    }
    for (int i = f->live_at[smaller], k = 0; i < f->live_at[smaller + 1]; i++, k++) {
        int tensor = f->live[i];
        s->scratch[k] =
            sl_search_cut_reads(&s->t, &s->t.p->tensors[tensor], larger, smaller) ? window : 0;
        while (at < f->live_at[larger + 1] && f->live[at] < tensor)
            at++;
        if (at < f->live_at[larger + 1] && f->live[at] == tensor &&
            old[at - f->live_at[larger]] > s->scratch[k])
            s->scratch[k] = old[at - f->live_at[larger]];
    }
}

/* Adds a label for the stage before label `at`; `made` has the stage's width and recompute flag. */
static void add_stage(struct cut_search *s, int at, int smaller, int window, struct label made) {
    struct label label = s->labels.at[at];
    windows_after(s, &label, smaller, window);
    made.ideal = smaller;
    made.from = at;
    made.devices = label.devices + made.width;
    made.stages = label.stages + 1;
    made.next = -1;
    add_label(s, made);
}

static void try_pair(struct cut_search *s, int larger, int smaller, struct sl_cut_stage *stage) {
    int needs = s->needs[smaller] + sl_search_cut_min_devices(&s->t, larger, smaller);
    bool known = false; /* true once stage->in and stage->out are computed */
    for (int at = s->head[larger]; at >= 0; at = s->labels.at[at].next) {
        struct label label = s->labels.at[at];
        if (label.devices + needs > s->t.rules->devices)
            continue; /* more devices would be needed than are left */
        if (!known)
            sl_search_cut_border(&s->t, larger, smaller, stage);
        known = true;
        int behind = window_behind(s, &label, smaller);
        int plain = 0, less = 0; /* smallest width without (plain) and with (less) recomputation */
        stage->recompute = false;
        if (s->t.rules->recompute != SL_RECOMPUTE_ALWAYS)
            plain = sl_search_cut_width(&s->t, larger, smaller, label.devices, behind, stage);
        stage->recompute = true;
        if (s->t.rules->recompute != SL_RECOMPUTE_NEVER && plain != 1)
            less = sl_search_cut_width(&s->t, larger, smaller, label.devices, behind, stage);
        if (plain)
            add_stage(s, at, smaller, behind + plain, (struct label){.width = plain});
        /* otherwise recomputation is slower and saves no device */
        if (less && (!plain || less < plain))
            add_stage(s, at, smaller, behind + less,
                      (struct label){.width = less, .recompute = true});
    }
}

static void sweep(struct cut_search *s, int64_t limit) {
    const struct sl_ideals *ideals = &s->t.downsets->ideals;
    int last = ideals->count - 1;
    s->t.limit = limit;
    s->out->sweeps++;
    s->labels.count = s->windows.count = 0;
    for (int i = 0; i <= last; i++) {
        s->head[i] = -1;
        s->needs[i] = sl_search_cut_min_devices(&s->t, i, 0);
    }
    s->scratch[0] = 0;
    add_label(s, (struct label){.ideal = last, .from = -1, .next = -1});
    for (int larger = last; larger > 0; larger--) {
        if (s->head[larger] < 0)
            continue;
        struct sl_cut_stage stage = {0};
        for (int smaller = larger - 1; smaller >= 0; smaller--) {
            if (!s->t.downsets->nested &&
                !sl_subset(sl_ideal(ideals, smaller), sl_ideal(ideals, larger), ideals->words))
                continue;
            if (sl_search_cut_is_too_slow(&s->t, larger, smaller)) {
                if (s->t.downsets->nested)
                    break;
                continue;
            }
            double step =
                sl_search_cut_work(&s->t, s->t.downsets->nested ? smaller + 1 : larger, smaller);
            stage.work = s->t.downsets->nested && stage.work > step ? stage.work : step;
            s->out->pairs++;
            try_pair(s, larger, smaller, &stage);
        }
    }
}

/* ---- plans ---- */

static void give_stages(struct cut_search *s, int label, struct sl_candidate *c, int *stage_of,
                        int *width, bool *recompute) {
    const struct sl_ideals *ideals = &s->t.downsets->ideals;
    for (int stage = 0; s->labels.at[label].from >= 0; stage++) {
        const struct label *l = &s->labels.at[label];
        const uint64_t *small = sl_ideal(ideals, l->ideal);
        const uint64_t *large = sl_ideal(ideals, s->labels.at[l->from].ideal);
        for (int u = 0; u < s->t.p->unit_count; u++)
            if (sl_bit(large, u) && !sl_bit(small, u))
                stage_of[u] = stage;
        width[stage] = l->width;
        recompute[stage] = l->recompute;
        c->stage_count = stage + 1;
        label = l->from;
    }
}

static struct sl_candidate make_plan(struct cut_search *s, struct sl_arena *arena, int label) {
    int stages = s->labels.at[label].stages, used = s->labels.at[label].devices;
    int *stage_of = SL_NEW(arena, int, s->t.p->unit_count + 1);
    int *width = SL_NEW(arena, int, stages + 1), *order = SL_NEW(arena, int, used + 1);
    bool *recompute = SL_NEW(arena, bool, stages + 1);
    struct sl_candidate c = {.size = s->t.rules->size,
                             .schedule = s->t.rules->schedule,
                             .sequential = s->t.rules->sequential,
                             .stage_of = stage_of,
                             .width = width,
                             .recompute = recompute,
                             .order = order};
    give_stages(s, label, &c, stage_of, width, recompute);
    for (int i = 0; i < used; i++)
        order[i] = sl_search_cut_device(&s->t, used - 1 - i);
    return c;
}

/* Returns the bottleneck of the plan that ends with this label. */
static int64_t plan_time(struct cut_search *s, int label) {
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate c = make_plan(s, &arena, label);
    sl_search_candidate_expand(&arena, s->t.p, &c, &detail);
    int64_t time = sl_search_candidate_bottleneck(&detail, NULL);
    sl_arena_free(&arena);
    return time < s->t.limit ? time : s->t.limit;
}

static bool bisect(struct cut_search *s, int64_t until_ns, int64_t *best) {
    int64_t low = 0, high = INT64_MAX / 4;
    if (s->t.rules->limit) {
        sweep(s, s->t.rules->limit);
        if (s->head[0] < 0)
            return false;
    }
    sweep(s, high);
    if (s->head[0] < 0)
        return false;
    for (int at = s->head[0]; at >= 0; at = s->labels.at[at].next) {
        int64_t time = plan_time(s, at);
        high = time < high ? time : high;
    }
    while (high - low > 1 && (double)(high - low) > s->t.rules->tolerance * (double)high) {
        int64_t middle = low + (high - low) / 2;
        if (sl_clock_past(until_ns))
            break;
        sweep(s, middle);
        if (s->head[0] < 0) {
            low = middle;
            continue;
        }
        int64_t time = plan_time(s, s->head[0]);
        high = time > low ? time : middle;
    }
    s->out->bound = low + 1 < high && s->t.rules->tolerance > 0 ? low + 1 : high;
    *best = high;
    return true;
}

/* Adds plans for looser limits too: they have shorter pipelines with fewer devices, and may win in
 * the simulation, which counts fill and drain. */
static void collect(struct cut_search *s, int64_t best, int64_t until_ns) {
    static const double slack[] = {1, 1.02, 1.06, 1.12, 1.25, 1.5, 2, 3};
    for (int i = 0; i < (s->t.rules->best_only ? 1 : SL_COUNT(slack)); i++) {
        double limit = (double)best * slack[i];
        if (i &&
            (sl_clock_past(until_ns) || (s->t.rules->limit && limit > (double)s->t.rules->limit)))
            return;
        sweep(s, (int64_t)ceil(limit));
        int taken = 0;
        for (int at = s->head[0]; at >= 0 && taken < 8; at = s->labels.at[at].next, taken++)
            SL_PUSH(&s->out->at, make_plan(s, s->arena, at));
    }
}

static void find_tight(struct cut_search *s) {
    s->out->tight_unit = isinf(s->t.memory_least) ? 0 : -1;
    s->out->tight_bytes = 0;
    if (isinf(s->t.memory_least))
        return;
    for (int u = 0; u < s->t.p->unit_count; u++) {
        const struct sl_unit *unit = &s->t.p->units[u];
        struct sl_cut_stage stage = {.params = (double)unit->params,
                                     .fixed = (double)(unit->fixed + unit->grads + unit->state),
                                     .stash = unit->stash,
                                     .work = unit->work,
                                     .width = 1,
                                     .recompute = s->t.rules->recompute != SL_RECOMPUTE_NEVER};
        double over = sl_search_cut_bytes(&s->t.rule, 1, s->t.size, &stage, 1) - s->t.memory_least;
        if (over > (double)s->out->tight_bytes || s->out->tight_unit < 0) {
            s->out->tight_unit = u;
            s->out->tight_bytes = (int64_t)over;
        }
    }
}

void sl_search_cuts_search(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_search_downsets *downsets,
                           const struct sl_cut_rules *rules, int64_t until_ns,
                           struct sl_cut_found *out) {
    int64_t best;
    struct cut_search s = {.out = out, .arena = arena};
    *out = (struct sl_cut_found){0};
    s.head = SL_NEW(arena, int, downsets->ideals.count);
    s.scratch = SL_NEW(arena, int, problem->tensor_count + 1);
    s.needs = SL_NEW(arena, int, downsets->ideals.count);
    sl_search_cut_table_build(arena, problem, downsets, rules, &s.t);
    if (bisect(&s, until_ns, &best)) {
        out->best = best;
        collect(&s, best, until_ns);
    } else {
        find_tight(&s);
    }
    SL_VEC_FREE(&s.labels);
    SL_VEC_FREE(&s.windows);
}
