/* Lower bounds on the step (bound.h). */
#include "search/bound.h"

#include "search/cuts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- work and way ---- */

/* The least over all kinds of devices. */
static struct sl_unit_time least_time(const struct sl_problem *p, int size, int unit) {
    struct sl_unit_time least = sl_problem_times(p, size, 0)[unit];
    for (int k = 1; k < p->machine->kind_count; k++) {
        const struct sl_unit_time *t = &sl_problem_times(p, size, k)[unit];
        least.f = t->f < least.f ? t->f : least.f;
        least.i = t->i < least.i ? t->i : least.i;
        least.w = t->w < least.w ? t->w : least.w;
        least.step = t->step < least.step ? t->step : least.step;
    }
    return least;
}

/* The longest way through the units, there and back. */
static int64_t longest_way(const struct sl_problem *p, int size) {
    struct sl_arena arena = {0};
    int *order = SL_NEW(&arena, int, p->unit_count + 1);
    int64_t *way = SL_NEW(&arena, int64_t, p->unit_count + 1), longest = 0;
    SL_ASSERT(sl_dag_order(&arena, &p->dag, order));
    for (int i = 0; i < p->unit_count; i++) {
        int u = order[i];
        struct sl_unit_time t = least_time(p, size, u);
        for (int e = p->dag.in_at[u]; e < p->dag.in_at[u + 1]; e++)
            way[u] = way[p->dag.in[e]] > way[u] ? way[p->dag.in[e]] : way[u];
        way[u] += t.f + t.i;
        longest = way[u] > longest ? way[u] : longest;
    }
    sl_arena_free(&arena);
    return longest;
}

/* With prices y of the kinds such that one second of every device costs 1 in all, no step is
 * shorter than what the work costs where it is cheapest. Prices that make whole passes equally dear
 * are exact when kinds differ by a factor; equal prices hold, too. */
static double work_bound(const struct sl_problem *p, int size, bool equal) {
    const struct sl_machine *m = p->machine;
    double *price = sl_realloc(NULL, sizeof *price * (size_t)m->kind_count), all = 0, work = 0;
    for (int k = 0; k < m->kind_count; k++) {
        const struct sl_unit_time *t = sl_problem_times(p, size, k);
        int64_t pass = 0;
        for (int u = 0; u < p->unit_count; u++)
            pass += t[u].f + t[u].i + t[u].w;
        price[k] = equal || !pass ? 1 : 1 / (double)pass;
    }
    for (int d = 0; d < m->device_count; d++)
        all += price[m->kind_of[d]];
    for (int u = 0; u < p->unit_count; u++) {
        double least = INFINITY;
        for (int k = 0; k < m->kind_count; k++) {
            const struct sl_unit_time *t = &sl_problem_times(p, size, k)[u];
            least = fmin(least, price[k] * (double)(t->f + t->i + t->w));
        }
        work += least;
    }
    free(price);
    return work / all * (1 - 1e-12);
}

int64_t sl_size_bound(const struct sl_problem *p, int size, bool async) {
    int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
    double one = fmax(work_bound(p, size, false), work_bound(p, size, true));
    int64_t work = (int64_t)((double)micros * one);
    if (async)
        return sl_async_bound(work, micros, p->machine->device_count);
    int64_t way = longest_way(p, size);
    return work > way ? work : way;
}

/* ---- chain ---- */

/* Sums over the units in front of each place on the path. */
struct place {
    int64_t f, i, w, step;
    double params, fixed, stash; /* bytes; stash per sample */
};

struct ring { /* the fastest reduction over w devices, at best */
    double bandwidth;
    int64_t latency_ns;
};

struct lane {         /* the path with one micro-batch size */
    struct place *at; /* [count + 1] */
    int64_t micros, size;
};

struct chain {
    const struct sl_problem *p;
    struct lane *lanes; /* sizes that a stage may have */
    int lane_count;
    struct place *front; /* [count + 1] what the units in front of a place take at least */
    int count, *left;    /* [devices + 1] the first unit of the longest row they can take */
    bool sync, split;
    struct sl_memory_rule rule;
    bool windowed; /* it is known how many micro-batches are in flight */
    double memory; /* of the largest device */
    struct ring *ring;
    struct { /* the largest tie on the path, its first and last place: a stage pays that has the
                last and not the first; whoever has the first might have both with more units */
        int first, last;
        int64_t ns;
    } tie;
};

