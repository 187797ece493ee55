/* The bottleneck search (cuts.h): labels, sweeps, bisection. */
#include "search/cuts.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

struct label {
    int ideal, from; /* label of the larger downset; -1: none */
    int devices, stages;
    int width;
    bool recompute;
    int64_t vec; /* windows of the crossing tensors; sequential: one window */
    int next;    /* on the same downset */
};

struct sums { /* of all units of a downset */
    int64_t f, b, step;
    double params, fixed, stash;
};

struct search {
    const struct sl_problem *p;
    const struct sl_family *family;
    const struct sl_cut_rules *rules;
    struct sl_cut_found *out;
    struct sl_arena *arena;
    struct sums **sums; /* [kind][ideal] */
    int64_t micros, size, limit;
    int *head; /* [ideal] */
    SL_VEC(struct label) labels;
    SL_VEC(int) windows;
    int *scratch; /* windows of the label in the making */
    const int *order;
    double memory_least;
    struct sl_memory_rule rule;
};

struct sl_memory_rule sl_memory_rule(const char *schedule) {
    return (struct sl_memory_rule){.all = strcmp(schedule, "gpipe") == 0,
                                   .twice = strcmp(schedule, "2bw") == 0,
                                   .stashes = strcmp(schedule, "stash") == 0 ||
                                              strcmp(schedule, "vsync") == 0};
}

double sl_cut_bytes(const struct sl_memory_rule *rule, int64_t micros, int64_t size,
                    const struct sl_cut_stage *s, int64_t window) {
    int64_t live = rule->all || window > micros ? micros : window;
    live = (live + s->width - 1) / s->width;
    int64_t behind = (window - 1 + micros - 1) / micros;
    double versions = rule->stashes ? 1 + (double)behind : rule->twice ? 2 : 1;
    double one = (s->stash + s->in) * (double)size;
    double stash = s->recompute ? (double)live * s->in * (double)size + one : (double)live * one;
    double messages = 2 * (s->in + s->out) * (double)size;
    return versions * s->params + s->fixed + stash + messages + s->work * (double)size;
}

/* The least width with which the micro-batches in flight fit: a hint, memory is checked anyway. */
static int64_t width_for_memory(const struct sl_memory_rule *rule, int64_t micros, int64_t size,
                                const struct sl_cut_stage *s, int64_t behind, double memory) {
    struct sl_cut_stage one = *s;
    one.width = 1;
    double live_bytes = (s->recompute ? s->in : s->stash + s->in) * (double)size;
    double left = memory - sl_cut_bytes(rule, 1, size, &one, 1);
    if (left < 0)
        return INT64_MAX;
    if (live_bytes <= 0 || (behind == 0 && !rule->all))
        return 1;
    double beside = floor(left / live_bytes); /* micro-batches besides the first */
    int64_t more = beside < 1e15 ? (int64_t)beside : (int64_t)1e15;
    int64_t width = (micros + more) / (more + 1);
    if (!rule->all && more > 0 && (behind + more - 1) / more < width)
        width = (behind + more - 1) / more;
    return width > 1 ? width : 1;
}

static int device_at(const struct search *s, int position) {
    return s->order ? s->order[position] : s->p->machine->device_count - 1 - position;
}

/* ---- sums of downsets ---- */

static void fill_sums(struct search *s) {
    const struct sl_problem *p = s->p;
    const struct sl_ideals *ideals = &s->family->ideals;
    s->sums = SL_NEW(s->arena, struct sums *, p->machine->kind_count);
    for (int k = 0; k < p->machine->kind_count; k++) {
        const struct sl_unit_time *t = sl_problem_times(p, s->rules->size, k);
        s->sums[k] = SL_NEW(s->arena, struct sums, ideals->count);
        for (int i = 0; i < ideals->count; i++)
            for (int w = 0; w < ideals->words; w++)
                for (uint64_t bits = sl_ideal(ideals, i)[w]; bits; bits &= bits - 1) {
                    int u = w * 64 + __builtin_ctzll(bits);
                    struct sums *sum = &s->sums[k][i];
                    sum->f += t[u].f;
                    sum->b += t[u].i + t[u].w;
                    sum->step += t[u].step;
                    sum->params += (double)p->units[u].params;
                    sum->fixed += (double)(p->units[u].grads + p->units[u].state);
                    sum->stash += p->units[u].stash;
                }
    }
}

