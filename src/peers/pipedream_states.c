/* PipeDream's states. The published program walks antichains from the first source; each step
 * replaces a node by one of its successors. The layers at or above an antichain form a downset.
 * A step adds one successor and all of its ancestors to the downset. */
#include "peers/pipedream.h"

#include "base/clock.h"
#include "base/sort.h"
#include "base/vec.h"

static bool named(const struct sl_layer *layer, const char *prefix) {
    return layer->name && strncmp(layer->name, prefix, strlen(prefix)) == 0;
}

/* Finds the removed layers: sources called Input..., then sinks called __getitem__... */
static bool *find_removed(struct sl_arena *arena, const struct sl_layers *layers) {
    bool *removed = SL_NEW(arena, bool, layers->count);
    for (int i = 0; i < layers->count; i++)
        removed[i] = !layers->at[i].in_count && named(&layers->at[i], "Input");
    for (int i = 0; i < layers->count; i++)
        if (!layers->at[i].out_count && named(&layers->at[i], "__getitem__"))
            removed[i] = true;
    return removed;
}

static void find_before(struct sl_arena *arena, struct sl_pipedream_graph *graph) {
    int words = (graph->layers->count + 63) / 64;
    uint64_t *before = SL_NEW(arena, uint64_t, (int64_t)graph->layers->count * words);
    for (int i = 0; i < graph->layers->count; i++) {
        int v = graph->layers->order[i];
        uint64_t *set = before + (int64_t)v * words;
        for (int e = graph->dag.in_at[v]; e < graph->dag.in_at[v + 1]; e++) {
            int u = graph->dag.in[e];
            for (int w = 0; w < words; w++)
                set[w] |= before[(int64_t)u * words + w];
            set[u >> 6] |= 1ull << (u & 63);
        }
    }
    graph->words = words;
    graph->before = before;
}

void sl_peers_pipedream_open(struct sl_arena *arena, const struct sl_layers *layers,
                             struct sl_pipedream_graph *out) {
    *out = (struct sl_pipedream_graph){.layers = layers, .first = -1};
    const bool *removed = find_removed(arena, layers);
    struct sl_dag_edge *edges = SL_NEW(arena, struct sl_dag_edge, layers->edge_count + 1);
    int count = 0;
    for (int e = 0; e < layers->edge_count; e++)
        if (!removed[layers->edges[e].from] && !removed[layers->edges[e].to])
            edges[count++] = (struct sl_dag_edge){layers->edges[e].from, layers->edges[e].to};
    out->removed = removed;
    out->dag = sl_graph_dag_build(arena, layers->count, edges, count);
    find_before(arena, out);
    for (int i = layers->count - 1; i >= 0; i--)
        if (!removed[i] && out->dag.in_at[i] == out->dag.in_at[i + 1])
            out->first = i;
}

/* Returns the bytes across a cut (`tips`: memory for the antichain). PipeDream's "augmented
 * antichain" also counts a layer whose output went to a branch that is already inside. */
static double cut_bytes(const struct sl_pipedream_graph *graph, const uint64_t *set, int *tips) {
    const struct sl_dag *dag = &graph->dag;
    double bytes = 0;
    int tip_count = 0;
    for (int v = 0; v < dag->count; v++) {
        bool tip = sl_bit(set, v);
        for (int e = dag->out_at[v]; e < dag->out_at[v + 1] && tip; e++)
            tip = !sl_bit(set, dag->out[e]);
        if (tip)
            tips[tip_count++] = v;
    }
    for (int v = 0; v < dag->count; v++) {
        bool counts = false;
        if (!sl_bit(set, v))
            continue;
        for (int i = 0; i < tip_count && !counts; i++) {
            const uint64_t *before = graph->before + (int64_t)tips[i] * graph->words;
            counts = tips[i] == v;
            for (int e = dag->out_at[v]; e < dag->out_at[v + 1] && sl_bit(before, v); e++)
                counts |= dag->out[e] != tips[i] && !sl_bit(before, dag->out[e]);
        }
        if (counts)
            bytes += graph->layers->at[v].output_bytes;
    }
    return bytes;
}

/* ---- the list ---- */

struct listing {
    const struct sl_pipedream_graph *graph;
    SL_VEC(uint64_t) sets;
    int64_t count;
    int *slots;
    int64_t room;
};

