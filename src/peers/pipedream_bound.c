/* A lower bound on PipeDream's objective for graphs with too many cuts to try.
 *
 * Cuts are grouped into ordered classes: of two nested cuts the smaller one is never in a later
 * class. A class has bounds on the time and parameters inside its cuts and a lower bound on the
 * bytes across them. If all cuts can be listed, a class is an interval of time. Otherwise take one
 * topological order u0, u1, ...; the class of a cut is the number of the first layer that is not
 * inside. A cut of class i contains all layers before u_i and no descendant of u_i:
 *
 *     time before u_i <= time inside <= all time - time of descendants of u_i  (also parameters)
 *     bytes across the cut >= minimum cut between these two sets (max-flow; PipeDream counts at
 *                             least the bytes that are still needed)
 *
 * A chain of stages is a walk through the classes. For a limit T the walk computes, class by class,
 * the largest time inside that m units can reach. T is too small if they do not reach the whole
 * graph. */
#include "peers/pipedream.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

enum { LAYERS_MAX = 4096, ROUNDS = 16, INTERVALS = 600 };
static const double SLACK = 1 + 1e-12;

/* ---- minimum cuts ---- */

/* The flow network: layer v is node v; node n + v is its output, which is paid once for all
 * readers. */
struct flow {
    int count, arc_count;
    int *first, *next, *to; /* arcs e and e ^ 1 are the reverse of each other */
    double *full, *room;
    int *side, *via, *queue; /* [node] 1: source, 2: sink */
};

static void add_arc(struct flow *f, int from, int to, double room, double back) {
    for (int way = 0; way < 2; way++) {
        int e = f->arc_count++;
        f->to[e] = way ? from : to;
        f->full[e] = way ? back : room;
        f->next[e] = f->first[way ? to : from];
        f->first[way ? to : from] = e;
    }
}

static void open_flow(struct sl_arena *arena, const struct sl_pipedream_graph *g, struct flow *f) {
    int n = g->dag.count, arcs = 2 * (n + 2 * g->dag.out_at[n]);
    *f = (struct flow){.count = n};
    f->first = SL_NEW(arena, int, 2 * n);
    f->next = SL_NEW(arena, int, arcs + 1);
    f->to = SL_NEW(arena, int, arcs + 1);
    f->full = SL_NEW(arena, double, arcs + 1);
    f->room = SL_NEW(arena, double, arcs + 1);
    f->side = SL_NEW(arena, int, 2 * n);
    f->via = SL_NEW(arena, int, 2 * n);
    f->queue = SL_NEW(arena, int, 2 * n);
    for (int v = 0; v < 2 * n; v++)
        f->first[v] = -1;
    for (int v = 0; v < n; v++) {
        add_arc(f, v, n + v, g->layers->at[v].output_bytes, 0);
        for (int e = g->dag.out_at[v]; e < g->dag.out_at[v + 1]; e++) {
            add_arc(f, n + v, g->dag.out[e], INFINITY, 0);
            /* a cut that contains a layer contains its inputs */
            add_arc(f, g->dag.out[e], v, INFINITY, 0);
        }
    }
}

/* Finds an augmenting path from the source side to the sink side. Returns its last node, or -1. */
static int find_way(struct flow *f) {
    int count = 0;
    for (int v = 0; v < 2 * f->count; v++) {
        f->via[v] = f->side[v] == 1 ? -2 : -1;
        if (f->side[v] == 1)
            f->queue[count++] = v;
    }
    for (int i = 0; i < count; i++)
        for (int e = f->first[f->queue[i]]; e >= 0; e = f->next[e]) {
            int to = f->to[e];
            if (f->via[to] != -1 || !(f->room[e] > 0))
                continue;
            f->via[to] = e;
            if (f->side[to] == 2)
                return to;
            f->queue[count++] = to;
        }
    return -1;
}

