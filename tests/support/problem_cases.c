/* Random planning problems and the oracle of the bottleneck search. */
#include "support/problem_cases.h"

#include <math.h>
#include <string.h>

const struct sl_machine *flat_machine(struct sl_arena *arena, int devices, double bytes_per_s,
                                      int64_t latency_ns) {
    struct sl_cost_device_kind kind = {
        .name = "d", .memory_bytes = 1 << 20, .stream = 1e9, .flops = {1e9}, .efficiency = 1};
    struct sl_link link = {.name = "wire", .bandwidth = bytes_per_s, .latency_ns = latency_ns};
    struct sl_host_part part = {0, devices};
    struct sl_host host = {"h", 1, 0, &part, 1};
    struct sl_machine draft = {.name = "flat",
                               .brief = "",
                               .kinds = &kind,
                               .kind_count = 1,
                               .links = &link,
                               .link_count = 1,
                               .hosts = &host,
                               .host_count = 1};
    const struct sl_machine *out;
    SL_ASSERT(sl_cost_machine_build(arena, &draft, &out) == SL_OK);
    return out;
}

/* ---- drawing ---- */

static const struct sl_machine *draw_machine(struct sl_arena *arena, struct dice *dice,
                                             int devices) {
    double bytes_per_s = (double)(1 + dice_below(dice, 9)) * 1e8;
    return flat_machine(arena, devices, bytes_per_s, dice_below(dice, 3) * 17);
}

/* Two hosts with unlike devices, or one host with two kinds, behind links that differ. */
static const struct sl_machine *draw_mixed(struct sl_arena *arena, struct dice *dice, int devices) {
    struct sl_cost_device_kind kinds[] = {
        {.name = "d", .memory_bytes = 1 << 20, .stream = 1e9, .flops = {2e9}, .efficiency = 1},
        {.name = "e", .memory_bytes = 1 << 20, .stream = 1e9, .flops = {1e9}, .efficiency = 1}};
    double fast = (double)(1 + dice_below(dice, 9)) * 1e8;
    struct sl_link links[] = {
        {.name = "wire", .bandwidth = fast, .latency_ns = dice_below(dice, 3) * 17},
        {.name = "net",
         .bandwidth = fast / (double)(2 + dice_below(dice, 9)),
         .latency_ns = dice_below(dice, 3) * 29,
         .sharing = SL_LINK_PORT}};
    bool kind = dice_below(dice, 2), hosts = dice_below(dice, 2) || !kind;
    int half = devices / 2;
    struct sl_host_part parts[] = {{0, devices - half}, {kind, half}};
    struct sl_host two[] = {{"h", 1, 0, &parts[0], 1}, {"g", 1, 0, &parts[1], 1}};
    struct sl_host one = {"h", 1, 0, parts, 2};
    struct sl_level level = {"all", 2, 1};
    struct sl_machine draft = {.name = "mixed",
                               .brief = "",
                               .kinds = kinds,
                               .kind_count = 1 + kind,
                               .links = links,
                               .link_count = 2,
                               .hosts = hosts ? two : &one,
                               .host_count = 1 + hosts,
                               .levels = &level,
                               .level_count = hosts};
    const struct sl_machine *out;
    SL_ASSERT(sl_cost_machine_build(arena, &draft, &out) == SL_OK);
    return out;
}

static void add(struct sl_search_tensor *t, struct sl_arena *arena, int to) {
    if (!t->to)
        t->to = SL_NEW(arena, int, 16);
    ((int *)(uintptr_t)t->to)[t->to_count++] = to;
}

/* One tensor per unit that somebody reads; edges by kind: 0 chain, 1 two branches, 2 any. */
static void draw_tensors(struct sl_arena *arena, struct dice *dice, struct sl_problem *p) {
    int kind = (int)dice_below(dice, 3), n = p->unit_count;
    struct sl_search_tensor *t = SL_NEW(arena, struct sl_search_tensor, n);
    for (int u = 0; u < n; u++) {
        t[u] = (struct sl_search_tensor){.from = u, .sample_bytes = 1 + dice_below(dice, 40)};
        t[u].whole = p->size_count > 1 && dice_below(dice, 6) == 0;
    }
    for (int u = 1; u < n; u++) {
        if (kind == 0)
            add(&t[u - 1], arena, u);
        else if (kind == 1 && u == n - 1 && n > 3) {
            add(&t[n - 3], arena, u);
            add(&t[n - 2], arena, u);
        } else if (kind == 1)
            add(&t[u <= 2 ? 0 : u - 2], arena, u);
        else {
            bool any = false;
            for (int from = 0; from < u; from++)
                if (dice_below(dice, 3) == 0) {
                    add(&t[from], arena, u);
                    any = true;
                }
            if (!any && dice_below(dice, 4))
                add(&t[dice_below(dice, u)], arena, u);
        }
    }
    struct sl_search_tensor *used = SL_NEW(arena, struct sl_search_tensor, n);
    for (int u = 0; u < n; u++)
        if (t[u].to_count)
            used[p->tensor_count++] = t[u];
    p->tensors = used;
}

