/* Finds skip edges with dominators.
 *
 * a dominates b if every path from the start to b passes through a. In a graph without cycles, the
 * immediate dominator of a node is the lowest common ancestor of its inputs in the tree of
 * dominators so far. Jump pointers find ancestors (Myers 1983: one per node, log n steps). a
 * dominates b if the preorder number of b lies in the interval of a. */
#include "graph/branch_flow.h"

struct tree {
    int *up, *jump, *depth; /* [count + 1] parent, jump pointer and depth in the tree */
    int *pre, *size;        /* preorder number; number of nodes below it and itself */
    /* Counts along the longest path from the start: nodes, residual additions, nodes with
     * weights. */
    int *level, *joins, *weights;
};

static int common_ancestor(const struct tree *t, int a, int b) {
    if (t->depth[a] < t->depth[b]) {
        int swap = a;
        a = b;
        b = swap;
    }
    while (t->depth[a] > t->depth[b])
        a = t->depth[t->jump[a]] >= t->depth[b] ? t->jump[a] : t->up[a];
    while (a != b) {
        bool far = t->jump[a] != t->jump[b];
        a = far ? t->jump[a] : t->up[a];
        b = far ? t->jump[b] : t->up[b];
    }
    return a;
}

static void hang(struct tree *t, int i, int up) {
    int jump = t->jump[up];
    t->up[i] = up;
    t->depth[i] = t->depth[up] + 1;
    bool even = t->depth[up] - t->depth[jump] == t->depth[jump] - t->depth[t->jump[jump]];
    t->jump[i] = even ? t->jump[jump] : up;
}

static struct tree build_tree(const struct sl_flow *f, struct sl_arena *scratch) {
    int *all = SL_NEW(scratch, int, 9 * ((int64_t)f->count + 1)), *next = all;
    int n = f->count + 1;
    struct tree t = {all + n,     all + 2 * n, all + 3 * n, all + 4 * n,
                     all + 5 * n, all + 6 * n, all + 7 * n, all + 8 * n};
    for (int i = 1; i < n; i++) {
        int up = f->edge[f->begin[i]];
        for (int e = f->begin[i] + 1; e < f->begin[i + 1]; e++)
            up = common_ancestor(&t, up, f->edge[e]);
        hang(&t, i, up);
    }
    for (int i = n - 1; i > 0; i--)
        t.size[t.up[i]] += ++t.size[i];
    t.size[0]++;
    next[0] = 1;
    for (int i = 1; i < n; i++) {
        t.pre[i] = next[t.up[i]];
        next[t.up[i]] += t.size[i];
        next[i] = t.pre[i] + 1;
    }
    return t;
}

static bool dominates(const struct tree *t, int a, int b) {
    return t->pre[b] >= t->pre[a] && t->pre[b] < t->pre[a] + t->size[a];
}

/* Sorts the inputs of place i by preorder, so that an input that dominates another one dominates
 * the next. */
static int sort_inputs(const struct sl_flow *f, const struct tree *t, int i,
                       int sorted[SL_MAX_IN]) {
    int count = 0;
    for (int e = f->begin[i]; e < f->begin[i + 1]; e++) {
        int at = count++;
        for (; at > 0 && t->pre[f->edge[sorted[at - 1]]] > t->pre[f->edge[e]]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = e;
    }
    return count;
}

static struct sl_skip describe(const struct sl_flow *f, const struct tree *t, int i, int from) {
    int joins = 0, weights = 0, level = 0;
    for (int e = f->begin[i]; e < f->begin[i + 1]; e++) {
        int other = f->edge[e];
        if (other == from || !dominates(t, from, other))
            continue;
        level = t->level[other] > level ? t->level[other] : level;
        joins = t->joins[other] > joins ? t->joins[other] : joins;
        weights = t->weights[other] > weights ? t->weights[other] : weights;
    }
    bool concat = f->graph->nodes.at[f->node_of[i]].op->join == SL_JOIN_CONCAT;
    return (struct sl_skip){
        .from = f->node_of[from],
        .to = f->node_of[i],
        .length = level - t->level[from],
        .is_long = joins > t->joins[from] || (concat && weights > t->weights[from]),
    };
}

/* Extends the longest paths to place i. */
static void extend(const struct sl_flow *f, struct tree *t, int i, bool joined) {
    bool adds = f->graph->nodes.at[f->node_of[i]].op->join == SL_JOIN_ADD;
    for (int e = f->begin[i]; e < f->begin[i + 1]; e++) {
        int in = f->edge[e];
        t->level[i] = t->level[in] > t->level[i] ? t->level[in] : t->level[i];
        t->joins[i] = t->joins[in] > t->joins[i] ? t->joins[in] : t->joins[i];
        t->weights[i] = t->weights[in] > t->weights[i] ? t->weights[in] : t->weights[i];
    }
    t->level[i]++;
    t->joins[i] += joined && adds;
    t->weights[i] += f->weighted[i];
}

struct sl_skip *sl_graph_flow_skips(struct sl_flow *f, struct sl_arena *scratch,
                                    struct sl_arena *arena, int *count, int *long_count) {
    SL_VEC(struct sl_skip) skips = {0};
    struct tree t = build_tree(f, scratch);
    *long_count = 0;
    for (int i = 1; i <= f->count; i++) {
        int sorted[SL_MAX_IN], inputs = sort_inputs(f, &t, i, sorted);
        bool joined = false;
        for (int k = 0; k + 1 < inputs; k++) {
            int from = f->edge[sorted[k]];
            if (!dominates(&t, from, f->edge[sorted[k + 1]]))
                continue;
            f->skip[sorted[k]] = joined = true;
            SL_PUSH(&skips, describe(f, &t, i, from));
            *long_count += skips.at[skips.count - 1].is_long;
        }
        extend(f, &t, i, joined);
    }
    *count = (int)skips.count;
    struct sl_skip *frozen = SL_VEC_FREEZE(&skips, arena);
    SL_VEC_FREE(&skips);
    return frozen;
}