/* Units of the heaviest path, in order; returns how many. */
static int heaviest_path(struct sl_arena *arena, const struct sl_problem *p, int size, int *path) {
    int *order = SL_NEW(arena, int, p->unit_count + 1), *from = SL_NEW(arena, int, p->unit_count);
    int64_t *sum = SL_NEW(arena, int64_t, p->unit_count);
    int count = 0, last = 0;
    SL_ASSERT(sl_dag_order(arena, &p->dag, order));
    for (int i = 0; i < p->unit_count; i++) {
        int u = order[i];
        struct sl_unit_time t = least_time(p, size, u);
        from[u] = -1;
        for (int e = p->dag.in_at[u]; e < p->dag.in_at[u + 1]; e++)
            if (sum[p->dag.in[e]] >= sum[u]) {
                sum[u] = sum[p->dag.in[e]];
                from[u] = p->dag.in[e];
            }
        sum[u] += t.f + t.i + t.w;
        last = sum[u] >= sum[last] ? u : last;
    }
    for (int u = last; u >= 0; u = from[u])
        path[count++] = u;
    for (int i = 0, j = count - 1; i < j; i++, j--) {
        int swap = path[i];
        path[i] = path[j];
        path[j] = swap;
    }
    return count;
}

static struct place add_unit(const struct sl_problem *p, struct place sum, int unit,
                             struct sl_unit_time t, double tied) {
    const struct sl_unit *u = &p->units[unit];
    double params = (double)u->params - tied;
    return (struct place){.f = sum.f + t.f,
                          .i = sum.i + t.i,
                          .w = sum.w + t.w,
                          .step = sum.step + t.step,
                          .params = sum.params + (params > 0 ? params : 0),
                          .fixed = sum.fixed + (double)(u->grads + u->state),
                          .stash = sum.stash + u->stash};
}

static void find_tie(struct chain *c, const int *path) {
    const struct sl_problem *p = c->p;
    for (int t = 0; t < p->tie_count; t++) {
        int first = -1, last = -1;
        int64_t ns = sl_tie_ns(p->machine, 2.0 * (double)p->ties[t].bytes);
        for (int x = 0; x < c->count; x++)
            for (int i = 0; i < p->ties[t].count; i++)
                if (p->ties[t].units[i] == path[x]) {
                    first = first < 0 ? x : first;
                    last = x;
                }
        if (first < last && ns > c->tie.ns) {
            c->tie.first = first;
            c->tie.last = last;
            c->tie.ns = ns;
        }
    }
}

/* Lanes of the sizes from `first` on. */
static void sum_path(struct sl_arena *arena, struct chain *c, int first) {
    const struct sl_problem *p = c->p;
    int *path = SL_NEW(arena, int, p->unit_count);
    double *tied = SL_NEW(arena, double, p->unit_count);
    for (int t = 0; t < p->tie_count; t++) /* counted once, wherever the units meet */
        for (int i = 1; i < p->ties[t].count; i++)
            tied[p->ties[t].units[i]] += (double)p->ties[t].bytes;
    c->count = heaviest_path(arena, p, first, path);
    find_tie(c, path);
    c->front = SL_NEW(arena, struct place, c->count + 1);
    for (int l = 0; l < c->lane_count; l++) {
        struct lane *lane = &c->lanes[l];
        lane->size = p->sizes[first + l];
        lane->micros = (p->batch + lane->size - 1) / lane->size;
        lane->at = SL_NEW(arena, struct place, c->count + 1);
        for (int x = 0; x < c->count; x++)
            lane->at[x + 1] =
                add_unit(p, lane->at[x], path[x], least_time(p, first + l, path[x]), tied[path[x]]);
    }
    for (int x = 0; x < c->count; x++) {
        struct sl_unit_time least = least_time(p, first, path[x]);
        for (int l = 1; l < c->lane_count; l++) {
            struct sl_unit_time t = least_time(p, first + l, path[x]);
            least.f = t.f < least.f ? t.f : least.f;
            least.i = t.i < least.i ? t.i : least.i;
            least.w = t.w < least.w ? t.w : least.w;
        }
        c->front[x + 1] = add_unit(p, c->front[x], path[x], least, tied[path[x]]);
    }
}

/* Of a ring over w devices the slowest link counts: beyond a host it is one of the network. */
static void find_rings(struct sl_arena *arena, struct chain *c) {
    const struct sl_machine *m = c->p->machine;
    int *held = SL_NEW(arena, int, m->hosts_in_all + 1), most = 0;
    c->ring = SL_NEW(arena, struct ring, m->device_count + 1);
    for (int d = 0; d < m->device_count; d++)
        most = ++held[m->host_of[d]] > most ? held[m->host_of[d]] : most;
    for (int w = 2; w <= m->device_count; w++) {
        struct ring *ring = &c->ring[w];
        ring->latency_ns = INT64_MAX;
        for (int i = 0; i < m->link_count; i++)
            ring->latency_ns = m->links[i].latency_ns < ring->latency_ns ? m->links[i].latency_ns
                                                                         : ring->latency_ns;
        for (int h = 0; h < m->hosts_in_all && w <= most; h++)
            ring->bandwidth = fmax(ring->bandwidth, m->links[m->link_of_host[h]].bandwidth);
        for (int l = 0; l < m->level_count; l++)
            if (w <= most || l == m->level_count - 1 || (int64_t)m->levels[l].hosts * most >= w)
                ring->bandwidth = fmax(ring->bandwidth, m->links[m->levels[l].link].bandwidth);
        if (!(ring->bandwidth > 0))
            ring->bandwidth = INFINITY;
    }
}