static double most_work(const struct search *s, int larger, int smaller) {
    const struct sl_ideals *ideals = &s->family->ideals;
    const uint64_t *a = sl_ideal(ideals, larger), *b = sl_ideal(ideals, smaller);
    double most = 0;
    for (int w = 0; w < ideals->words; w++)
        for (uint64_t bits = a[w] & ~b[w]; bits; bits &= bits - 1) {
            double work = s->p->units[w * 64 + __builtin_ctzll(bits)].work;
            most = work > most ? work : most;
        }
    return most;
}

static bool reads(const struct search *s, const struct sl_tensor *tensor, int larger, int smaller) {
    const struct sl_ideals *ideals = &s->family->ideals;
    const uint64_t *a = sl_ideal(ideals, larger), *b = sl_ideal(ideals, smaller);
    for (int i = 0; i < tensor->to_count; i++)
        if (sl_bit(a, tensor->to[i]) && !sl_bit(b, tensor->to[i]))
            return true;
    return false;
}

/* Bytes that enter and leave the stage larger \ smaller. */
static void sum_border(const struct search *s, int larger, int smaller, struct sl_cut_stage *out) {
    const struct sl_family *f = s->family;
    out->in = out->out = 0;
    for (int i = f->live_at[smaller]; i < f->live_at[smaller + 1]; i++) {
        const struct sl_tensor *tensor = &s->p->tensors[f->live[i]];
        if (reads(s, tensor, larger, smaller))
            out->in += (double)tensor->sample_bytes;
    }
    for (int i = f->live_at[larger]; i < f->live_at[larger + 1]; i++) {
        const struct sl_tensor *tensor = &s->p->tensors[f->live[i]];
        if (!sl_bit(sl_ideal(&f->ideals, smaller), tensor->from))
            out->out += (double)tensor->sample_bytes;
    }
}

/* ---- labels ---- */

static int vec_length(const struct search *s, int ideal) {
    return s->rules->sequential ? 1 : s->family->live_at[ideal + 1] - s->family->live_at[ideal];
}

static bool dominates(const int *a, int a_devices, const int *b, int b_devices, int length) {
    if (a_devices > b_devices)
        return false;
    for (int i = 0; i < length; i++)
        if (a[i] > b[i])
            return false;
    return true;
}