/* Two units share what the smaller of them has. */
static void draw_tie(struct sl_arena *arena, struct dice *dice, struct sl_problem *p) {
    struct sl_unit_tie *tie = SL_NEW(arena, struct sl_unit_tie, 1);
    int *units = SL_NEW(arena, int, 2);
    units[0] = (int)dice_below(dice, p->unit_count - 1);
    units[1] = units[0] + 1 + (int)dice_below(dice, p->unit_count - 1 - units[0]);
    int64_t a = p->units[units[0]].params, b = p->units[units[1]].params;
    *tie = (struct sl_unit_tie){"w", units, 2, a < b ? a : b};
    p->ties = tie;
    p->tie_count = tie->bytes > 0;
}

const struct sl_problem *problem_draw(struct sl_arena *arena, struct dice *dice,
                                      struct problem_size max) {
    struct sl_problem *p = SL_NEW(arena, struct sl_problem, 1);
    int devices = 1 + (int)dice_below(dice, max.devices);
    *p = (struct sl_problem){.model = "drawn", .precision = "none", .size_count = 1 + max.sized};
    p->unit_count = 2 + (int)dice_below(dice, max.units - 1);
    p->machine = max.mixed && devices > 1 ? draw_mixed(arena, dice, devices)
                                          : draw_machine(arena, dice, devices);
    struct sl_unit *units = SL_NEW(arena, struct sl_unit, p->unit_count);
    int kinds = p->machine->kind_count;
    struct sl_unit_time *times =
        SL_NEW(arena, struct sl_unit_time, (int64_t)p->unit_count * kinds * p->size_count);
    double all = 0, largest = 0;
    int64_t size = 1 + dice_below(dice, 2);
    for (int u = 0; u < p->unit_count; u++) {
        units[u] = (struct sl_unit){.name = "u",
                                    .params = 100 * dice_below(dice, 9),
                                    .stash = (double)(50 * dice_below(dice, 11)),
                                    .work = (double)dice_below(dice, 30)};
        units[u].grads = units[u].params;
        units[u].state = 2 * units[u].params;
        times[u] = (struct sl_unit_time){101 + 97 * dice_below(dice, 20), 53 * dice_below(dice, 30),
                                         59 * dice_below(dice, 30), dice_below(dice, 200)};
        for (int k = 1; k < kinds * p->size_count; k++) { /* slower, not by one factor */
            struct sl_unit_time *t = &times[k * p->unit_count + u];
            *t = times[u];
            t->f += dice_below(dice, 1500);
            t->i += dice_below(dice, 1500);
            t->w += dice_below(dice, 1500);
        }
        double one = 4.0 * (double)units[u].params + (units[u].stash + 60) * 3 * (double)size;
        all += one;
        largest = one > largest ? one : largest;
    }
    p->units = units;
    p->times = times;
    if (max.tied)
        draw_tie(arena, dice, p);
    draw_tensors(arena, dice, p);
    sl_search_problem_finish(arena, p);
    int64_t *sizes = SL_NEW(arena, int64_t, 2), *memory = SL_NEW(arena, int64_t, devices);
    sizes[0] = size;
    sizes[1] = 2 * size;
    p->sizes = sizes;
    p->batch = sizes[max.sized] * (1 + dice_below(dice, max.sized ? 3 : 6));
    double tight = (double)(dice_below(dice, 12)) / 8; /* of what an even share would need */
    int64_t limit = dice_below(dice, 3) ? (int64_t)(largest + tight * all / devices) : 0;
    for (int d = 0; d < devices; d++)
        memory[d] = limit;
    p->memory = memory;
    return p;
}

/* ---- the oracle ---- */

struct oracle {
    const struct sl_problem *p;
    const char *schedule;
    int size, stages;
    int block[16], rank[16];
    int width[16];
    bool recompute[16], before[16][16];
    int64_t best;
};

static bool rank_blocks(struct oracle *o) {
    bool done[16] = {0};
    memset(o->before, 0, sizeof o->before);
    for (int t = 0; t < o->p->tensor_count; t++)
        for (int i = 0; i < o->p->tensors[t].to_count; i++)
            o->before[o->block[o->p->tensors[t].from]][o->block[o->p->tensors[t].to[i]]] = true;
    for (int at = 0; at < o->stages; at++) {
        int next = -1;
        for (int k = 0; k < o->stages && next < 0; k++) {
            bool ready = !done[k];
            for (int i = 0; i < o->stages; i++)
                ready &= i == k || done[i] || !o->before[i][k];
            next = ready ? k : -1;
        }
        if (next < 0)
            return false;
        done[next] = true;
        o->rank[at] = next;
    }
    return true;
}

