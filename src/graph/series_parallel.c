/* Builds a series-parallel tree from the top.
 *
 * A set of vertices that no path leaves and re-enters (convex) is split in one of three ways:
 *     not connected                        parallel: one child per connected part
 *     a prefix precedes the whole rest     series: cut after every such prefix
 *     neither: it contains an N            series: cut at the level that adds fewest relations */
#include "graph/series_parallel.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

struct build {
    struct sl_arena *arena, scratch;
    const struct sl_dag *dag;
    int words;
    uint64_t *before; /* [vertex][words] bits of its ancestors */
    int *part;        /* [vertex] its part, within the set being split; -1: not in the set */
    struct sl_sp_tree *out;
};

static uint64_t *ancestors(const struct build *b, int vertex) {
    return b->before + (int64_t)vertex * b->words;
}

static void close_order(struct build *b, const int *order) {
    const struct sl_dag *dag = b->dag;
    for (int i = 0; i < dag->count; i++) {
        uint64_t *own = ancestors(b, order[i]);
        for (int e = dag->in_at[order[i]]; e < dag->in_at[order[i] + 1]; e++) {
            const uint64_t *more = ancestors(b, dag->in[e]);
            for (int w = 0; w < b->words; w++)
                own[w] |= more[w];
            own[dag->in[e] >> 6] |= 1ull << (dag->in[e] & 63);
        }
    }
}

/* Copies the vertices, which the caller has put into the order of the children. */
static void keep_vertices(struct build *b, struct sl_sp *node, const int *set, int count) {
    int *vertices = SL_NEW(b->arena, int, count);
    memcpy(vertices, set, sizeof *vertices * (size_t)count);
    node->vertices = vertices;
    node->vertex_count = count;
}

/* ---- parallel ---- */

static int find_root(int *part, int vertex) {
    while (part[vertex] != vertex)
        vertex = part[vertex] = part[part[vertex]];
    return vertex;
}

/* Sorts `set` into its connected parts, without changing the order inside a part; ends[i] is where
 * part i ends. */
static int split_parts(struct build *b, int *set, int count, int *ends) {
    int *sorted = SL_NEW(&b->scratch, int, count), parts = 0, done = 0;
    for (int i = 0; i < count; i++)
        b->part[set[i]] = set[i];
    for (int i = 0; i < count; i++)
        for (int e = b->dag->in_at[set[i]]; e < b->dag->in_at[set[i] + 1]; e++)
            if (b->part[b->dag->in[e]] >= 0)
                b->part[find_root(b->part, b->dag->in[e])] = find_root(b->part, set[i]);
    int *number = SL_NEW(&b->scratch, int, b->dag->count);
    for (int i = 0; i < count; i++) {
        int root = find_root(b->part, set[i]);
        if (!number[root])
            number[root] = ++parts;
    }
    for (int p = 1; p <= parts; p++) {
        for (int i = 0; i < count; i++)
            if (number[find_root(b->part, set[i])] == p)
                sorted[done++] = set[i];
        ends[p - 1] = done;
    }
    for (int i = 0; i < count; i++)
        b->part[set[i]] = -1;
    memcpy(set, sorted, sizeof *set * (size_t)count);
    return parts;
}

/* ---- series ---- */

struct ranked {
    int level, at;
};

