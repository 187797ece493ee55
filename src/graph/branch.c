/* Finds branches: marks the nodes that carry the structure, ignores skip edges, then cuts and
 * divides.
 *
 * In any topological order a node is a cut if and only if no edge jumps over it; one pass that
 * keeps the furthest target so far finds all cuts. Between two cuts, nodes joined by edges form a
 * component (union-find). A component is again such a graph: a queue divides all components down to
 * a fixed depth, so the time is n log n. */
#include "graph/branch.h"

#include "graph/branch_flow.h"

enum { MAX_LEVEL = 8 };

/* ---- nodes that carry the structure ---- */

enum { FROM_INPUT = 1, FROM_PARAM = 2, TO_LOSS = 4, ALL = 7 };

static unsigned *mark_nodes(const struct sl_graph *graph, int nodes, struct sl_arena *scratch) {
    unsigned *marks = SL_NEW(scratch, unsigned, nodes + 1);
    for (int n = 0; n < nodes; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : &graph->values.at[node->in[i]];
            if (v && v->kind == SL_VALUE_NODE)
                marks[n] |= marks[v->node];
            else if (v)
                marks[n] |= v->kind == SL_VALUE_INPUT   ? FROM_INPUT
                            : v->kind == SL_VALUE_PARAM ? FROM_PARAM
                                                        : 0;
        }
    }
    for (int64_t i = 0; i < graph->losses.count; i++)
        if (graph->values.at[graph->losses.at[i].value].kind == SL_VALUE_NODE)
            marks[graph->values.at[graph->losses.at[i].value].node] |= TO_LOSS;
    for (int n = nodes - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; (marks[n] & TO_LOSS) && i < node->in_count; i++)
            if (node->in[i] >= 0 && graph->values.at[node->in[i]].kind == SL_VALUE_NODE)
                marks[graph->values.at[node->in[i]].node] |= TO_LOSS;
    }
    return marks;
}

/* Lists the inputs of place i, each once. `seen`: the last reader of each place. */
static void add_edges(struct sl_flow *f, int i, int *seen) {
    const struct sl_node *node = &f->graph->nodes.at[f->node_of[i]];
    int at = f->begin[i];
    for (int k = 0; k < node->in_count; k++) {
        const struct sl_value *v = node->in[k] < 0 ? NULL : &f->graph->values.at[node->in[k]];
        int from = v && v->kind == SL_VALUE_NODE ? f->place[v->node] : 0;
        if (v && v->kind == SL_VALUE_PARAM)
            f->weighted[i] = true;
        if (!from || seen[from] == i)
            continue;
        seen[from] = i;
        f->edge[at++] = from;
    }
    if (at == f->begin[i])
        f->edge[at++] = 0;
    f->begin[i + 1] = at;
}

/* Finds the owner of each side node: the owner of its first reader. */
static void find_owners(struct sl_flow *f, int nodes, const unsigned *marks) {
    for (int n = nodes - 1; n >= 0; n--) {
        const struct sl_node *node = &f->graph->nodes.at[n];
        int mine = f->place[n] ? f->place[n] : f->owner[n];
        if (f->owner[n] && (marks[n] & FROM_PARAM))
            f->weighted[f->owner[n]] = true;
        for (int i = 0; mine && i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : &f->graph->values.at[node->in[i]];
            if (v && v->kind == SL_VALUE_NODE && !f->place[v->node])
                f->owner[v->node] = mine;
        }
    }
}

