/* Computes sums of downsets and stages (cuts_table.h). */
#include "search/cuts_table.h"

#include <math.h>
#include <string.h>

struct sl_search_memory_rule sl_search_memory_rule(const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    enum sl_memory_rule rule = row ? row->memory : SL_MEMORY_WINDOW;
    return (struct sl_search_memory_rule){.one = rule == SL_MEMORY_ONE,
                                          .all = rule == SL_MEMORY_ALL,
                                          .twice = rule == SL_MEMORY_TWO_VERSIONS,
                                          .stashes = rule == SL_MEMORY_STASHED};
}

double sl_search_cut_bytes(const struct sl_search_memory_rule *rule, int64_t micros, int64_t size,
                           const struct sl_cut_stage *s, int64_t window) {
    int64_t live = rule->all || window > micros ? micros : window;
    live = rule->one ? 1 : (live + s->width - 1) / s->width;
    int64_t behind = (window - 1 + micros - 1) / micros;
    double versions = rule->stashes ? 1 + (double)behind : rule->twice ? 2 : 1;
    double one = (s->stash + s->in) * (double)size;
    double stash = s->recompute ? (double)live * s->in * (double)size + one : (double)live * one;
    double messages = 2 * (s->in + s->out) * (double)size;
    return versions * s->params + s->fixed + stash + messages + s->work * (double)size;
}

/* Returns the smallest width with which the micro-batches in flight should fit. Only a start value:
 * the caller checks memory. */
static int64_t width_for_memory(const struct sl_search_memory_rule *rule, int64_t micros,
                                int64_t size, const struct sl_cut_stage *s, int64_t behind,
                                double memory) {
    struct sl_cut_stage one = *s;
    one.width = 1;
    double live_bytes = (s->recompute ? s->in : s->stash + s->in) * (double)size;
    double left = memory - sl_search_cut_bytes(rule, 1, size, &one, 1);
    if (left < 0)
        return INT64_MAX;
    if (live_bytes <= 0 || (behind == 0 && !rule->all))
        return 1;
    /* number of micro-batches that fit in addition to the first */
    double others = floor(left / live_bytes);
    int64_t more = others < 1e15 ? (int64_t)others : (int64_t)1e15;
    int64_t width = (micros + more) / (more + 1);
    if (!rule->all && more > 0 && (behind + more - 1) / more < width)
        width = (behind + more - 1) / more;
    return width > 1 ? width : 1;
}

int sl_search_cut_device(const struct sl_cut_table *s, int position) {
    return s->rules->order ? s->rules->order[position] : s->p->machine->device_count - 1 - position;
}

/* ---- sums of downsets ---- */

static void fill_sums(struct sl_arena *arena, struct sl_cut_table *s) {
    const struct sl_problem *p = s->p;
    const struct sl_ideals *ideals = &s->downsets->ideals;
    const double rate = sl_search_version_rate(p, s->rules->schedule);
    s->sums = SL_NEW(arena, struct sl_cut_sums *, p->machine->kind_count);
    for (int k = 0; k < p->machine->kind_count; k++) {
        const struct sl_unit_time *t = sl_search_problem_times(p, s->rules->size, k);
        s->sums[k] = SL_NEW(arena, struct sl_cut_sums, ideals->count);
        for (int i = 0; i < ideals->count; i++)
            for (int w = 0; w < ideals->words; w++)
                for (uint64_t bits = sl_ideal(ideals, i)[w]; bits; bits &= bits - 1) {
                    int u = w * 64 + __builtin_ctzll(bits);
                    struct sl_cut_sums *sum = &s->sums[k][i];
                    sum->f += t[u].f;
                    sum->b += t[u].i + t[u].w;
                    sum->step +=
                        rate > 0 ? (int64_t)(1e9 * (double)p->units[u].params / rate) : t[u].step;
                    sum->params += (double)p->units[u].params;
                    sum->fixed +=
                        (double)(p->units[u].fixed + p->units[u].grads + p->units[u].state);
                    sum->stash += p->units[u].stash;
                }
    }
}

