/* GraphPipe's partitioner against every series-parallel stage graph of small problems.
 *
 * The oracle lists all partitions of the units. It accepts one that can be taken apart by its
 * definition: a set of units is one stage; or a part of it precedes the rest, and no stage is on
 * both sides; or it is not connected, and the same holds for its components. One stage may be on
 * both sides if it begins with the tail of one of several branches.
 */
#include "planners/graphpipe.h"
#include "support/problem_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UNITS = 8 };

struct oracle {
    const struct sl_problem *p;
    bool before[UNITS][UNITS];
    int block[UNITS], width[UNITS], config[UNITS], stages;
    const struct sl_planners_graphpipe_config *configs;
    int config_count;
    int64_t best;
    int64_t in_flight; /* samples */
};

/* ---- the problem ---- */

static void compose(struct dice *dice, bool before[UNITS][UNITS], int from, int to) {
    if (to - from < 2)
        return;
    int middle = from + 1 + (int)dice_below(dice, to - from - 1);
    bool series = dice_below(dice, 5) < 3;
    compose(dice, before, from, middle);
    compose(dice, before, middle, to);
    for (int a = from; series && a < middle; a++)
        for (int b = middle; b < to; b++)
            before[a][b] = true;
}

/* One tensor per unit, to its direct successors and to some later ones. */
static const struct sl_problem *draw(struct sl_arena *arena, struct dice *dice,
                                     struct problem_size max, bool before[UNITS][UNITS]) {
    struct sl_problem *p = SL_NEW(arena, struct sl_problem, 1);
    *p = *problem_draw(arena, dice, max);
    int n = p->unit_count;
    struct sl_search_tensor *t = SL_NEW(arena, struct sl_search_tensor, n);
    memset(before, 0, sizeof(bool[UNITS][UNITS]));
    compose(dice, before, 0, n);
    p->tensor_count = 0;
    for (int u = 0; u < n; u++) {
        int *to = SL_NEW(arena, int, n), count = 0;
        for (int v = u + 1; v < n; v++) {
            bool implied = false;
            for (int k = 0; k < n; k++)
                implied |= before[u][k] && before[k][v];
            if (before[u][v] && (!implied || dice_below(dice, 4) == 0))
                to[count++] = v;
        }
        if (count)
            t[p->tensor_count++] = (struct sl_search_tensor){
                .from = u, .to = to, .to_count = count, .sample_bytes = 1 + dice_below(dice, 40)};
    }
    p->tensors = t;
    sl_search_problem_finish(arena, p);
    return p;
}

/* ---- which partitions are series-parallel ---- */

static bool one_block(const struct oracle *o, int set) {
    int block = -1;
    for (int u = 0; u < o->p->unit_count; u++)
        if (set >> u & 1) {
            if (block >= 0 && o->block[u] != block)
                return false;
            block = o->block[u];
        }
    return true;
}

/* Is no stage in both sets, and does every relation between them go the way it must? */
static bool splits(const struct oracle *o, int a, int b, bool series) {
    for (int u = 0; u < o->p->unit_count; u++)
        for (int v = 0; v < o->p->unit_count; v++)
            if ((a >> u & 1) && (b >> v & 1)) {
                bool related = o->before[u][v] || o->before[v][u];
                if (o->block[u] == o->block[v] || (series ? !o->before[u][v] : related))
                    return false;
            }
    return true;
}

static bool is_composed(const struct oracle *o, int set);

/* Units of `set` that are in the stage. */
static int part_of(const struct oracle *o, int set, int block) {
    int found = 0;
    for (int u = 0; u < o->p->unit_count; u++)
        found |= (set >> u & 1) && o->block[u] == block ? 1 << u : 0;
    return found;
}

/* The units of `set` that are connected to those of `seed`. */
static int component(const struct oracle *o, int set, int seed) {
    for (int grown = 0; grown != seed;) {
        grown = seed;
        for (int u = 0; u < o->p->unit_count; u++)
            for (int v = 0; v < o->p->unit_count; v++)
                if ((seed >> u & 1) && (set >> v & 1) && (o->before[u][v] || o->before[v][u]))
                    seed |= 1 << v;
    }
    return seed;
}

static bool precedes(const struct oracle *o, int a, int b) {
    for (int u = 0; u < o->p->unit_count; u++)
        for (int v = 0; v < o->p->unit_count; v++)
            if ((a >> u & 1) && (b >> v & 1) && !o->before[u][v])
                return false;
    return true;
}

static bool shares_stage(const struct oracle *o, int a, int b) {
    for (int u = 0; u < o->p->unit_count; u++)
        if ((a >> u & 1) && part_of(o, b, o->block[u]))
            return true;
    return false;
}