static struct sl_flow open_flow(const struct sl_graph *graph, struct sl_arena *scratch) {
    int nodes = (int)(graph->differentiated ? graph->forward_count : graph->nodes.count);
    int64_t edges = 0;
    struct sl_flow f = {.graph = graph};
    unsigned *marks = mark_nodes(graph, nodes, scratch);
    f.place = SL_NEW(scratch, int, nodes + 1);
    f.owner = SL_NEW(scratch, int, nodes + 1);
    f.node_of = SL_NEW(scratch, int, nodes + 1);
    for (int n = 0; n < nodes; n++) {
        if (marks[n] != ALL)
            continue;
        f.place[n] = ++f.count;
        f.node_of[f.count] = n;
        edges += graph->nodes.at[n].in_count + 1;
    }
    f.begin = SL_NEW(scratch, int, f.count + 2);
    f.edge = SL_NEW(scratch, int, edges + 1);
    f.skip = SL_NEW(scratch, bool, edges + 1);
    f.ends = SL_NEW(scratch, bool, f.count + 1);
    f.weighted = SL_NEW(scratch, bool, f.count + 1);
    int *seen = SL_NEW(scratch, int, f.count + 1);
    for (int i = 1; i <= f.count; i++)
        add_edges(&f, i, seen);
    find_owners(&f, nodes, marks);
    for (int64_t i = 0; i < graph->losses.count; i++) {
        const struct sl_value *v = &graph->values.at[graph->losses.at[i].value];
        if (v->kind == SL_VALUE_NODE)
            f.ends[f.place[v->node]] = true;
    }
    return f;
}

/* ---- dividing ---- */

struct divide {
    struct sl_flow flow;
    struct sl_arena *arena;
    int *home;                   /* [places] its component, of those being divided */
    int *reach;                  /* [places] the last position that its edges reach */
    int *root;                   /* [places] union-find; 0: the place is a cut */
    int *number;                 /* [places] number of the component of a root */
    int *param_seen;             /* [params] last component that counted the parameter, + 1 */
    int *side_next, *side_first; /* side nodes of each place, as linked lists of node + 1 */
    double *flops;               /* [nodes] flops of each */
    SL_VEC(struct sl_segment) segments;
    SL_VEC(struct sl_component) components;
    SL_VEC(int) cuts; /* cuts of the current range, as positions */
};

static int find_root(int *root, int i) {
    while (root[i] != i)
        i = root[i] = root[root[i]];
    return i;
}

/* Fills reach[] for the places of component `whose`. Edges from outside start before the first
 * position; returns the furthest position that these reach. */
static int find_reach(struct divide *d, const int *places, int count, int whose) {
    const struct sl_flow *f = &d->flow;
    int entry = 0;
    for (int p = 0; p < count; p++)
        d->reach[places[p]] = f->ends[places[p]] ? count : p;
    for (int p = 0; p < count; p++)
        for (int e = f->begin[places[p]]; e < f->begin[places[p] + 1]; e++) {
            int from = f->edge[e];
            bool inside = from && d->home[from] == whose;
            if (!inside)
                entry = f->skip[e] ? entry : p;
            else if (!f->skip[e])
                d->reach[from] = p > d->reach[from] ? p : d->reach[from];
        }
    return entry;
}

/* Lets places whose result leaves the range reach beyond its end. */
static void find_exits(struct divide *d, int to, int whose) {
    const struct sl_flow *f = &d->flow;
    if (!to)
        return;
    for (int e = f->begin[to]; e < f->begin[to + 1]; e++)
        if (!f->skip[e] && f->edge[e] && d->home[f->edge[e]] == whose)
            d->reach[f->edge[e]] = f->count + 1;
}

static void find_cuts(struct divide *d, const int *places, int count, int entry) {
    int furthest = entry;
    d->cuts.count = 0;
    for (int p = 0; p < count; p++) {
        bool cut = furthest <= p;
        furthest = d->reach[places[p]] > furthest ? d->reach[places[p]] : furthest;
        d->root[places[p]] = cut ? 0 : places[p];
        if (cut)
            SL_PUSH(&d->cuts, p);
    }
}

static void join_neighbours(struct divide *d, const int *places, int count, int whose) {
    const struct sl_flow *f = &d->flow;
    for (int p = 0; p < count; p++) {
        int i = places[p];
        for (int e = f->begin[i]; d->root[i] && e < f->begin[i + 1]; e++) {
            int from = f->edge[e];
            if (f->skip[e] || !from || d->home[from] != whose || !d->root[from])
                continue;
            int a = find_root(d->root, from), b = find_root(d->root, i);
            d->root[a > b ? a : b] = a > b ? b : a;
        }
    }
}