/* A stage in the making: everything but where it begins. */
struct tail {
    const struct lane *lane;
    int x;          /* it ends in front of this unit */
    int width;      /* at least */
    int width_most; /* with the same number of rounds */
    int behind;     /* devices of later stages */
    bool recompute;
};

static bool in_memory(const struct chain *c, const struct tail *t, int y) {
    const struct place *a = &t->lane->at[y], *b = &t->lane->at[t->x];
    int64_t micros = t->lane->micros;
    int64_t window = t->behind + t->width, live = 1;
    if (!t->recompute && (c->windowed || c->rule.all)) {
        live = c->rule.all || window > micros ? micros : window;
        live = (live + t->width_most - 1) / t->width_most;
    }
    double params = (c->rule.twice ? 2 : 1) * (b->params - a->params);
    double stash = (double)live * (b->stash - a->stash) * (double)t->lane->size;
    return params + b->fixed - a->fixed + stash <= c->memory;
}

static bool in_time(const struct chain *c, const struct tail *t, int y, int64_t limit) {
    const struct place *a = &t->lane->at[y], *b = &t->lane->at[t->x], *front = &c->front[y];
    int64_t rounds = (t->lane->micros + t->width - 1) / t->width;
    int64_t f = b->f - a->f, i = b->i - a->i, w = b->w - a->w;
    int64_t passes = rounds * (f + i + (t->recompute ? f : 0)), late = rounds * w;
    int64_t end = b->step - a->step, tie = 0;
    if (c->tie.first < y && y <= c->tie.last && c->tie.last < t->x)
        tie = c->tie.ns;
    int64_t reduce = 0;
    if (t->width > 1)
        reduce = (int64_t)(1e9 * 2 * (t->width - 1) / t->width * (b->params - a->params) /
                           c->ring[t->width].bandwidth) +
                 2 * (t->width - 1) * c->ring[t->width].latency_ns;
    if (!c->sync) /* stages that step together over a tie do not wait */
        return passes + late + end + (c->p->tie_count ? 0 : reduce) <= limit;
    end += reduce + tie;
    const struct place *whole = &c->front[c->count], *next = &c->front[t->x];
    int64_t back = front->i + (c->split ? 0 : front->w);
    int64_t behind = whole->f - next->f + whole->i - next->i;
    behind += c->split ? 0 : whole->w - next->w;
    /* no backward pass before the first micro-batch came back, and until then only those forward
     * passes that the window allows */
    int64_t live = (t->behind + 2 * t->width - 1) / t->width;
    int64_t after = rounds * (i + w) + (c->windowed && rounds > live ? (rounds - live) * f : 0);
    if (front->f + f + behind + after + (back > end && !c->split ? back : end) > limit)
        return false;
    if (!c->split) /* what is before it waits for all of its passes */
        passes += late;
    return front->f + passes + back <= limit &&
           front->f + passes + (c->split ? late : 0) + end <= limit;
}

/* The first unit from `low` on that the stage can reach down to: the fewer units, the better it
 * fits; `below`: it does not get further. */
static int reach_from(const struct chain *c, const struct tail *t, int low, int below,
                      int64_t limit) {
    if (below <= low || !in_time(c, t, below - 1, limit) || !in_memory(c, t, below - 1))
        return below;
    int high = below - 1; /* is reached */
    while (low < high) {
        int y = low + (high - low) / 2;
        if (in_time(c, t, y, limit) && in_memory(c, t, y))
            high = y;
        else
            low = y + 1;
    }
    return high;
}

/* Only a stage that gets hold of both ends of a tie fits better with more units. */
static int reach(const struct chain *c, const struct tail *t, int below, int64_t limit) {
    bool both = c->tie.ns && c->tie.last < t->x && c->tie.first < below - 1;
    int y = reach_from(c, t, both ? c->tie.first + 1 : 0, below, limit);
    if (!both)
        return y;
    int whole = reach_from(c, t, 0, c->tie.first + 1, limit);
    return whole <= c->tie.first ? whole : y;
}