/* The rest of the model after branches, one stage of which begins with the tail of one branch. */
static bool joins(const struct oracle *o, int branches, int rest) {
    for (int u = 0; u < o->p->unit_count; u++) {
        int block = o->block[u], tail = part_of(o, branches, block);
        int run = part_of(o, rest, block), branch = component(o, branches, tail & -tail);
        if (!tail || !run || branch == branches || (tail & ~branch))
            continue;
        int head = branch & ~tail, others = branches & ~branch, later = rest & ~run;
        if (precedes(o, head, tail) && precedes(o, run, later) && !shares_stage(o, head, others) &&
            !shares_stage(o, branches & ~tail, later) && is_composed(o, others) &&
            (!head || is_composed(o, head)) && (!later || is_composed(o, later)))
            return true;
    }
    return false;
}

static bool is_composed(const struct oracle *o, int set) {
    if (one_block(o, set))
        return true;
    for (int a = (set - 1) & set; a; a = (a - 1) & set)
        if (precedes(o, a, set & ~a) && joins(o, a, set & ~a))
            return true;
    for (int a = (set - 1) & set; a; a = (a - 1) & set)
        if ((splits(o, a, set & ~a, true) || splits(o, a, set & ~a, false)) && is_composed(o, a) &&
            is_composed(o, set & ~a))
            return true;
    return false;
}

/* ---- the price ---- */

static double border(const struct oracle *o, int block, bool in) {
    double sum = 0;
    for (int t = 0; t < o->p->tensor_count; t++) {
        const struct sl_search_tensor *tensor = &o->p->tensors[t];
        bool made = o->block[tensor->from] == block, read = false, outside = false;
        for (int i = 0; i < tensor->to_count; i++) {
            read |= o->block[tensor->to[i]] == block;
            outside |= o->block[tensor->to[i]] != block;
        }
        sum += (in ? !made && read : made && outside) ? (double)tensor->sample_bytes : 0;
    }
    return sum;
}

static int64_t size_of(const struct oracle *o, int block) {
    return o->p->sizes[o->configs[o->config[block]].size];
}

/* ns of an iteration on a stage with so many samples in flight; -1: it does not fit. */
static int64_t block_ns(const struct oracle *o, int block, int64_t samples) {
    const struct sl_problem *p = o->p;
    const struct sl_unit_time *times =
        p->times + (int64_t)o->configs[o->config[block]].size * p->unit_count;
    int64_t size = size_of(o, block), micros = (p->batch + size - 1) / size,
            window = samples / size;
    int64_t width = o->width[block];
    int64_t rounds = (micros + width - 1) / width, pass = 0, step = 0, reduce = 0;
    double params = 0, fixed = 0, stash = 0, work = 0;
    for (int u = 0; u < p->unit_count; u++)
        if (o->block[u] == block) {
            pass += times[u].f + times[u].i + times[u].w;
            step += times[u].step;
            params += (double)p->units[u].params;
            fixed += (double)(p->units[u].grads + p->units[u].state);
            stash += p->units[u].stash;
            work = fmax(work, p->units[u].work);
        }
    double in = border(o, block, true), out = border(o, block, false);
    int64_t live = ((window > micros ? micros : window) + width - 1) / width;
    double bytes =
        params + fixed + ((double)live * (stash + in) + 2 * (in + out) + work) * (double)size;
    if (p->memory[0] && bytes > (double)p->memory[0])
        return -1;
    const struct sl_link *link = &p->machine->links[0];
    if (width > 1)
        reduce = (int64_t)ceil(1e9 * 2 * (double)(width - 1) / (double)width * params /
                               link->bandwidth) +
                 2 * (width - 1) * link->latency_ns;
    int64_t wire = (int64_t)floor(1e9 * (double)rounds * in * (double)size / link->bandwidth);
    int64_t busy = rounds * pass + step + reduce;
    return wire > busy && p->machine->device_count > 1 ? wire : busy;
}

/* Samples in flight by the rule of the paper (papers: GraphPipe, algorithm 2), and k micro-batches
 * more for every further replica. */
static int64_t in_flight_of(const struct oracle *o, int block) {
    int64_t b = size_of(o, block), k = o->configs[o->config[block]].group, most = k * b;
    for (int other = 0; other < o->stages; other++) {
        bool later = false;
        for (int u = 0; u < o->p->unit_count; u++)
            for (int v = 0; v < o->p->unit_count; v++)
                later |= o->block[u] == block && o->block[v] == other && other != block &&
                         o->before[u][v];
        if (!later)
            continue;
        int64_t bj = size_of(o, other), kj = o->configs[o->config[other]].group;
        int64_t step = k * b + (b > kj * bj ? b - kj * bj : 0);
        int64_t need = in_flight_of(o, other) + (bj > step ? bj : step);
        need = (need + b - 1) / b * b;
        most = need > most ? need : most;
    }
    return most + (o->width[block] - 1) * k * b;
}