static int compare_levels(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorts the set by level, the number of vertices on the longest path from a source inside the
 * set. */
static void sort_by_level(struct build *b, int *set, int count, int *level_of) {
    struct ranked *ranked = SL_NEW(&b->scratch, struct ranked, count);
    int *old = SL_NEW(&b->scratch, int, count);
    memcpy(old, set, sizeof *old * (size_t)count);
    for (int i = 0; i < count; i++)
        b->part[old[i]] = i; /* works because the set is in topological order */
    for (int i = 0; i < count; i++) {
        ranked[i] = (struct ranked){0, i};
        for (int e = b->dag->in_at[old[i]]; e < b->dag->in_at[old[i] + 1]; e++) {
            int from = b->part[b->dag->in[e]];
            if (from >= 0 && ranked[from].level >= ranked[i].level)
                ranked[i].level = ranked[from].level + 1;
        }
    }
    for (int i = 0; i < count; i++)
        b->part[old[i]] = -1;
    qsort(ranked, (size_t)count, sizeof *ranked, compare_levels);
    for (int i = 0; i < count; i++) {
        set[i] = old[ranked[i].at];
        level_of[i] = ranked[i].level;
    }
}

/* Fills missing[k]: relations between the first k vertices and the others that the order lacks. */
static void count_missing(struct build *b, const int *set, int count, int64_t *missing) {
    uint64_t *prefix = SL_NEW(&b->scratch, uint64_t, b->words);
    int *known = SL_NEW(&b->scratch, int, count); /* ancestors inside the set */
    for (int i = 0; i < count; i++) {
        const uint64_t *before = ancestors(b, set[i]);
        for (int w = 0; w < b->words; w++)
            known[i] += __builtin_popcountll(before[w] & prefix[w]);
        prefix[set[i] >> 6] |= 1ull << (set[i] & 63);
    }
    /* Of the first k vertices, vertex j lacks the relations to those later vertices that it does
     * not precede. */
    /* number of descendants of j, as prefix sums over j */
    int64_t *descendants = SL_NEW(&b->scratch, int64_t, count + 1);
    for (int j = 0; j < count; j++)
        for (int i = j + 1; i < count; i++)
            descendants[j] += sl_bit(ancestors(b, set[i]), set[j]);
    int64_t inside = 0,
            outgoing = 0; /* relations inside the prefix, and from its vertices to all later ones */
    for (int k = 0; k <= count; k++) {
        missing[k] = (int64_t)k * (count - k) - (outgoing - inside);
        if (k < count) {
            inside += known[k];
            outgoing += descendants[k];
        }
    }
}

/* Finds b with b < c and b < d, given `a` < c. Any common ancestor of c and d that does not precede
 * `a` will do: `a` cannot precede it, because `a` does not precede d. */
static int find_common(const struct build *b, const uint64_t *inside, int a, int c, int d) {
    for (int w = 0; w < b->words; w++) {
        uint64_t bits = inside[w] & ancestors(b, c)[w] & ancestors(b, d)[w] & ~ancestors(b, a)[w];
        if (bits)
            return w * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static bool find_n_of(const struct build *b, const uint64_t *inside, int c, int d, int out[4]) {
    for (int w = 0; w < b->words; w++)
        for (uint64_t bits = inside[w] & ancestors(b, c)[w] & ~ancestors(b, d)[w]; bits;
             bits &= bits - 1) {
            int a = w * 64 + __builtin_ctzll(bits), common = find_common(b, inside, a, c, d);
            if (common >= 0) {
                memcpy(out, (int[]){a, common, c, d}, sizeof(int[4]));
                return true;
            }
        }
    return false;
}

/* Finds an N: a < c, b < c, b < d and no other relation. The set must contain one. */
static void find_n(struct build *b, const int *set, int count, int out[4]) {
    uint64_t *inside = SL_NEW(&b->scratch, uint64_t, b->words);
    for (int i = 0; i < count; i++)
        inside[set[i] >> 6] |= 1ull << (set[i] & 63);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            int c = set[i], d = set[j];
            if (i != j && !sl_bit(ancestors(b, c), d) && !sl_bit(ancestors(b, d), c) &&
                find_n_of(b, inside, c, d, out))
                return;
        }
    SL_ASSERT(false);
}

/* Sorts `set` by level and fills `ends` with the ends of its series parts, of which there are at
 * least two. */
static int split_series(struct build *b, int *set, int count, int *ends) {
    int *level_of = SL_NEW(&b->scratch, int, count), parts = 0;
    int64_t *missing = SL_NEW(&b->scratch, int64_t, count + 1);
    sort_by_level(b, set, count, level_of);
    count_missing(b, set, count, missing);
    for (int k = 1; k < count; k++)
        if (missing[k] == 0)
            ends[parts++] = k;
    if (!parts) {
        int best = 0;
        for (int k = 1; k < count; k++)
            if (level_of[k] != level_of[k - 1] && (!best || missing[k] < missing[best]))
                best = k;
        if (!b->out->added)
            find_n(b, set, count, b->out->example);
        b->out->added += missing[best];
        ends[parts++] = best;
    }
    ends[parts++] = count;
    return parts;
}

/* ---- the tree ---- */

static const struct sl_sp *build_set(struct build *b, int *set, int count);

/* Adds a child. If it is of the same kind, adds its children instead: a series of series is one
 * series. */
static void add_child(const struct sl_sp **children, int *count, enum sl_sp_kind kind,
                      const struct sl_sp *child) {
    if (child->kind != kind) {
        children[(*count)++] = child;
        return;
    }
    for (int i = 0; i < child->child_count; i++)
        children[(*count)++] = child->children[i];
}

static const struct sl_sp *build_set(struct build *b, int *set, int count) {
    struct sl_sp *node = SL_NEW(b->arena, struct sl_sp, 1);
    if (count == 1) {
        *node = (struct sl_sp){.kind = SL_SP_LEAF, .vertex = set[0]};
        keep_vertices(b, node, set, 1);
        return node;
    }
    int *ends = SL_NEW(&b->scratch, int, count), at = 0;
    int parts = split_parts(b, set, count, ends);
    enum sl_sp_kind kind = parts > 1 ? SL_SP_PARALLEL : SL_SP_SERIES;
    if (parts == 1)
        parts = split_series(b, set, count, ends);
    node->kind = kind;
    const struct sl_sp **children = SL_NEW(b->arena, const struct sl_sp *, count);
    for (int p = 0; p < parts; p++) {
        add_child(children, &node->child_count, kind, build_set(b, set + at, ends[p] - at));
        at = ends[p];
    }
    node->children = children;
    keep_vertices(b, node, set, count);
    return node;
}

void sl_graph_sp_build(struct sl_arena *arena, const struct sl_dag *dag, struct sl_sp_tree *out) {
    struct build b = {.arena = arena, .dag = dag, .words = (dag->count + 63) / 64, .out = out};
    *out = (struct sl_sp_tree){0};
    if (!dag->count)
        return;
    int *order = SL_NEW(&b.scratch, int, dag->count);
    b.before = SL_NEW(&b.scratch, uint64_t, (int64_t)dag->count * b.words);
    b.part = SL_NEW(&b.scratch, int, dag->count);
    memset(b.part, -1, sizeof *b.part * (size_t)dag->count);
    SL_ASSERT(sl_graph_dag_order(&b.scratch, dag, order));
    close_order(&b, order);
    out->root = build_set(&b, order, dag->count);
    sl_arena_free(&b.scratch);
}