static double least_cut(struct flow *f) {
    double sum = 0;
    memcpy(f->room, f->full, sizeof *f->room * (size_t)f->arc_count);
    for (int end = find_way(f); end >= 0; end = find_way(f)) {
        double max = INFINITY;
        for (int v = end; f->via[v] >= 0; v = f->to[f->via[v] ^ 1])
            max = fmin(max, f->room[f->via[v]]);
        for (int v = end; f->via[v] >= 0; v = f->to[f->via[v] ^ 1]) {
            f->room[f->via[v]] -= max;
            f->room[f->via[v] ^ 1] += max;
        }
        sum += max;
    }
    return sum;
}

/* ---- classes ---- */

struct class {
    double least, max;               /* bounds on the seconds inside its cuts */
    double params_least, params_max; /* bounds on the bytes of parameters inside */
    double cut;                      /* lower bound on the bytes across its cuts */
};

static double seconds(const struct sl_layer *layer) {
    return (layer->forward + layer->backward) / 1000.0;
}

/* Fills the set of layers on the source side of the last minimum cut. */
static void take_side(const struct flow *f, uint64_t *set) {
    for (int v = 0; v < f->count; v++)
        if (f->via[v] != -1)
            set[v >> 6] |= 1ull << (v & 63);
}

/* Lists the classes in order; the last is the whole graph. `sets` (may be NULL) becomes a minimum
 * cut of each class but the last. Returns the number of classes; 0: the deadline came. */
static int list_classes(struct sl_arena *arena, const struct sl_pipedream_graph *g,
                        int64_t until_ns, struct class *out, uint64_t *sets) {
    int n = g->dag.count, *order = SL_NEW(arena, int, n), count = 0;
    struct class all = {0};
    struct flow f;
    open_flow(arena, g, &f);
    SL_ASSERT(sl_graph_dag_order(arena, &g->dag, order));
    for (int v = 0; v < n; v++) {
        all.max += g->removed[v] ? 0 : seconds(&g->layers->at[v]);
        all.params_max += g->removed[v] ? 0 : g->layers->at[v].params_bytes;
    }
    struct class now = all; /* now.least: time of the layers before */
    for (int i = 0; i < n; i++) {
        int u = order[i];
        if (g->removed[u])
            continue;
        if (sl_clock_past(until_ns))
            return 0;
        struct class *class = &out[count++];
        *class = now;
        for (int v = 0; v < n; v++) {
            bool needs = v == u || sl_bit(g->before + (int64_t)v * g->words, u);
            f.side[v] = needs ? 2 : f.side[v] == 1 ? 1 : 0;
            class->max -= needs ? seconds(&g->layers->at[v]) : 0;
            class->params_max -= needs ? g->layers->at[v].params_bytes : 0;
        }
        class->cut = least_cut(&f);
        if (sets)
            take_side(&f, sets + (int64_t)(count - 1) * g->words);
        f.side[u] = 1;
        now.least += seconds(&g->layers->at[u]);
        now.params_least += g->layers->at[u].params_bytes;
    }
    out[count++] = (struct class){all.max, all.max, all.params_max, all.params_max, 0};
    return count;
}

const uint64_t *sl_peers_pipedream_cuts(struct sl_arena *arena,
                                        const struct sl_pipedream_graph *graph, int64_t until_ns,
                                        int *count) {
    struct class *classes = SL_NEW(arena, struct class, graph->dag.count + 1);
    uint64_t *sets = SL_NEW(arena, uint64_t, (int64_t)graph->dag.count * graph->words + 1);
    int all =
        graph->dag.count > LAYERS_MAX ? 0 : list_classes(arena, graph, until_ns, classes, sets);
    *count = all ? all - 1 : 0;
    return sets;
}

/* Lists classes that are intervals of time, each with at least one listed state; the last state is
 * the whole graph. */
static int list_intervals(const struct sl_pipedream_states *states, struct class *out) {
    int count = 0, last = states->ideals.count - 1, now = -1;
    for (int i = 0; i < last; i++) { /* ascending time */
        double time = states->compute[i], params = states->params[i];
        int interval = (int)(time / states->compute[last] * INTERVALS);
        struct class *class = &out[count - 1];
        if (interval != now) {
            out[count++] = (struct class){time, time, params, params, states->out[i]};
            now = interval;
            continue;
        }
        class->max = time;
        class->params_least = fmin(class->params_least, params);
        class->params_max = fmax(class->params_max, params);
        class->cut = fmin(class->cut, states->out[i]);
    }
    out[count++] = (struct class){states->compute[last], states->compute[last],
                                  states->params[last], states->params[last], 0};
    return count;
}