static void add_label(struct search *s, struct label label) {
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
    if (s->rules->labels && count >= s->rules->labels) {
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

/* The largest window behind the stage larger \ smaller, given a label on `larger`. */
static int window_behind(const struct search *s, const struct label *label, int smaller) {
    const struct sl_family *f = s->family;
    const int *windows = s->windows.at + label->vec;
    int most = 0, larger = label->ideal;
    if (s->rules->sequential)
        return windows[0];
    for (int i = f->live_at[larger]; i < f->live_at[larger + 1]; i++) {
        bool made = !sl_bit(sl_ideal(&f->ideals, smaller), s->p->tensors[f->live[i]].from);
        int window = windows[i - f->live_at[larger]];
        most = made && window > most ? window : most;
    }
    return most;
}

/* Windows of the tensors that cross `smaller` once the stage has window `window`. */
static void windows_after(struct search *s, const struct label *label, int smaller, int window) {
    const struct sl_family *f = s->family;
    const int *old = s->windows.at + label->vec;
    int larger = label->ideal, at = f->live_at[larger];
    if (s->rules->sequential) {
        s->scratch[0] = window;
        return;
    }
    for (int i = f->live_at[smaller], k = 0; i < f->live_at[smaller + 1]; i++, k++) {
        int tensor = f->live[i];
        s->scratch[k] = reads(s, &s->p->tensors[tensor], larger, smaller) ? window : 0;
        while (at < f->live_at[larger + 1] && f->live[at] < tensor)
            at++;
        if (at < f->live_at[larger + 1] && f->live[at] == tensor &&
            old[at - f->live_at[larger]] > s->scratch[k])
            s->scratch[k] = old[at - f->live_at[larger]];
    }
}

/* ---- stages ---- */

static int slowest(const struct search *s, int first, int width) {
    const struct sl_machine *m = s->p->machine;
    int kind = m->kind_of[device_at(s, first)];
    for (int i = 1; i < width && m->kind_count > 1; i++) {
        int other = m->kind_of[device_at(s, first + i)];
        kind = m->kinds[other].flops[0] < m->kinds[kind].flops[0] ? other : kind;
    }
    return kind;
}

static double least_memory(const struct search *s, int first, int width) {
    double least = INFINITY;
    for (int i = 0; i < width; i++) {
        double memory = (double)s->p->memory[device_at(s, first + i)];
        least = memory > 0 && memory < least ? memory : least;
        if (s->p->machine->kind_count == 1)
            break;
    }
    return least * (s->rules->memory_scale > 0 ? s->rules->memory_scale : 1);
}

/* Time of an iteration on this stage with its first device at `first`. */
static int64_t stage_time(const struct search *s, const struct sl_cut_stage *stage, int first) {
    const struct sl_machine *m = s->p->machine;
    int64_t rounds = (s->micros + stage->width - 1) / stage->width, reduce = 0;
    int64_t pass = stage->f + stage->b + (stage->recompute ? stage->f : 0);
    if (stage->width > 1) {
        int devices[2] = {device_at(s, first), device_at(s, first + stage->width - 1)};
        const struct sl_link *link = sl_machine_between(m, devices[0], devices[1]);
        reduce = (int64_t)ceil(1e9 * 2 * (stage->width - 1) / stage->width * stage->params /
                               link->bandwidth) +
                 2 * (stage->width - 1) * link->latency_ns;
    }
    int64_t busy = rounds * pass + stage->step + reduce, end = first + stage->width;
    if (stage->in <= 0 || end >= s->rules->devices)
        return busy;
    double speed =
        sl_machine_between(m, device_at(s, (int)end - 1), device_at(s, (int)end))->bandwidth;
    int64_t wire = (int64_t)floor(1e9 * (double)rounds * (stage->in * (double)s->size) / speed);
    return wire > busy ? wire : busy;
}

static void set_kind(const struct search *s, int larger, int smaller, int kind,
                     struct sl_cut_stage *out) {
    const struct sums *a = &s->sums[kind][larger], *b = &s->sums[kind][smaller];
    out->f = a->f - b->f;
    out->b = a->b - b->b;
    out->step = a->step - b->step;
    out->params = a->params - b->params;
    out->fixed = a->fixed - b->fixed;
    out->stash = a->stash - b->stash;
}

/* The smallest width that stays within time and memory, or 0. */
static int fit_width(const struct search *s, const struct label *label, int smaller, int behind,
                     struct sl_cut_stage *stage) {
    int left = s->rules->devices - label->devices;
    int most = s->p->straight ? 1 : (int)(s->micros < left ? s->micros : left);
    stage->width = 1;
    if (left < 1)
        return 0;
    set_kind(s, label->ideal, smaller, slowest(s, label->devices, 1), stage);
    int64_t room = s->limit - stage->step;
    int64_t pass = stage->f + stage->b + (stage->recompute ? stage->f : 0);
    if (room < 0 || (pass > 0 && room < pass))
        return 0;
    int64_t rounds = pass ? room / pass : s->micros, width = (s->micros + rounds - 1) / rounds;
    int64_t hint = width_for_memory(&s->rule, s->micros, s->size, stage, behind, s->memory_least);
    for (width = hint > width ? hint : width; width <= most; width++) {
        if (s->rules->doubling && (width & (width - 1)))
            continue;
        stage->width = (int)width;
        set_kind(s, label->ideal, smaller, slowest(s, label->devices, (int)width), stage);
        double bytes = sl_cut_bytes(&s->rule, s->micros, s->size, stage, behind + width);
        bool fits = bytes <= least_memory(s, label->devices, (int)width);
        if (fits && stage_time(s, stage, label->devices) <= s->limit)
            return (int)width;
        if (!fits && sl_cut_bytes(&s->rule, 1, s->size, stage, 1) > s->memory_least)
            return 0; /* no number of replicas helps */
    }
    return 0;
}

/* Puts the stage in front of label `at`; `made` has its width and whether it recomputes. */
static void add_stage(struct search *s, int at, int smaller, int window, struct label made) {
    struct label label = s->labels.at[at];
    windows_after(s, &label, smaller, window);
    made.ideal = smaller;
    made.from = at;
    made.devices = label.devices + made.width;
    made.stages = label.stages + 1;
    made.next = -1;
    add_label(s, made);
}

static void try_pair(struct search *s, int larger, int smaller, struct sl_cut_stage *stage) {
    sum_border(s, larger, smaller, stage);
    s->out->pairs++;
    for (int at = s->head[larger]; at >= 0; at = s->labels.at[at].next) {
        struct label label = s->labels.at[at];
        int behind = window_behind(s, &label, smaller);
        int plain = 0, again = 0;
        stage->recompute = false;
        if (s->rules->recompute != SL_RECOMPUTE_ALWAYS)
            plain = fit_width(s, &label, smaller, behind, stage);
        stage->recompute = true;
        if (s->rules->recompute != SL_RECOMPUTE_NEVER && plain != 1)
            again = fit_width(s, &label, smaller, behind, stage);
        if (plain)
            add_stage(s, at, smaller, behind + plain, (struct label){.width = plain});
        if (again && (!plain || again < plain)) /* else it is slower and saves no device */
            add_stage(s, at, smaller, behind + again,
                      (struct label){.width = again, .recompute = true});
    }
}

/* One device alone must do this much in time. */
static bool hopeless(const struct search *s, int larger, int smaller) {
    int64_t fastest = INT64_MAX;
    for (int k = 0; k < s->p->machine->kind_count; k++) {
        int64_t pass = s->sums[k][larger].f + s->sums[k][larger].b - s->sums[k][smaller].f -
                       s->sums[k][smaller].b;
        fastest = pass < fastest ? pass : fastest;
    }
    return s->p->straight ? fastest * s->micros > s->limit
                          : fastest > s->limit || (double)fastest * (double)s->micros >
                                                      (double)s->limit * (double)s->rules->devices;
}

static void sweep(struct search *s, int64_t limit) {
    const struct sl_ideals *ideals = &s->family->ideals;
    int last = ideals->count - 1;
    s->limit = limit;
    s->out->sweeps++;
    s->labels.count = s->windows.count = 0;
    for (int i = 0; i <= last; i++)
        s->head[i] = -1;
    s->scratch[0] = 0;
    add_label(s, (struct label){.ideal = last, .from = -1, .next = -1});
    for (int larger = last; larger > 0; larger--) {
        if (s->head[larger] < 0)
            continue;
        struct sl_cut_stage stage = {0};
        for (int smaller = larger - 1; smaller >= 0; smaller--) {
            if (!s->family->nested &&
                !sl_subset(sl_ideal(ideals, smaller), sl_ideal(ideals, larger), ideals->words))
                continue;
            if (hopeless(s, larger, smaller)) {
                if (s->family->nested)
                    break;
                continue;
            }
            double step = most_work(s, s->family->nested ? smaller + 1 : larger, smaller);
            stage.work = s->family->nested && stage.work > step ? stage.work : step;
            try_pair(s, larger, smaller, &stage);
        }
    }
}

/* ---- plans ---- */

static void give_stages(struct search *s, int label, struct sl_candidate *c, int *stage_of,
                        int *width, bool *recompute) {
    const struct sl_ideals *ideals = &s->family->ideals;
    for (int stage = 0; s->labels.at[label].from >= 0; stage++) {
        const struct label *l = &s->labels.at[label];
        const uint64_t *small = sl_ideal(ideals, l->ideal);
        const uint64_t *large = sl_ideal(ideals, s->labels.at[l->from].ideal);
        for (int u = 0; u < s->p->unit_count; u++)
            if (sl_bit(large, u) && !sl_bit(small, u))
                stage_of[u] = stage;
        width[stage] = l->width;
        recompute[stage] = l->recompute;
        c->stage_count = stage + 1;
        label = l->from;
    }
}

static struct sl_candidate make_plan(struct search *s, struct sl_arena *arena, int label) {
    int stages = s->labels.at[label].stages, used = s->labels.at[label].devices;
    int *stage_of = SL_NEW(arena, int, s->p->unit_count + 1);
    int *width = SL_NEW(arena, int, stages + 1), *order = SL_NEW(arena, int, used + 1);
    bool *recompute = SL_NEW(arena, bool, stages + 1);
    struct sl_candidate c = {.size = s->rules->size,
                             .schedule = s->rules->schedule,
                             .sequential = s->rules->sequential,
                             .stage_of = stage_of,
                             .width = width,
                             .recompute = recompute,
                             .order = order};
    give_stages(s, label, &c, stage_of, width, recompute);
    for (int i = 0; i < used; i++)
        order[i] = device_at(s, used - 1 - i);
    return c;
}

/* The bottleneck of the plan that a label ends. */
static int64_t plan_time(struct search *s, int label) {
    struct sl_arena arena = {0};
    struct sl_setup layout;
    struct sl_candidate c = make_plan(s, &arena, label);
    sl_setup_build(&arena, s->p, &c, &layout);
    int64_t time = sl_setup_bottleneck(&layout, NULL);
    sl_arena_free(&arena);
    return time < s->limit ? time : s->limit;
}

static bool bisect(struct search *s, int64_t until_ns, int64_t *best) {
    int64_t low = 0, high = INT64_MAX / 4;
    if (s->rules->limit) {
        sweep(s, s->rules->limit);
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
    while (high - low > 1 && (double)(high - low) > s->rules->tolerance * (double)high) {
        int64_t middle = low + (high - low) / 2;
        if (until_ns && sl_clock_ns() > until_ns)
            break;
        sweep(s, middle);
        if (s->head[0] < 0) {
            low = middle;
            continue;
        }
        int64_t time = plan_time(s, s->head[0]);
        high = time > low ? time : middle;
    }
    s->out->bound = low + 1 < high && s->rules->tolerance > 0 ? low + 1 : high;
    *best = high;
    return true;
}

/* Slower limits leave devices unused and make pipelines shorter: they may win once fill and drain
 * count. */
static void collect(struct search *s, int64_t best, int64_t until_ns) {
    static const double slack[] = {1, 1.02, 1.06, 1.12, 1.25, 1.5, 2, 3};
    for (int i = 0; i < (s->rules->best_only ? 1 : SL_COUNT(slack)); i++) {
        double limit = (double)best * slack[i];
        if (i && ((until_ns && sl_clock_ns() > until_ns) ||
                  (s->rules->limit && limit > (double)s->rules->limit)))
            return;
        sweep(s, (int64_t)ceil(limit));
        int taken = 0;
        for (int at = s->head[0]; at >= 0 && taken < 8; at = s->labels.at[at].next, taken++)
            SL_PUSH(&s->out->at, make_plan(s, s->arena, at));
    }
}

static void find_tight(struct search *s) {
    s->out->tight_unit = isinf(s->memory_least) ? 0 : -1;
    s->out->tight_bytes = 0;
    if (isinf(s->memory_least))
        return;
    for (int u = 0; u < s->p->unit_count; u++) {
        const struct sl_unit *unit = &s->p->units[u];
        struct sl_cut_stage stage = {.params = (double)unit->params,
                                     .fixed = (double)(unit->grads + unit->state),
                                     .stash = unit->stash,
                                     .work = unit->work,
                                     .width = 1,
                                     .recompute = s->rules->recompute != SL_RECOMPUTE_NEVER};
        double over = sl_cut_bytes(&s->rule, 1, s->size, &stage, 1) - s->memory_least;
        if (over > (double)s->out->tight_bytes || s->out->tight_unit < 0) {
            s->out->tight_unit = u;
            s->out->tight_bytes = (int64_t)over;
        }
    }
}

void sl_cuts_search(struct sl_arena *arena, const struct sl_problem *problem,
                    const struct sl_family *family, const struct sl_cut_rules *rules,
                    int64_t until_ns, struct sl_cut_found *out) {
    int64_t size = problem->sizes[rules->size], best;
    struct search s = {.p = problem,
                       .family = family,
                       .rules = rules,
                       .out = out,
                       .arena = arena,
                       .size = size,
                       .micros = (problem->batch + size - 1) / size,
                       .order = rules->order,
                       .rule = sl_memory_rule(rules->schedule)};
    *out = (struct sl_cut_found){0};
    s.head = SL_NEW(arena, int, family->ideals.count);
    s.scratch = SL_NEW(arena, int, problem->tensor_count + 1);
    fill_sums(&s);
    for (int d = 0; d < rules->devices; d++) {
        double memory = least_memory(&s, d, 1);
        s.memory_least = memory > s.memory_least ? memory : s.memory_least;
    }
    if (bisect(&s, until_ns, &best)) {
        out->best = best;
        collect(&s, best, until_ns);
    } else {
        find_tight(&s);
    }
    SL_VEC_FREE(&s.labels);
    SL_VEC_FREE(&s.windows);
}
