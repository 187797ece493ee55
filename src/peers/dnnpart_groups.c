/* Preprocessing of dnn-partitioning: fuses layers into groups that are placed as one.
 *
 *   colour classes    layers of one colour, forward and backward, are one group
 *   orphans           groups without a forward layer are ordered by their backward edges, reversed
 *   cycles            groups on a cycle of the forward order become one group
 *   leaves            a group without latency, one forward neighbour and no backward one joins it */
#include "peers/dnnpart.h"

#include "base/map.h"
#include "base/sort.h"
#include "base/vec.h"

struct grouping {
    struct sl_arena *arena;
    const struct sl_layers *layers;
    int *root; /* union-find over the layers */
};

static int find(const struct grouping *g, int i) {
    while (g->root[i] != i) {
        g->root[i] = g->root[g->root[i]];
        i = g->root[i];
    }
    return i;
}

static void join(struct grouping *g, int a, int b) {
    a = find(g, a);
    b = find(g, b);
    g->root[a > b ? a : b] = a > b ? b : a;
}

struct colored {
    int64_t color;
    int layer;
};

static int compare_colored(const void *a, const void *b) {
    const struct colored *x = a, *y = b;
    if (x->color != y->color)
        return x->color < y->color ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

static void join_colors(struct grouping *g) {
    int count = g->layers->count;
    struct colored *list = SL_NEW(g->arena, struct colored, count);
    for (int i = 0; i < count; i++)
        list[i] = (struct colored){g->layers->at[i].color, i};
    sl_sort(list, count, sizeof *list, compare_colored);
    for (int i = 1; i < count; i++)
        if (list[i].color >= 0 && list[i].color == list[i - 1].color)
            join(g, list[i].layer, list[i - 1].layer);
}

static int compare_edges(const void *a, const void *b) {
    const struct sl_dag_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

/* Lists the edges of the forward order between roots, without duplicates. */
static struct sl_dag_edge *order_edges(struct grouping *g, const bool *has_forward, int *count) {
    const struct sl_layers *layers = g->layers;
    struct sl_dag_edge *edges = SL_NEW(g->arena, struct sl_dag_edge, layers->edge_count + 1);
    int found = 0, kept = 0;
    for (int e = 0; e < layers->edge_count; e++) {
        const struct sl_layer *from = &layers->at[layers->edges[e].from],
                              *to = &layers->at[layers->edges[e].to];
        int a = find(g, layers->edges[e].from), b = find(g, layers->edges[e].to);
        if (a == b)
            continue;
        if (!from->is_backward && !to->is_backward)
            edges[found++] = (struct sl_dag_edge){a, b};
        else if (from->is_backward && to->is_backward && (!has_forward[a] || !has_forward[b]))
            edges[found++] = (struct sl_dag_edge){b, a};
    }
    sl_sort(edges, found, sizeof *edges, compare_edges);
    for (int e = 0; e < found; e++)
        if (!kept || compare_edges(&edges[e], &edges[kept - 1]) != 0)
            edges[kept++] = edges[e];
    *count = kept;
    return edges;
}

/* ---- cycles: Tarjan's components, with a stack of our own ---- */

struct tarjan {
    const struct sl_dag *dag;
    int *index, *low, *stack, *path, *next;
    bool *on_stack;
    int counter, depth, path_depth;
};

static void tarjan_enter(struct tarjan *t, int v) {
    t->index[v] = t->low[v] = ++t->counter;
    t->stack[t->depth++] = v;
    t->on_stack[v] = true;
    t->next[v] = t->dag->out_at[v];
    t->path[t->path_depth++] = v;
}

static void tarjan_leave(struct tarjan *t, struct grouping *g, int v) {
    t->path_depth--;
    if (t->path_depth) {
        int parent = t->path[t->path_depth - 1];
        t->low[parent] = t->low[v] < t->low[parent] ? t->low[v] : t->low[parent];
    }
    if (t->low[v] != t->index[v])
        return;
    for (int u = -1; u != v;) {
        u = t->stack[--t->depth];
        t->on_stack[u] = false;
        join(g, u, v);
    }
}

static void join_cycles(struct grouping *g, const struct sl_dag *dag) {
    int n = dag->count;
    int *memory = SL_NEW(g->arena, int, 5 * (int64_t)n);
    struct tarjan t = {.dag = dag,
                       .index = memory,
                       .low = memory + n,
                       .stack = memory + 2 * (int64_t)n,
                       .path = memory + 3 * (int64_t)n,
                       .next = memory + 4 * (int64_t)n,
                       .on_stack = SL_NEW(g->arena, bool, n)};
    for (int start = 0; start < n; start++) {
        if (t.index[start])
            continue;
        tarjan_enter(&t, start);
        while (t.path_depth) {
            int v = t.path[t.path_depth - 1];
            if (t.next[v] == dag->out_at[v + 1]) {
                tarjan_leave(&t, g, v);
                continue;
            }
            int to = dag->out[t.next[v]++];
            if (!t.index[to])
                tarjan_enter(&t, to);
            else if (t.on_stack[to] && t.index[to] < t.low[v])
                t.low[v] = t.index[to];
        }
    }
}

/* ---- leaves ---- */

/* Latencies of the forward and backward parts of each root, and whether its forward part has
 * backward neighbours. */
struct root_facts {
    double forward, backward;
    bool has_forward, near_backward;
};

static struct root_facts *root_facts(struct grouping *g) {
    const struct sl_layers *layers = g->layers;
    struct root_facts *facts = SL_NEW(g->arena, struct root_facts, layers->count);
    for (int i = 0; i < layers->count; i++) {
        const struct sl_layer *layer = &layers->at[i];
        struct root_facts *fact = &facts[find(g, i)];
        *(layer->is_backward ? &fact->backward : &fact->forward) += layer->cpu + layer->forward;
        fact->has_forward |= !layer->is_backward;
    }
    for (int e = 0; e < layers->edge_count; e++) {
        int from = layers->edges[e].from, to = layers->edges[e].to;
        if (layers->at[from].is_backward && !layers->at[to].is_backward)
            facts[find(g, to)].near_backward = true;
        if (!layers->at[from].is_backward && layers->at[to].is_backward)
            facts[find(g, from)].near_backward = true;
    }
    return facts;
}

/* Joins idle leaves to their neighbours. Returns whether something changed. */
static bool join_leaves(struct grouping *g) {
    int edge_count, count = g->layers->count;
    struct root_facts *facts = root_facts(g);
    bool *has_forward = SL_NEW(g->arena, bool, count), changed = false;
    for (int i = 0; i < count; i++)
        has_forward[i] = facts[i].has_forward;
    struct sl_dag_edge *edges = order_edges(g, has_forward, &edge_count);
    int *degree = SL_NEW(g->arena, int, count), *other = SL_NEW(g->arena, int, count);
    for (int e = 0; e < edge_count; e++) {
        degree[edges[e].from]++;
        degree[edges[e].to]++;
        other[edges[e].from] = edges[e].to;
        other[edges[e].to] = edges[e].from;
    }
    for (int i = 0; i < count; i++)
        if (find(g, i) == i && degree[i] == 1 && facts[i].forward < 1e-6 &&
            facts[i].backward < 1e-6 && !facts[i].near_backward) {
            join(g, i, other[i]);
            /* the values of both are out of date; the next round handles the fused group */
            degree[i] = degree[other[i]] = 0;
            changed = true;
        }
    return changed;
}

/* ---- the result ---- */

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Lists the groups that write or read the output of a layer, ascending, without duplicates. */
static int span_of(const struct sl_layers *layers, const int *of, int layer, int *out) {
    int count = 0, kept = 0;
    out[count++] = of[layer];
    for (int o = 0; o < layers->at[layer].out_count; o++)
        out[count++] = of[layers->edges[layers->at[layer].out[o]].to];
    sl_sort(out, count, sizeof *out, compare_ints);
    for (int i = 0; i < count; i++)
        if (!kept || out[i] != out[kept - 1])
            out[kept++] = out[i];
    return kept;
}

struct nets {
    SL_VEC(struct sl_dnnpart_net) list;
    SL_VEC(int) spans;
};

/* Makes the nets: tensors with the same groups become one net. */
static void find_nets(struct sl_arena *arena, const struct sl_layers *layers,
                      struct sl_dnnpart_groups *out) {
    struct nets nets = {0};
    struct sl_map known = {0};
    int *span = SL_NEW(arena, int, layers->edge_count + 2);
    int *keys = SL_NEW(arena, int, layers->edge_count + layers->count + 1), used = 0;
    for (int i = 0; i < layers->count; i++) {
        const struct sl_layer *layer = &layers->at[i];
        double cost = layer->out_count ? layers->edges[layer->out[0]].cost : 0;
        int count = span_of(layers, out->of, i, span);
        if (count < 2 || cost <= 0)
            continue;
        memcpy(keys + used, span, sizeof *span * (size_t)count);
        struct sl_str key = {(const char *)(keys + used), sizeof *span * (size_t)count};
        int64_t *found = sl_map_find(&known, key);
        if (found) {
            nets.list.at[*found].cost += cost;
            continue;
        }
        used += count;
        sl_map_put(&known, key, nets.list.count);
        SL_PUSH(&nets.list, ((struct sl_dnnpart_net){(int)nets.spans.count, count, cost}));
        for (int s = 0; s < count; s++)
            SL_PUSH(&nets.spans, span[s]);
    }
    out->net_count = (int)nets.list.count;
    out->nets = SL_VEC_FREEZE(&nets.list, arena);
    out->spans = SL_VEC_FREEZE(&nets.spans, arena);
    SL_VEC_FREE(&nets.list);
    SL_VEC_FREE(&nets.spans);
    sl_map_free(&known);
}

static void number_groups(struct grouping *g, struct sl_dnnpart_groups *out) {
    const struct sl_layers *layers = g->layers;
    int *of = SL_NEW(g->arena, int, layers->count), edge_count;
    bool *has_forward = SL_NEW(g->arena, bool, layers->count);
    for (int i = 0; i < layers->count; i++) {
        of[i] = find(g, i) == i ? out->count++ : of[find(g, i)];
        has_forward[find(g, i)] |= !layers->at[i].is_backward;
    }
    double *time = SL_NEW(g->arena, double, out->count),
           *cpu = SL_NEW(g->arena, double, out->count);
    double *size = SL_NEW(g->arena, double, out->count),
           *barred = SL_NEW(g->arena, double, out->count);
    for (int i = 0; i < layers->count; i++) {
        time[of[i]] += layers->at[i].forward;
        cpu[of[i]] += layers->at[i].cpu;
        size[of[i]] += layers->at[i].size_bytes;
        barred[of[i]] += layers->at[i].cpu_only;
    }
    for (int i = 0; i < out->count; i++)
        time[i] = barred[i] > 0 ? 0 : time[i];
    struct sl_dag_edge *edges = order_edges(g, has_forward, &edge_count);
    for (int e = 0; e < edge_count; e++)
        edges[e] = (struct sl_dag_edge){of[edges[e].from], of[edges[e].to]};
    out->dag = sl_graph_dag_build(g->arena, out->count, edges, edge_count);
    out->of = of;
    out->time = time;
    out->cpu = cpu;
    out->size = size;
    out->barred = barred;
}

void sl_peers_dnnpart_group(struct sl_arena *arena, const struct sl_layers *layers,
                            struct sl_dnnpart_groups *out) {
    struct grouping g = {arena, layers, SL_NEW(arena, int, layers->count)};
    int edge_count;
    *out = (struct sl_dnnpart_groups){0};
    for (int i = 0; i < layers->count; i++)
        g.root[i] = i;
    join_colors(&g);
    do {
        struct root_facts *facts = root_facts(&g);
        bool *has_forward = SL_NEW(arena, bool, layers->count);
        for (int i = 0; i < layers->count; i++)
            has_forward[i] = facts[i].has_forward;
        struct sl_dag_edge *edges = order_edges(&g, has_forward, &edge_count);
        struct sl_dag dag = sl_graph_dag_build(arena, layers->count, edges, edge_count);
        join_cycles(&g, &dag);
    } while (join_leaves(&g));
    number_groups(&g, out);
    find_nets(arena, layers, out);
}
