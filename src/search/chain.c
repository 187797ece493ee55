/* Computes the chain bound (chain.h): the minimal number of devices within a limit, then
 * bisection. */
#include "search/chain.h"

#include "search/bound.h"

#include <math.h>

struct sl_unit_time sl_search_least_time(const struct sl_problem *p, int size, int unit) {
    struct sl_unit_time least = sl_search_problem_times(p, size, 0)[unit];
    for (int k = 1; k < p->machine->kind_count; k++) {
        const struct sl_unit_time *t = &sl_search_problem_times(p, size, k)[unit];
        least.f = t->f < least.f ? t->f : least.f;
        least.i = t->i < least.i ? t->i : least.i;
        least.w = t->w < least.w ? t->w : least.w;
        least.step = t->step < least.step ? t->step : least.step;
    }
    return least;
}

/* Fills the units of the heaviest path, in order; returns their number. */
static int heaviest_path(struct sl_arena *arena, const struct sl_problem *p, int size, int *path) {
    int *order = SL_NEW(arena, int, p->unit_count + 1), *from = SL_NEW(arena, int, p->unit_count);
    int64_t *sum = SL_NEW(arena, int64_t, p->unit_count);
    int count = 0, last = 0;
    SL_ASSERT(sl_graph_dag_order(arena, &p->dag, order));
    for (int i = 0; i < p->unit_count; i++) {
        int u = order[i];
        struct sl_unit_time t = sl_search_least_time(p, size, u);
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

static struct sl_chain_sums add_unit(const struct sl_chain *c, struct sl_chain_sums sum, int unit,
                                     struct sl_unit_time t, double tied) {
    const struct sl_unit *u = &c->p->units[unit];
    double params = fmax((double)u->params - tied, 0);
    if (c->version_rate > 0)
        t.step = (int64_t)(1e9 * params / c->version_rate);
    return (struct sl_chain_sums){.f = sum.f + t.f,
                                  .i = sum.i + t.i,
                                  .w = sum.w + t.w,
                                  .step = sum.step + t.step,
                                  .params = sum.params + params,
                                  .fixed = sum.fixed + (double)(u->fixed + u->grads + u->state),
                                  .stash = sum.stash + u->stash};
}

static void find_tie(struct sl_chain *c, const int *path) {
    const struct sl_problem *p = c->p;
    for (int t = 0; t < p->tie_count; t++) {
        int first = -1, last = -1;
        int64_t ns = sl_search_tie_ns(p->machine, 2.0 * (double)p->ties[t].bytes);
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

/* Fills c->in: bytes that the unit at each position reads from earlier units of the path, which a
 * stage that begins there receives. A running minimum, so that longer stages never read less. */
static void sum_inputs(struct sl_arena *arena, struct sl_chain *c, const int *path) {
    const struct sl_problem *p = c->p;
    int *place = SL_NEW(arena, int, p->unit_count + 1);
    c->in = SL_NEW(arena, double, c->count + 1);
    for (int x = 0; x < c->count; x++)
        place[path[x]] = x + 1;
    for (int t = 0; t < p->tensor_count; t++)
        for (int i = 0; i < p->tensors[t].to_count && place[p->tensors[t].from]; i++) {
            int x = place[p->tensors[t].to[i]] - 1;
            if (x >= place[p->tensors[t].from])
                c->in[x] += (double)p->tensors[t].sample_bytes;
        }
    for (int x = 2; x < c->count; x++)
        c->in[x] = fmin(c->in[x], c->in[x - 1]);
}

/* Sums up the path for the micro-batch sizes from `first` on, one lane each. */
static void sum_path(struct sl_arena *arena, struct sl_chain *c, int first) {
    const struct sl_problem *p = c->p;
    int *path = SL_NEW(arena, int, p->unit_count);
    double *tied = SL_NEW(arena, double, p->unit_count);
    for (int t = 0; t < p->tie_count; t++) /* tied parameters count once */
        for (int i = 1; i < p->ties[t].count; i++)
            tied[p->ties[t].units[i]] += (double)p->ties[t].bytes;
    c->count = heaviest_path(arena, p, first, path);
    find_tie(c, path);
    sum_inputs(arena, c, path);
    c->front = SL_NEW(arena, struct sl_chain_sums, c->count + 1);
    for (int l = 0; l < c->lane_count; l++) {
        struct sl_chain_lane *lane = &c->lanes[l];
        lane->size = p->sizes[first + l];
        lane->micros = (p->batch + lane->size - 1) / lane->size;
        lane->at = SL_NEW(arena, struct sl_chain_sums, c->count + 1);
        for (int x = 0; x < c->count; x++)
            lane->at[x + 1] = add_unit(c, lane->at[x], path[x],
                                       sl_search_least_time(p, first + l, path[x]), tied[path[x]]);
    }
    for (int x = 0; x < c->count; x++) {
        struct sl_unit_time least = sl_search_least_time(p, first, path[x]);
        for (int l = 1; l < c->lane_count; l++) {
            struct sl_unit_time t = sl_search_least_time(p, first + l, path[x]);
            least.f = t.f < least.f ? t.f : least.f;
            least.i = t.i < least.i ? t.i : least.i;
            least.w = t.w < least.w ? t.w : least.w;
        }
        c->front[x + 1] = add_unit(c, c->front[x], path[x], least, tied[path[x]]);
    }
}

/* Finds the fastest ring for each width: its slowest link limits it, and a ring larger than a host
 * uses a network link. */
static void find_rings(struct sl_arena *arena, struct sl_chain *c) {
    const struct sl_machine *m = c->p->machine;
    int *held = SL_NEW(arena, int, m->hosts_in_all + 1), max = 0;
    c->ring = SL_NEW(arena, struct sl_chain_ring, m->device_count + 1);
    for (int d = 0; d < m->device_count; d++)
        max = ++held[m->host_of[d]] > max ? held[m->host_of[d]] : max;
    for (int w = 2; w <= m->device_count; w++) {
        struct sl_chain_ring *ring = &c->ring[w];
        ring->latency_ns = INT64_MAX;
        for (int i = 0; i < m->link_count; i++)
            ring->latency_ns = m->links[i].latency_ns < ring->latency_ns ? m->links[i].latency_ns
                                                                         : ring->latency_ns;
        for (int h = 0; h < m->hosts_in_all && w <= max; h++)
            ring->bandwidth = fmax(ring->bandwidth, m->links[m->link_of_host[h]].bandwidth);
        for (int l = 0; l < m->level_count; l++)
            if (w <= max || l == m->level_count - 1 || (int64_t)m->levels[l].hosts * max >= w)
                ring->bandwidth = fmax(ring->bandwidth, m->links[m->levels[l].link].bandwidth);
        if (!(ring->bandwidth > 0))
            ring->bandwidth = INFINITY;
    }
}

/* A stage whose last unit is chosen, but not its first. */
struct tail {
    const struct sl_chain_lane *lane;
    int x;         /* the stage ends before this unit */
    int width;     /* smallest width with this number of rounds */
    int width_max; /* largest width with this number of rounds */
    int behind;    /* number of devices of later stages */
    bool recompute;
};

static bool in_memory(const struct sl_chain *c, const struct tail *t, int y) {
    const struct sl_chain_sums *a = &t->lane->at[y], *b = &t->lane->at[t->x];
    int64_t window = t->behind + t->width, flight = 1;
    if (c->windowed || c->rule.all) {
        flight = c->rule.all || window > t->lane->micros ? t->lane->micros : window;
        flight = (flight + t->width_max - 1) / t->width_max;
    }
    double params = (c->rule.twice ? 2 : 1) * (b->params - a->params);
    double stash = (double)(t->recompute ? 1 : flight) * (b->stash - a->stash);
    stash += y ? (double)flight * c->in[y] : 0;
    return params + b->fixed - a->fixed + stash * (double)t->lane->size <= c->memory;
}

static bool in_time(const struct sl_chain *c, const struct tail *t, int y, int64_t limit) {
    const struct sl_chain_sums *a = &t->lane->at[y], *b = &t->lane->at[t->x], *front = &c->front[y];
    int64_t rounds = (t->lane->micros + t->width - 1) / t->width;
    int64_t f = b->f - a->f, i = b->i - a->i, w = b->w - a->w;
    int64_t recompute = t->recompute ? sl_search_recompute_ns(c->p, f) : 0;
    int64_t passes = rounds * (f + i + recompute), late = rounds * w;
    int64_t end = b->step - a->step, tie = 0;
    if (c->tie.first < y && y <= c->tie.last && c->tie.last < t->x)
        tie = c->tie.ns;
    int64_t reduce = 0;
    if (t->width > 1)
        reduce = (int64_t)(1e9 * 2 * (t->width - 1) / t->width * (b->params - a->params) /
                           c->ring[t->width].bandwidth) +
                 2 * (t->width - 1) * c->ring[t->width].latency_ns;
    if (!c->sync) /* with ties, stages step globally and do not wait for reductions */
        return passes + late + end + (c->p->tie_count ? 0 : reduce) <= limit;
    end += reduce + tie;
    const struct sl_chain_sums *whole = &c->front[c->count], *next = &c->front[t->x];
    int64_t back = front->i + (c->split ? 0 : front->w);
    int64_t behind = whole->f - next->f + whole->i - next->i;
    behind += c->split ? 0 : whole->w - next->w;
    /* The first backward pass waits for the first gradient. Until then the stage runs only the
     * forward passes in its window and one recomputation. */
    int64_t live = (t->behind + 2 * t->width - 1) / t->width;
    int64_t after = rounds * (i + w) + (c->windowed && rounds > live ? (rounds - live) * f : 0);
    after += (rounds - 1) * recompute;
    if (front->f + f + behind + after + (back > end && !c->split ? back : end) > limit)
        return false;
    if (!c->split) /* earlier stages wait for all passes, W too */
        passes += late;
    return front->f + passes + back <= limit &&
           front->f + passes + (c->split ? late : 0) + end <= limit;
}

static bool fits(const struct sl_chain *c, const struct tail *t, int y, int64_t limit) {
    return in_time(c, t, y, limit) && in_memory(c, t, y);
}

/* Returns the first unit (at least `low`) of the longest stage that fits, or `below` if none fits.
 * Shorter stages fit better, with one exception: a stage from unit 0 on reads nothing. */
static int reach_from(const struct sl_chain *c, const struct tail *t, int low, int below,
                      int64_t limit) {
    if (below <= low)
        return below;
    if (low == 0 && fits(c, t, 0, limit))
        return 0;
    low = low ? low : 1;
    if (below <= low || !fits(c, t, below - 1, limit))
        return below;
    int high = below - 1; /* a stage from `high` on fits */
    while (low < high) {
        int y = low + (high - low) / 2;
        if (fits(c, t, y, limit))
            high = y;
        else
            low = y + 1;
    }
    return high;
}

/* Like reach_from. A stage with both ends of a tie may fit although a shorter one does not. */
static int reach(const struct sl_chain *c, const struct tail *t, int below, int64_t limit) {
    bool both = c->tie.ns && c->tie.last < t->x && c->tie.first < below - 1;
    int y = reach_from(c, t, both ? c->tie.first + 1 : 0, below, limit);
    if (!both)
        return y;
    int whole = reach_from(c, t, 0, c->tie.first + 1, limit);
    return whole <= c->tie.first ? whole : y;
}

/* Finds the next number of rounds and its widths. They differ only in memory, so the bound counts
 * the devices of the smallest width and the memory of the largest. */
static int next_tail(const struct sl_chain *c, int width, struct tail *t) {
    int64_t micros = t->lane->micros, rounds = (micros + width - 1) / width;
    int64_t max = c->p->machine->device_count;
    if (rounds > 1 && (micros - 1) / (rounds - 1) < max)
        max = (micros - 1) / (rounds - 1);
    t->width = width;
    t->width_max = c->p->straight ? 1 : (int)max;
    return t->width_max + 1;
}

/* Computes left[k]: tries every stage as the first one of the pipeline on the last k devices. */
static void add_device(const struct sl_chain *c, const struct sl_chain_lane *lane, int k,
                       int64_t limit) {
    struct tail t = {.lane = lane};
    for (int w = 1, next; w <= k && w <= lane->micros && (w == 1 || !c->p->straight); w = next) {
        next = next_tail(c, w, &t);
        t.behind = k - w;
        t.x = c->left[t.behind];
        if (t.behind && t.x == c->left[t.behind - 1] && !c->windowed)
            continue; /* with fewer devices behind it the stage ends at the same unit; memory
                       * differs only if windowed */
        for (int recompute = 0; recompute < 2; recompute++) {
            t.recompute = recompute;
            c->left[k] = reach(c, &t, c->left[k], limit);
        }
    }
}

bool sl_search_chain_is_feasible(const struct sl_chain *c, int64_t limit) {
    int devices = c->p->machine->device_count;
    if (!c->sync) { /* inverts sl_search_async_bound */
        double all = (double)(SL_ASYNC_ITERS - 1) * (double)c->lanes[0].micros;
        double before = (double)sl_search_async_in_flight(c->lanes[0].micros, devices);
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

void sl_search_chain_open(struct sl_arena *arena, const struct sl_problem *p, const char *schedule,
                          int first, int sizes, struct sl_chain *out) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    *out = (struct sl_chain){.p = p,
                             .lanes = SL_NEW(arena, struct sl_chain_lane, sizes),
                             .lane_count = sizes,
                             .sync = !row || row->rule == SL_RULE_SYNC,
                             .split = sl_search_schedule_splits(schedule),
                             .version_rate = sl_search_version_rate(p, schedule),
                             .rule = sl_search_memory_rule(schedule)};
    out->windowed = sizes == 1 && sl_search_schedule_windowed(schedule) && !(row && row->groups);
    for (int d = 0; d < p->machine->device_count; d++)
        out->memory = fmax(out->memory, p->memory[d] > 0 ? (double)p->memory[d] : INFINITY);
    out->left = SL_NEW(arena, int, p->machine->device_count + 1);
    sum_path(arena, out, first);
    find_rings(arena, out);
}

int64_t sl_search_chain_bound(const struct sl_chain *c, int64_t low, int64_t best) {
    int64_t high = best;
    if (low >= best || (best < INT64_MAX && !sl_search_chain_is_feasible(c, best - 1)))
        return best;
    if (best == INT64_MAX)
        for (high = low > 0 ? low : 1;
             high < INT64_MAX / 4 && !sl_search_chain_is_feasible(c, high); high *= 2)
            low = high + 1;
    while (low < high && high - low > high / 10000) {
        int64_t middle = low + (high - low) / 2;
        if (sl_search_chain_is_feasible(c, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}