/* ---- describing ---- */

static void count_node(struct divide *d, struct sl_component *c, int index, int n) {
    const struct sl_node *node = &d->flow.graph->nodes.at[n];
    c->flops += d->flops[n];
    for (int i = 0; i < node->in_count; i++) {
        const struct sl_value *v = node->in[i] < 0 ? NULL : &d->flow.graph->values.at[node->in[i]];
        if (!v || v->kind != SL_VALUE_PARAM || d->param_seen[v->index] == index + 1)
            continue;
        d->param_seen[v->index] = index + 1;
        c->parameters += sl_graph_shape_numel(&v->shape, 1);
    }
}

static void count_place(struct divide *d, struct sl_component *c, int index, int place) {
    int n = d->flow.node_of[place];
    enum sl_layer_kind kind = d->flow.graph->nodes.at[n].op->layer;
    if (kind != SL_LAYER_NONE)
        c->layers[kind]++;
    c->weighted += d->flow.weighted[place];
    count_node(d, c, index, n);
    for (int side = d->side_first[place]; side; side = d->side_next[side - 1]) {
        count_node(d, c, index, side - 1);
        c->side_count++;
    }
}

/* Collects the nodes of the components in [from, to) of a range, in two passes: first sizes, then
 * members. */
static void add_segment(struct divide *d, const int *places, struct sl_segment segment, int from,
                        int to) {
    segment.first = (int)d->components.count;
    for (int p = from; p < to; p++) {
        int root = find_root(d->root, places[p]);
        if (root == places[p]) {
            d->number[root] = (int)d->components.count;
            SL_PUSH(&d->components, ((struct sl_component){.segment = (int)d->segments.count}));
        }
        d->components.at[d->number[root]].node_count++;
    }
    segment.count = (int)d->components.count - segment.first;
    SL_PUSH(&d->segments, segment);
    for (int k = segment.first; k < d->components.count; k++) {
        struct sl_component *c = &d->components.at[k];
        c->nodes = SL_NEW(d->arena, int, c->node_count);
        c->node_count = 0;
    }
    for (int p = from; p < to; p++) {
        int k = d->number[find_root(d->root, places[p])];
        struct sl_component *c = &d->components.at[k];
        c->nodes[c->node_count++] = places[p];
        count_place(d, c, k, places[p]);
    }
}

/* ---- the queue ---- */

struct range {
    const int *places;
    int count;
    int from, to;      /* places before and after it; 0: the start, the end */
    int whose, parent; /* home of its places; component that contains it */
    int level;
};

/* Is the whole range one component, so that it cannot be divided? */
static bool is_tangled(struct divide *d, const struct range *r) {
    if (d->cuts.count)
        return false;
    for (int p = 0; p < r->count; p++)
        if (find_root(d->root, r->places[p]) != r->places[0])
            return false;
    return true;
}

static void divide_range(struct divide *d, const struct range *r) {
    int entry = find_reach(d, r->places, r->count, r->whose);
    find_exits(d, r->to, r->whose);
    find_cuts(d, r->places, r->count, entry);
    join_neighbours(d, r->places, r->count, r->whose);
    if (r->parent >= 0 && is_tangled(d, r))
        return;
    int after = 0, from = r->from;
    for (int64_t k = 0; k <= d->cuts.count; k++) {
        int at = k < d->cuts.count ? d->cuts.at[k] : r->count;
        int to = k < d->cuts.count ? r->places[at] : r->to;
        struct sl_segment segment = {
            .from = from ? d->flow.node_of[from] : -1,
            .to = to ? d->flow.node_of[to] : -1,
            .parent = r->parent,
            .level = r->level,
        };
        if (at > after)
            add_segment(d, r->places, segment, after, at);
        after = at + 1;
        from = to;
    }
}