/* Distinct tensors that enter or leave a block, per sample. */
static double border(const struct oracle *o, int block, bool in) {
    double sum = 0;
    for (int t = 0; t < o->p->tensor_count; t++) {
        const struct sl_search_tensor *tensor = &o->p->tensors[t];
        bool made = o->block[tensor->from] == block, read = false, outside = false;
        for (int i = 0; i < tensor->to_count; i++) {
            read |= o->block[tensor->to[i]] == block;
            outside |= o->block[tensor->to[i]] != block;
        }
        if (in ? !made && read : made && outside)
            sum += (double)tensor->sample_bytes;
    }
    return sum;
}

/* Time of one iteration on a block; -1 when it does not fit with this window. */
static int64_t block_time(const struct oracle *o, int block, int64_t window) {
    const struct sl_problem *p = o->p;
    const struct sl_unit_time *t = sl_search_problem_times(p, o->size, 0);
    int64_t size = p->sizes[o->size], micros = (p->batch + size - 1) / size;
    int64_t width = o->width[block], rounds = (micros + width - 1) / width, pass = 0, step = 0;
    double params = 0, fixed = 0, stash = 0, work = 0;
    for (int u = 0; u < p->unit_count; u++) {
        if (o->block[u] != block)
            continue;
        pass += t[u].f + t[u].i + t[u].w + (o->recompute[block] ? t[u].f : 0);
        step += t[u].step;
        params += (double)p->units[u].params;
        fixed += (double)(p->units[u].grads + p->units[u].state);
        stash += p->units[u].stash;
        work = p->units[u].work > work ? p->units[u].work : work;
    }
    double in = border(o, block, true), out = border(o, block, false);
    int64_t live = strcmp(o->schedule, "gpipe") == 0 || window > micros ? micros : window;
    live = (live + width - 1) / width;
    double kept =
        o->recompute[block] ? (double)live * in + stash + in : (double)live * (stash + in);
    double bytes = params * (strcmp(o->schedule, "2bw") == 0 ? 2 : 1) + fixed +
                   (kept + 2 * (in + out) + work) * (double)size;
    if (p->memory[0] && bytes > (double)p->memory[0])
        return -1;
    const struct sl_link *link = &p->machine->links[0];
    int64_t reduce = 0;
    if (width > 1)
        reduce = (int64_t)ceil(1e9 * 2 * (double)(width - 1) / (double)width * params /
                               link->bandwidth) +
                 2 * (width - 1) * link->latency_ns;
    int64_t busy = rounds * pass + step + reduce;
    int64_t wire = (int64_t)floor(1e9 * (double)rounds * (in * (double)size) / link->bandwidth);
    return wire > busy ? wire : busy;
}

static void price(struct oracle *o) {
    int64_t window[16] = {0}, max = 0;
    for (int at = o->stages - 1; at >= 0; at--) { /* last stage first */
        int block = o->rank[at];
        int64_t behind = 0;
        for (int k = 0; k < o->stages; k++)
            if (k != block && o->before[block][k] && window[k] > behind)
                behind = window[k];
        window[block] = behind + o->width[block];
        int64_t time = block_time(o, block, window[block]);
        if (time < 0)
            return;
        max = time > max ? time : max;
    }
    if (o->best < 0 || max < o->best)
        o->best = max;
}

static void widths(struct oracle *o, int stage, int left) {
    int64_t micros = (o->p->batch + o->p->sizes[o->size] - 1) / o->p->sizes[o->size];
    if (stage == o->stages) {
        for (int bits = 0; bits < 1 << o->stages; bits++) {
            for (int s = 0; s < o->stages; s++)
                o->recompute[s] = bits >> s & 1;
            price(o);
        }
        return;
    }
    for (int w = 1; w <= left - (o->stages - stage - 1) && w <= micros; w++) {
        o->width[stage] = w;
        widths(o, stage + 1, left - w);
    }
}

static void blocks(struct oracle *o, int unit) {
    if (unit == o->p->unit_count) {
        if (rank_blocks(o))
            widths(o, 0, o->p->machine->device_count);
        return;
    }
    int old = o->stages;
    for (int k = 0; k <= old && k < o->p->machine->device_count; k++) {
        o->block[unit] = k;
        o->stages = k == old ? old + 1 : old;
        blocks(o, unit + 1);
    }
    o->stages = old;
}

int64_t problem_brute(const struct sl_problem *problem, const char *schedule, int size) {
    struct oracle o = {.p = problem, .schedule = schedule, .size = size, .best = -1};
    blocks(&o, 0);
    return o.best;
}
