/* Units of a graph: the smallest groups of nodes that a stage may consist of.
 *
 * A unit holds nodes that kernels fuse, or a view or split with the node whose output it views.
 * If two units depend on each other, all nodes between their first and last node become one
 * unit. The graph of units is then acyclic. */
#include "pass/program.h"

#include "base/vec.h"

static int find(int *of, int i) {
    while (of[i] != i)
        i = of[i] = of[of[i]];
    return i;
}

static void join(int *of, int a, int b) {
    a = find(of, a);
    b = find(of, b);
    if (a < b)
        of[b] = a;
    else
        of[a] = b;
}

static int producer(const struct sl_graph *graph, int value) {
    if (value < 0)
        return -1;
    const struct sl_value *v = sl_graph_value(graph, value);
    return v->kind == SL_VALUE_NODE ? v->node : -1;
}

static void join_nodes(const struct sl_graph *graph, bool (*has_kernel)(const char *name), int *of,
                       int *group) {
    for (int n = 0; n < graph->forward_count; n++)
        of[n] = n;
    sl_pass_glue(graph, has_kernel, group);
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        join(of, n, group[n]);
        int from = node->in_count ? producer(graph, node->in[0]) : -1;
        if (from >= 0 && (node->op->is_view || node->op->is_split))
            join(of, n, from);
    }
}

struct edge {
    int from, to; /* units, each named by its first node */
};

/* Numbers the units in topological order; of several ready units the one with the smallest first
 * node comes first. Returns how many it numbered. `root` is find() of every node. */
static int number(struct sl_arena *arena, const struct sl_graph *graph, const int *root,
                  int *unit_of) {
    int nodes = graph->forward_count, count = 0, done = 0;
    struct sl_arena_mark mark = sl_arena_mark(arena);
    int *unit = SL_NEW(arena, int, nodes + 1); /* [first node of a unit] number of the unit */
    for (int n = 0; n < nodes; n++)
        unit[n] = root[n] == n ? count++ : -1;
    SL_VEC(struct edge) edges = {0};
    for (int n = 0; n < nodes; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int from = producer(graph, graph->nodes.at[n].in[i]);
            if (from >= 0 && root[from] != root[n])
                SL_PUSH(&edges, ((struct edge){unit[root[from]], unit[root[n]]}));
        }
    int *waits = SL_NEW(arena, int, count + 1), *rank = SL_NEW(arena, int, count + 1);
    int *at = SL_NEW(arena, int, count + 2), *out = SL_NEW(arena, int, edges.count + 1);
    for (int64_t e = 0; e < edges.count; e++) {
        waits[edges.at[e].to]++;
        at[edges.at[e].from + 2]++;
    }
    for (int u = 0; u < count; u++)
        at[u + 2] += at[u + 1];
    for (int64_t e = 0; e < edges.count; e++)
        out[at[edges.at[e].from + 1]++] = edges.at[e].to;
    SL_VEC_FREE(&edges);
    for (int u = 0; u < count; u++)
        rank[u] = -1;
    /* takes few rounds, because the node order is almost an order of units */
    for (bool moved = true; moved;) {
        moved = false;
        for (int u = 0; u < count; u++) {
            if (rank[u] >= 0 || waits[u])
                continue;
            rank[u] = done++;
            moved = true;
            for (int o = at[u]; o < at[u + 1]; o++)
                waits[out[o]]--;
        }
    }
    for (int n = 0; n < nodes; n++)
        unit_of[n] = rank[unit[root[n]]];
    sl_arena_release(arena, mark);
    return done == count ? count : -1;
}

/* Merges units that could not be numbered because they depend on each other: all nodes in their
 * ranges. */
static void close_ranges(const struct sl_graph *graph, int *of, const int *unit_of) {
    int nodes = graph->forward_count;
    for (int n = nodes - 1; n >= 0; n--) {
        int first = find(of, n);
        if (unit_of[n] >= 0 || first == n)
            continue;
        for (int k = first; k < n; k++)
            join(of, k, n);
    }
}

int sl_pass_units_kept(struct sl_arena *arena, const struct sl_graph *graph,
                       bool (*has_kernel)(const char *name), const int *keep, int *unit_of) {
    int nodes = graph->forward_count, count;
    int *of = SL_NEW(arena, int, nodes + 1), *root = SL_NEW(arena, int, nodes + 1);
    int *first = SL_NEW(arena, int, nodes + 2); /* [keep] first node + 1; 0: no node yet */
    join_nodes(graph, has_kernel, of, root);
    for (int n = 0; n < nodes && keep; n++) {
        if (keep[n] < 0)
            continue;
        if (!first[keep[n]])
            first[keep[n]] = n + 1;
        join(of, n, first[keep[n]] - 1);
    }
    for (;;) {
        for (int n = 0; n < nodes; n++)
            root[n] = find(of, n);
        count = number(arena, graph, root, unit_of);
        if (count >= 0)
            return count;
        close_ranges(graph, of, unit_of);
    }
}

int sl_pass_units(struct sl_arena *arena, const struct sl_graph *graph,
                  bool (*has_kernel)(const char *name), int *unit_of) {
    return sl_pass_units_kept(arena, graph, has_kernel, NULL, unit_of);
}