double sl_search_cut_work(const struct sl_cut_table *s, int larger, int smaller) {
    const struct sl_ideals *ideals = &s->downsets->ideals;
    const uint64_t *a = sl_ideal(ideals, larger), *b = sl_ideal(ideals, smaller);
    double max = 0;
    for (int w = 0; w < ideals->words; w++)
        for (uint64_t bits = a[w] & ~b[w]; bits; bits &= bits - 1) {
            double work = s->p->units[w * 64 + __builtin_ctzll(bits)].work;
            max = work > max ? work : max;
        }
    return max;
}

bool sl_search_cut_reads(const struct sl_cut_table *s, const struct sl_search_tensor *tensor,
                         int larger, int smaller) {
    const struct sl_ideals *ideals = &s->downsets->ideals;
    const uint64_t *a = sl_ideal(ideals, larger), *b = sl_ideal(ideals, smaller);
    for (int i = 0; i < tensor->to_count; i++)
        if (sl_bit(a, tensor->to[i]) && !sl_bit(b, tensor->to[i]))
            return true;
    return false;
}

void sl_search_cut_border(const struct sl_cut_table *s, int larger, int smaller,
                          struct sl_cut_stage *out) {
    const struct sl_search_downsets *f = s->downsets;
    out->in = out->out = 0;
    for (int i = f->live_at[smaller]; i < f->live_at[smaller + 1]; i++) {
        const struct sl_search_tensor *tensor = &s->p->tensors[f->live[i]];
        if (sl_search_cut_reads(s, tensor, larger, smaller))
            out->in += (double)tensor->sample_bytes;
    }
    for (int i = f->live_at[larger]; i < f->live_at[larger + 1]; i++) {
        const struct sl_search_tensor *tensor = &s->p->tensors[f->live[i]];
        if (!sl_bit(sl_ideal(&f->ideals, smaller), tensor->from))
            out->out += (double)tensor->sample_bytes;
    }
}

/* ---- stages ---- */

static int slowest(const struct sl_cut_table *s, int first, int width) {
    const struct sl_machine *m = s->p->machine;
    int kind = m->kind_of[sl_search_cut_device(s, first)];
    for (int i = 1; i < width && m->kind_count > 1; i++) {
        int other = m->kind_of[sl_search_cut_device(s, first + i)];
        kind = m->kinds[other].flops[0] < m->kinds[kind].flops[0] ? other : kind;
    }
    return kind;
}

static double least_memory(const struct sl_cut_table *s, int first, int width) {
    double least = INFINITY;
    for (int i = 0; i < width; i++) {
        double memory = (double)s->p->memory[sl_search_cut_device(s, first + i)];
        least = memory > 0 && memory < least ? memory : least;
        if (s->p->machine->kind_count == 1)
            break;
    }
    return least * (s->rules->memory_scale > 0 ? s->rules->memory_scale : 1);
}

/* Returns the time of all passes of one micro-batch. */
static int64_t pass_ns(const struct sl_cut_table *s, const struct sl_cut_stage *stage) {
    return stage->f + stage->b + (stage->recompute ? sl_search_recompute_ns(s->p, stage->f) : 0);
}

/* Returns the time of an iteration on this stage, if its first device is at position `first`. */
static int64_t stage_time(const struct sl_cut_table *s, const struct sl_cut_stage *stage,
                          int first) {
    const struct sl_machine *m = s->p->machine;
    int64_t rounds = (s->micros + stage->width - 1) / stage->width, reduce = 0;
    int64_t pass = pass_ns(s, stage);
    if (stage->width > 1) {
        int devices[2] = {sl_search_cut_device(s, first),
                          sl_search_cut_device(s, first + stage->width - 1)};
        const struct sl_link *link = sl_cost_machine_between(m, devices[0], devices[1]);
        reduce = (int64_t)ceil(1e9 * 2 * (stage->width - 1) / stage->width * stage->params /
                               link->bandwidth) +
                 2 * (stage->width - 1) * link->latency_ns;
    }
    int64_t busy = rounds * pass + stage->step + reduce, end = first + stage->width;
    if (stage->in <= 0 || end >= s->rules->devices)
        return busy;
    double speed = sl_cost_machine_between(m, sl_search_cut_device(s, (int)end - 1),
                                           sl_search_cut_device(s, (int)end))
                       ->bandwidth;
    int64_t wire = (int64_t)floor(1e9 * (double)rounds * (stage->in * (double)s->size) / speed);
    return wire > busy ? wire : busy;
}