static void price(struct oracle *o) {
    int64_t max = 0, source = 0;
    for (int b = 0; b < o->stages; b++) {
        int64_t samples = in_flight_of(o, b), ns = block_ns(o, b, samples);
        if (ns < 0)
            return;
        max = ns > max ? ns : max;
        source = samples > source ? samples : source;
    }
    if (o->best < 0 || max < o->best || (max == o->best && source < o->in_flight)) {
        o->best = max;
        o->in_flight = source;
    }
}

static void try_widths(struct oracle *o, int stage, int left) {
    if (stage == o->stages) {
        price(o);
        return;
    }
    for (int c = 0; c < o->config_count; c++) {
        o->config[stage] = c;
        int64_t micros = (o->p->batch + size_of(o, stage) - 1) / size_of(o, stage);
        for (int w = 1; w <= left && w <= micros; w *= 2) {
            o->config[stage] = c;
            o->width[stage] = w;
            try_widths(o, stage + 1, left - w);
        }
    }
}

static void try_blocks(struct oracle *o, int unit) {
    if (unit == o->p->unit_count) {
        if (is_composed(o, (1 << unit) - 1))
            try_widths(o, 0, o->p->machine->device_count);
        return;
    }
    int old = o->stages;
    for (int k = 0; k <= old && k < o->p->machine->device_count; k++) {
        o->block[unit] = k;
        o->stages = k == old ? old + 1 : old;
        try_blocks(o, unit + 1);
    }
    o->stages = old;
}

/* Equal to brute force in the bottleneck, and in the samples in flight at the source. */
static void compare(struct sl_arena *arena, struct oracle *o, int64_t number, int64_t seen[3]) {
    struct sl_sp_tree tree;
    struct sl_planners_graphpipe_found found;
    struct sl_planners_graphpipe_rules rules = {
        .schedule = "graph", .configs = o->configs, .config_count = o->config_count};
    sl_graph_sp_build(arena, &o->p->dag, &tree);
    assert_int_equal(tree.added, 0);
    try_blocks(o, 0);
    sl_planners_graphpipe_solve(arena, o->p, &tree, &rules, &found);
    if (found.found != (o->best >= 0) ||
        (found.found && (found.bottleneck != o->best || found.in_flight != o->in_flight)))
        fail_msg("case %lld (%d units, %d devices): brute %lld with %lld in flight, graphpipe %lld "
                 "with %lld",
                 (long long)number, o->p->unit_count, o->p->machine->device_count,
                 (long long)o->best, (long long)o->in_flight,
                 found.found ? (long long)found.bottleneck : -1, (long long)found.in_flight);
    if (!found.found)
        return;
    assert_true(sl_search_candidate_check(o->p, &found.c));
    seen[0]++;
    seen[1] += tree.root->kind == SL_SP_PARALLEL || tree.root->child_count < o->p->unit_count;
    seen[2] += found.c.size_of || found.c.group_of;
}

static void test_against_brute_force(void **state) {
    (void)state;
    static const struct sl_planners_graphpipe_config one = {0, 1};
    int64_t count = test_count(2000), seen[3] = {0};
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {41, (uint64_t)i, 0};
        struct oracle o = {.best = -1, .configs = &one, .config_count = 1};
        o.p =
            draw(&arena, &dice, (struct problem_size){.units = UNITS - 1, .devices = 5}, o.before);
        compare(&arena, &o, i, seen);
        sl_arena_free(&arena);
    }
    printf("count: %lld bottlenecks and in-flight counts of graphpipe equal to brute force, %lld "
           "fit, %lld with branches\n",
           (long long)count, (long long)seen[0], (long long)seen[1]);
    assert_true(seen[0] > count / 3 && seen[1] > count / 4);
}

/* Every stage chooses its micro-batch size and its k. */
static void test_configurations(void **state) {
    (void)state;
    static const struct sl_planners_graphpipe_config all[] = {{0, 1}, {0, 2}, {1, 1}, {1, 2}};
    int64_t count = test_count(2000), seen[3] = {0};
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {43, (uint64_t)i, 0};
        struct oracle o = {.best = -1, .configs = all};
        o.p = draw(&arena, &dice, (struct problem_size){.units = 5, .devices = 4, .sized = true},
                   o.before);
        o.config_count = o.p->size_count > 1 ? 4 : 2;
        compare(&arena, &o, i, seen);
        sl_arena_free(&arena);
    }
    printf("count: %lld bottlenecks and in-flight counts with a micro-batch size and a k per stage "
           "equal to brute force, %lld fit, %lld choose other than the first\n",
           (long long)count, (long long)seen[0], (long long)seen[2]);
    assert_true(seen[0] > count / 3 && seen[2] > count / 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_brute_force),
                                       cmocka_unit_test(test_configurations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