static uint64_t hash_set(const uint64_t *set, int words) {
    uint64_t hash = 0;
    for (int w = 0; w < words; w++) {
        hash = (hash ^ set[w]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static int64_t slot_of(const struct listing *list, const uint64_t *set) {
    int words = list->graph->words;
    int64_t at = (int64_t)(hash_set(set, words) & (uint64_t)(list->room - 1));
    while (list->slots[at] && memcmp(list->sets.at + (list->slots[at] - 1) * (int64_t)words, set,
                                     sizeof *set * (size_t)words) != 0)
        at = (at + 1) & (list->room - 1);
    return at;
}

static void add_set(struct listing *list, const uint64_t *set) {
    int words = list->graph->words;
    if (2 * (list->count + 1) > list->room) {
        list->room = list->room ? list->room * 2 : 1024;
        free(list->slots);
        list->slots = sl_realloc(NULL, sizeof *list->slots * (size_t)list->room);
        memset(list->slots, 0, sizeof *list->slots * (size_t)list->room);
        for (int64_t i = 0; i < list->count; i++)
            list->slots[slot_of(list, list->sets.at + i * words)] = (int)i + 1;
    }
    int64_t at = slot_of(list, set);
    if (list->slots[at])
        return;
    list->slots[at] = (int)++list->count;
    SL_VEC_RESERVE(&list->sets, words);
    memcpy(list->sets.at + list->sets.count, set, sizeof *set * (size_t)words);
    list->sets.count += words;
}

/* set | {v} | ancestors of v */
static void grow(const struct sl_pipedream_graph *graph, uint64_t *set, int v) {
    for (int w = 0; w < graph->words; w++)
        set[w] |= graph->before[(int64_t)v * graph->words + w];
    set[v >> 6] |= 1ull << (v & 63);
}

/* Adds every state that is one step after state i. */
static void add_next(struct listing *list, int64_t i, uint64_t *set, uint64_t *next) {
    const struct sl_dag *dag = &list->graph->dag;
    size_t bytes = sizeof *set * (size_t)list->graph->words;
    memcpy(set, list->sets.at + i * list->graph->words, bytes);
    for (int v = 0; v < dag->count; v++)
        for (int e = dag->out_at[v]; e < dag->out_at[v + 1] && sl_bit(set, v); e++)
            if (!sl_bit(set, dag->out[e])) {
                memcpy(next, set, bytes);
                grow(list->graph, next, dag->out[e]);
                add_set(list, next);
            }
}

/* Sorts the states and computes their sums. False: the deadline came. */
static bool finish(struct sl_arena *arena, const struct sl_pipedream_graph *graph, int64_t until_ns,
                   struct sl_pipedream_states *states) {
    const struct sl_layers *layers = graph->layers;
    double *value = SL_NEW(arena, double, layers->count);
    for (int i = 0; i < layers->count; i++)
        value[i] = (layers->at[i].forward + layers->at[i].backward) / 1000.0;
    states->compute = sl_graph_ideals_sort(arena, &states->ideals, value);
    for (int i = 0; i < layers->count; i++)
        value[i] = layers->at[i].output_bytes;
    states->activation = sl_graph_ideals_sum(arena, &states->ideals, value);
    for (int i = 0; i < layers->count; i++)
        value[i] = layers->at[i].params_bytes;
    states->params = sl_graph_ideals_sum(arena, &states->ideals, value);
    int *tips = SL_NEW(arena, int, layers->count);
    states->out = SL_NEW(arena, double, states->ideals.count);
    for (int i = 0; i < states->ideals.count; i++) {
        if (sl_clock_past(until_ns))
            return false;
        states->out[i] = cut_bytes(graph, sl_ideal(&states->ideals, i), tips);
    }
    return true;
}

bool sl_peers_pipedream_list(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                             int max, int64_t until_ns, struct sl_pipedream_states *out) {
    struct listing list = {.graph = graph};
    uint64_t *set = SL_NEW(arena, uint64_t, 2 * (int64_t)graph->words), *next = set + graph->words;
    grow(graph, next, graph->first);
    add_set(&list, next);
    bool complete = true;
    for (int64_t i = 0; i < list.count && complete; i++) {
        add_next(&list, i, set, next);
        complete = list.count <= max && !sl_clock_past(until_ns);
    }
    if (complete) {
        out->ideals = (struct sl_ideals){graph->layers->count, graph->words, (int)list.count,
                                         SL_VEC_FREEZE(&list.sets, arena)};
        complete = finish(arena, graph, until_ns, out);
    }
    SL_VEC_FREE(&list.sets);
    free(list.slots);
    return complete;
}

/* Is a downset a state? Every member must descend from the first source or be an ancestor of such a
 * member. */
static bool is_state(const struct sl_pipedream_graph *graph, const uint64_t *set, uint64_t *room) {
    memset(room, 0, sizeof *room * (size_t)graph->words);
    for (int v = 0; v < graph->dag.count; v++)
        if (sl_bit(set, v) &&
            (v == graph->first || sl_bit(graph->before + (int64_t)v * graph->words, graph->first)))
            grow(graph, room, v);
    return sl_bit(set, graph->first) && memcmp(room, set, sizeof *room * (size_t)graph->words) == 0;
}

void sl_peers_pipedream_sketch(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                               int max, struct sl_pipedream_states *out) {
    struct listing list = {.graph = graph};
    int *order = SL_NEW(arena, int, graph->layers->count), count = 0;
    uint64_t *set = SL_NEW(arena, uint64_t, graph->words);
    SL_ASSERT(sl_graph_dag_order(arena, &graph->dag, order));
    for (int i = 0; i < graph->layers->count; i++)
        if (!graph->removed[order[i]])
            order[count++] = order[i];
    grow(graph, set, graph->first);
    for (int i = 0, kept = 1; i < count; i++) {
        grow(graph, set, order[i]);
        if ((int64_t)(i + 1) * max >= (int64_t)kept * count) {
            add_set(&list, set);
            kept++;
        }
    }
    out->ideals = (struct sl_ideals){graph->layers->count, graph->words, (int)list.count,
                                     SL_VEC_FREEZE(&list.sets, arena)};
    bool done = finish(arena, graph, 0, out);
    SL_ASSERT(done);
    SL_VEC_FREE(&list.sets);
    free(list.slots);
}

bool sl_peers_pipedream_chain(struct sl_arena *arena, const struct sl_pipedream_graph *graph,
                              bool more, int64_t until_ns, struct sl_pipedream_states *out) {
    struct listing list = {.graph = graph};
    int *order = SL_NEW(arena, int, graph->layers->count);
    uint64_t *set = SL_NEW(arena, uint64_t, graph->words);
    SL_ASSERT(sl_graph_dag_order(arena, &graph->dag, order));
    grow(graph, set, graph->first);
    add_set(&list, set);
    for (int i = 0; i < graph->layers->count; i++)
        if (!graph->removed[order[i]]) {
            grow(graph, set, order[i]);
            add_set(&list, set);
        }
    int cuts = 0;
    const uint64_t *least = more ? sl_peers_pipedream_cuts(arena, graph, until_ns, &cuts) : NULL;
    for (int i = 0; i < cuts; i++)
        if (is_state(graph, least + (int64_t)i * graph->words, set))
            add_set(&list, least + (int64_t)i * graph->words);
    out->ideals = (struct sl_ideals){graph->layers->count, graph->words, (int)list.count,
                                     SL_VEC_FREEZE(&list.sets, arena)};
    bool done = finish(arena, graph, until_ns, out);
    SL_VEC_FREE(&list.sets);
    free(list.slots);
    return done;
}

/* ---- fewer states ---- */

struct cheap {
    double out;
    int index;
};

static int compare_cheap(const void *a, const void *b) {
    const struct cheap *x = a, *y = b;
    if (x->out != y->out)
        return x->out < y->out ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_index(const void *a, const void *b) {
    const struct cheap *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

int sl_peers_pipedream_thin(struct sl_arena *arena, struct sl_pipedream_states *states,
                            double bytes, int max) {
    struct cheap *list = SL_NEW(arena, struct cheap, states->ideals.count);
    int last = states->ideals.count - 1, count = 0, words = states->ideals.words;
    for (int i = 0; i < last; i++)
        if (states->out[i] <= bytes)
            list[count++] = (struct cheap){states->out[i], i};
    sl_sort(list, count, sizeof *list, compare_cheap);
    int kept = count < max ? count : max - 1, dropped = count - kept;
    list[kept++] = (struct cheap){0, last};
    sl_sort(list, kept, sizeof *list, compare_index);
    for (int i = 0; i < kept; i++) {
        int from = list[i].index;
        memmove(states->ideals.sets + (int64_t)i * words, sl_ideal(&states->ideals, from),
                sizeof(uint64_t) * (size_t)words);
        states->compute[i] = states->compute[from];
        states->activation[i] = states->activation[from];
        states->params[i] = states->params[from];
        states->out[i] = states->out[from];
    }
    states->ideals.count = kept;
    return dropped;
}