/* Widths with equal rounds differ in memory only: the least of them is charged, the most fits. */
static int next_tail(const struct chain *c, int width, struct tail *t) {
    int64_t micros = t->lane->micros, rounds = (micros + width - 1) / width;
    int64_t most = c->p->machine->device_count;
    if (rounds > 1 && (micros - 1) / (rounds - 1) < most)
        most = (micros - 1) / (rounds - 1);
    t->width = width;
    t->width_most = c->p->straight ? 1 : (int)most;
    return t->width_most + 1;
}

/* The last of k devices: any stage that it may complete. */
static void add_device(const struct chain *c, const struct lane *lane, int k, int64_t limit) {
    struct tail t = {.lane = lane};
    for (int w = 1, next; w <= k && w <= lane->micros && (w == 1 || !c->p->straight); w = next) {
        next = next_tail(c, w, &t);
        t.behind = k - w;
        t.x = c->left[t.behind];
        if (t.behind && t.x == c->left[t.behind - 1] && !c->windowed)
            continue; /* with fewer devices behind it was better, unless a window is the limit */
        for (int again = 0; again < 2; again++) {
            t.recompute = again;
            c->left[k] = reach(c, &t, c->left[k], limit);
        }
    }
}

/* May a step of `limit` be possible? */
static bool may_be(const struct chain *c, int64_t limit) {
    int devices = c->p->machine->device_count;
    if (!c->sync) { /* as sl_async_bound has it */
        double all = (double)(SL_ASYNC_ITERS - 1) * (double)c->lanes[0].micros;
        double before = (double)sl_async_before(c->lanes[0].micros, devices);
        if (before >= all)
            return true;
        limit = (int64_t)ceil((double)(limit + 1) * all / (all - before));
    }
    c->left[0] = c->count;
    for (int k = 1; k <= devices; k++) {
        c->left[k] = c->left[k - 1];
        for (int l = 0; l < c->lane_count; l++)
            add_device(c, &c->lanes[l], k, limit);
        if (!c->left[k])
            return true;
    }
    return false;
}

/* `sizes` micro-batch sizes from `first` on, from which every stage may choose. */
static void open_chain(struct sl_arena *arena, const struct sl_problem *p, const char *schedule,
                       int first, int sizes, struct chain *out) {
    const struct sl_schedule *row = sl_schedule_find(schedule);
    *out = (struct chain){.p = p,
                          .lanes = SL_NEW(arena, struct lane, sizes),
                          .lane_count = sizes,
                          .sync = !row || row->rule == SL_RULE_SYNC,
                          .split = sl_schedule_splits(schedule),
                          .rule = sl_memory_rule(schedule)};
    out->windowed = sizes == 1 && sl_schedule_windowed(schedule);
    for (int d = 0; d < p->machine->device_count; d++)
        out->memory = fmax(out->memory, p->memory[d] > 0 ? (double)p->memory[d] : INFINITY);
    out->left = SL_NEW(arena, int, p->machine->device_count + 1);
    sum_path(arena, out, first);
    find_rings(arena, out);
}

/* The smallest step that may be possible, when it is below `best`; else `best`. `low`: nothing is
 * faster. */
static int64_t chain_bound(const struct chain *c, int64_t low, int64_t best) {
    int64_t high = best;
    if (low >= best || (best < INT64_MAX && !may_be(c, best - 1)))
        return best;
    if (best == INT64_MAX)
        for (high = low > 0 ? low : 1; high < INT64_MAX / 4 && !may_be(c, high); high *= 2)
            low = high + 1;
    while (low < high && high - low > high / 10000) {
        int64_t middle = low + (high - low) / 2;
        if (may_be(c, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* All work at the size that suits each unit best. */
static int64_t mixed_work(const struct sl_problem *p) {
    double work = 0;
    for (int u = 0; u < p->unit_count; u++) {
        double least = INFINITY;
        for (int size = 0; size < p->size_count; size++) {
            struct sl_unit_time t = least_time(p, size, u);
            int64_t micros = (p->batch + p->sizes[size] - 1) / p->sizes[size];
            least = fmin(least, (double)micros * (double)(t.f + t.i + t.w));
        }
        work += least;
    }
    return (int64_t)(work / p->machine->device_count * (1 - 1e-12));
}

int64_t sl_space_bound(const struct sl_problem *p, const char *const *schedules, bool mixed) {
    int64_t best = INT64_MAX;
    struct sl_arena arena = {0};
    struct chain c;
    for (const char *const *s = schedules; *s; s++)
        for (int size = p->size_count - 1; size >= 0; size--) {
            open_chain(&arena, p, *s, size, 1, &c);
            best = chain_bound(&c, sl_size_bound(p, size, !c.sync), best);
        }
    if (mixed && p->size_count > 1) {
        open_chain(&arena, p, "graph", 0, p->size_count, &c);
        best = chain_bound(&c, mixed_work(p), best);
    }
    sl_arena_free(&arena);
    return best;
}