/* ---- walks ---- */

struct walk {
    const struct sl_peers_query *query;
    const struct class *classes;
    int count, units; /* numbers of classes and of units of the outermost level */
    double inner;     /* devices in one of these units */
    double inner_units, bandwidth;
    double *time; /* [class][units + 1] largest time inside that can be reached; -1: none */
};

static double sync_time(const struct walk *w, double params, int m) {
    return params > 0 ? 4.0 * (m - 1) / m * params / w->bandwidth : 0;
}

static void arrive(struct walk *w, int to, int units, double time) {
    double *at = &w->time[(int64_t)to * (w->units + 1) + units];
    time = fmin(time, w->classes[to].max);
    if (time * SLACK >= w->classes[to].least && time > *at)
        *at = time;
}

/* Extends the walk by one stage of m units that begins at a class, after `used` units. */
static void go_on(struct walk *w, int from, int used, int m, double limit) {
    double time = w->time[(int64_t)from * (w->units + 1) + used];
    double bytes = limit * w->bandwidth * m / 2 * SLACK;
    if (w->classes[from].cut > bytes && !w->query->free_links)
        return;
    for (int to = from; to < w->count; to++) {
        const struct class *class = &w->classes[to];
        double max = time + limit * m * w->inner * SLACK;
        if (class->least > max * SLACK)
            return;
        if (class->cut > bytes && !w->query->free_links)
            continue;
        double sync = sync_time(w, class->params_least - w->classes[from].params_max, m);
        arrive(w, to, used + m, time + (limit * m * SLACK - sync) * w->inner);
    }
}

static bool may_be(struct walk *w, double limit) {
    int widest = w->query->straight ? 1 : w->units;
    double *whole = &w->time[(int64_t)(w->count - 1) * (w->units + 1)];
    for (int64_t i = 0; i < (int64_t)w->count * (w->units + 1); i++)
        w->time[i] = -1;
    for (int to = 0; to < w->count; to++)
        for (int m = 1; m <= widest; m++) {
            double sync = sync_time(w, w->classes[to].params_least, m) / w->inner_units;
            arrive(w, to, m, (limit * m * SLACK - sync) * w->inner);
        }
    for (int from = 0; from + 1 < w->count; from++)
        for (int used = 1; used < w->units; used++)
            for (int m = 1; m <= widest && used + m <= w->units; m++)
                if (w->time[(int64_t)from * (w->units + 1) + used] >= 0)
                    go_on(w, from, used, m, limit);
    for (int used = 1; used <= w->units; used++)
        if (whole[used] >= 0)
            return true;
    return false;
}

double sl_peers_pipedream_bound(const struct sl_pipedream_graph *graph,
                                const struct sl_pipedream_states *all,
                                const struct sl_peers_query *query, double objective) {
    struct sl_arena arena = {0};
    int top = query->level_count - 1;
    struct walk w = {.query = query,
                     .units = (int)query->level[top],
                     .inner = (double)query->devices / (double)query->level[top],
                     .inner_units = top ? (double)query->level[top - 1] : 1,
                     .bandwidth = query->bandwidth[top]};
    if (graph->dag.count > LAYERS_MAX && !all)
        return 0;
    struct class *classes = SL_NEW(&arena, struct class, 2 + (all ? INTERVALS : graph->dag.count));
    w.classes = classes;
    w.count = all ? list_intervals(all, classes)
                  : list_classes(&arena, graph, query->until_ns, classes, NULL);
    if (!w.count) {
        sl_arena_free(&arena);
        return 0;
    }
    w.time = SL_NEW(&arena, double, (int64_t)w.count *(w.units + 1));
    double low = classes[w.count - 1].max / (double)query->devices, high = objective;
    for (int i = 0; i < ROUNDS && high > low && !sl_clock_past(query->until_ns); i++) {
        double middle = low + (high - low) / 2;
        if (may_be(&w, middle))
            high = middle;
        else
            low = middle;
    }
    sl_arena_free(&arena);
    return low;
}