/* Divides component k and makes it the home of its places. */
static void divide_component(struct divide *d, int k) {
    struct sl_component c = d->components.at[k];
    struct sl_segment segment = d->segments.at[c.segment];
    if (segment.level + 1 >= MAX_LEVEL || c.node_count < 2)
        return;
    for (int i = 0; i < c.node_count; i++)
        d->home[c.nodes[i]] = k + 1;
    divide_range(d, &(struct range){
                        .places = c.nodes,
                        .count = c.node_count,
                        .from = segment.from < 0 ? 0 : d->flow.place[segment.from],
                        .to = segment.to < 0 ? 0 : d->flow.place[segment.to],
                        .whose = k + 1,
                        .parent = k,
                        .level = segment.level + 1,
                    });
}

static void open_divide(struct divide *d, struct sl_arena *scratch) {
    const struct sl_graph *graph = d->flow.graph;
    int nodes = (int)(graph->differentiated ? graph->forward_count : graph->nodes.count);
    int **arrays[] = {&d->home, &d->reach, &d->root, &d->number, &d->side_first};
    for (int i = 0; i < SL_COUNT(arrays); i++)
        *arrays[i] = SL_NEW(scratch, int, d->flow.count + 1);
    d->param_seen = SL_NEW(scratch, int, graph->params.count + 1);
    d->side_next = SL_NEW(scratch, int, nodes + 1);
    d->flops = SL_NEW(scratch, double, nodes + 1);
    for (int n = 0; n < nodes; n++) {
        int owner = d->flow.owner[n];
        if (owner) {
            d->side_next[n] = d->side_first[owner];
            d->side_first[owner] = n + 1;
        }
        if (owner || d->flow.place[n])
            d->flops[n] = sl_graph_node_flops(graph, &graph->nodes.at[n], 1);
    }
}

/* Translates places into nodes and freezes the vectors in the arena. */
static void freeze(struct divide *d, struct sl_branches *out) {
    for (int64_t k = 0; k < d->components.count; k++) {
        int *nodes = d->components.at[k].nodes;
        for (int i = 0; i < d->components.at[k].node_count; i++)
            nodes[i] = d->flow.node_of[nodes[i]];
    }
    out->segment_count = (int)d->segments.count;
    out->component_count = (int)d->components.count;
    out->segments = SL_VEC_FREEZE(&d->segments, d->arena);
    out->components = SL_VEC_FREEZE(&d->components, d->arena);
    SL_VEC_FREE(&d->segments);
    SL_VEC_FREE(&d->components);
    SL_VEC_FREE(&d->cuts);
}

const struct sl_branches *sl_graph_branches(const struct sl_graph *graph, struct sl_arena *arena) {
    struct sl_arena scratch = {0};
    struct sl_branches *out = SL_NEW(arena, struct sl_branches, 1);
    struct divide d = {.flow = open_flow(graph, &scratch), .arena = arena};
    out->skips =
        sl_graph_flow_skips(&d.flow, &scratch, arena, &out->skip_count, &out->long_skip_count);
    open_divide(&d, &scratch);
    int *all = SL_NEW(&scratch, int, d.flow.count + 1);
    for (int i = 0; i < d.flow.count; i++)
        all[i] = i + 1;
    divide_range(&d, &(struct range){.places = all, .count = d.flow.count, .parent = -1});
    int *cuts = SL_NEW(arena, int, d.cuts.count + 1);
    for (int64_t i = 0; i < d.cuts.count; i++)
        cuts[i] = d.flow.node_of[all[d.cuts.at[i]]];
    out->cuts = cuts;
    out->cut_count = (int)d.cuts.count;
    out->node_count = d.flow.count;
    for (int i = 1; i <= d.flow.count; i++)
        for (int side = d.side_first[i]; side; side = d.side_next[side - 1])
            out->side_count++;
    for (int k = 0; k < d.components.count; k++)
        divide_component(&d, k);
    freeze(&d, out);
    sl_arena_free(&scratch);
    return out;
}