static void set_kind(const struct sl_cut_table *s, int larger, int smaller, int kind,
                     struct sl_cut_stage *out) {
    const struct sl_cut_sums *a = &s->sums[kind][larger], *b = &s->sums[kind][smaller];
    out->f = a->f - b->f;
    out->b = a->b - b->b;
    out->step = a->step - b->step;
    out->params = a->params - b->params;
    out->fixed = a->fixed - b->fixed;
    out->stash = a->stash - b->stash;
}

int sl_search_cut_width(const struct sl_cut_table *s, int larger, int smaller, int first,
                        int behind, struct sl_cut_stage *stage) {
    int left = s->rules->devices - first;
    int max = s->p->straight ? 1 : (int)(s->micros < left ? s->micros : left);
    stage->width = 1;
    if (left < 1)
        return 0;
    set_kind(s, larger, smaller, slowest(s, first, 1), stage);
    int64_t room = s->limit - stage->step;
    int64_t pass = pass_ns(s, stage);
    if (room < 0 || (pass > 0 && room < pass))
        return 0;
    int64_t rounds = pass ? room / pass : s->micros, width = (s->micros + rounds - 1) / rounds;
    int64_t hint = width_for_memory(&s->rule, s->micros, s->size, stage, behind, s->memory_least);
    for (width = hint > width ? hint : width; width <= max; width++) {
        if (s->rules->doubling && (width & (width - 1)))
            continue;
        stage->width = (int)width;
        set_kind(s, larger, smaller, slowest(s, first, (int)width), stage);
        double bytes = sl_search_cut_bytes(&s->rule, s->micros, s->size, stage, behind + width);
        bool fits = bytes <= least_memory(s, first, (int)width);
        if (fits && stage_time(s, stage, first) <= s->limit)
            return (int)width;
        if (!fits && sl_search_cut_bytes(&s->rule, 1, s->size, stage, 1) > s->memory_least)
            return 0; /* no number of replicas is enough */
    }
    return 0;
}

/* Lower bound on the devices. A stage of width w runs at least micros / w rounds, so w >= micros *
 * pass / limit. The same holds for sums over stages. */
int sl_search_cut_min_devices(const struct sl_cut_table *s, int larger, int smaller) {
    if (larger == smaller)
        return 0;
    if (s->p->machine->kind_count > 1)
        return 1;
    const struct sl_cut_sums *a = &s->sums[0][larger], *b = &s->sums[0][smaller];
    double pass = (double)(a->f - b->f + a->b - b->b);
    double needs = ceil((double)s->micros * pass / (double)s->limit * (1 - 1e-9));
    return needs < 1 ? 1 : needs > s->rules->devices ? s->rules->devices + 1 : (int)needs;
}

bool sl_search_cut_is_too_slow(const struct sl_cut_table *s, int larger, int smaller) {
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

void sl_search_cut_table_build(struct sl_arena *arena, const struct sl_problem *problem,
                               const struct sl_search_downsets *downsets,
                               const struct sl_cut_rules *rules, struct sl_cut_table *out) {
    int64_t size = problem->sizes[rules->size];
    *out = (struct sl_cut_table){.p = problem,
                                 .downsets = downsets,
                                 .rules = rules,
                                 .size = size,
                                 .micros = (problem->batch + size - 1) / size,
                                 .rule = sl_search_memory_rule(rules->schedule)};
    fill_sums(arena, out);
    for (int d = 0; d < rules->devices; d++) {
        double memory = least_memory(out, d, 1);
        out->memory_least = memory > out->memory_least ? memory : out->memory_least;
    }
}
