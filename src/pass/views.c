/* Finds the values that have no own memory: views, parts of a split, parts of a concat.
 *
 *   qkv = x w               one tensor with rows of 3C
 *   q, k, v = split(qkv)    read only by attention: parts of qkv's rows, no copy
 *   dq, dk, dv = attention_dqkv(...); dqkv = concat(dq, dk, dv)
 *                           written only by attention_dqkv: directly into dqkv's rows */
#include "pass/build.h"

static unsigned strided_mask(const struct sl_op *op, bool out) {
    return out ? op->strided_out : op->strided_in;
}

struct readers { /* a list of readers per value, looking through views */
    int *first, *next;
    int *node, *input;
};

/* Fills away[v]: does a node of another stage read v, or does v leave the graph as a gradient or
 * output? */
static bool *find_away(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    bool *away = SL_NEW(&b->scratch, bool, graph->values.count);
    for (int64_t n = 0; n < graph->nodes.count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int value = graph->nodes.at[n].in[i];
            const struct sl_value *v = value < 0 ? NULL : &graph->values.at[value];
            if (v && v->kind == SL_VALUE_NODE && b->stage[v->node] != b->stage[n])
                away[value] = true;
        }
    for (int64_t i = 0; i < graph->grads.count; i++)
        away[graph->grads.at[i].value] = true;
    for (int64_t i = 0; i < graph->outputs.count; i++)
        away[graph->outputs.at[i].value] = true;
    return away;
}

/* Returns the value whose memory a value uses. A view uses the memory of its source. If the view is
 * sent on and its source comes from another stage, or is a parameter or state, the view becomes a
 * copy. */
static int root_of(const struct sl_build *b, const bool *away, int value) {
    const struct sl_value *v = &b->graph->values.at[value];
    if (v->kind != SL_VALUE_NODE || v->slot != 0 || !b->graph->nodes.at[v->node].op->is_view)
        return value;
    int source = b->root[b->graph->nodes.at[v->node].in[0]];
    const struct sl_value *s = &b->graph->values.at[source];
    bool moved = s->kind == SL_VALUE_PARAM || s->kind == SL_VALUE_STATE ||
                 (s->kind == SL_VALUE_NODE && b->stage[s->node] != b->stage[v->node]);
    return moved && away[value] ? value : source;
}

static void find_roots(struct sl_build *b) {
    const bool *away = find_away(b);
    for (int64_t v = 0; v < b->graph->values.count; v++)
        b->root[v] = root_of(b, away, (int)v);
}

static struct readers list_readers(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    int64_t edges = 0, at = 0;
    for (int64_t n = 0; n < graph->nodes.count; n++)
        edges += graph->nodes.at[n].in_count;
    struct readers r = {SL_NEW(&b->scratch, int, graph->values.count),
                        SL_NEW(&b->scratch, int, edges), SL_NEW(&b->scratch, int, edges),
                        SL_NEW(&b->scratch, int, edges)};
    for (int64_t v = 0; v < graph->values.count; v++)
        r.first[v] = -1;
    for (int64_t n = 0; n < graph->nodes.count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count && !sl_pass_build_is_view(b, (int)n); i++) {
            int value = graph->nodes.at[n].in[i];
            if (value < 0)
                continue;
            int root = b->root[value];
            r.node[at] = (int)n;
            r.input[at] = i;
            r.next[at] = r.first[root];
            r.first[root] = (int)at++;
        }
    return r;
}

static bool is_kept(const struct sl_build *b, int root) {
    for (int64_t i = 0; i < b->graph->outputs.count; i++)
        if (b->root[b->graph->outputs.at[i].value] == root)
            return true;
    for (int64_t i = 0; i < b->graph->grads.count; i++)
        if (b->root[b->graph->grads.at[i].value] == root)
            return true;
    return false;
}

static bool same_stage(const struct sl_build *b, int node, int other) {
    return b->stage[node] == b->stage[other];
}

/* Are all readers of this value kernels that accept strided rows, in the stage of `node`? */
static bool read_strided(const struct sl_build *b, const struct readers *r, int root, int node) {
    if (is_kept(b, root))
        return false;
    for (int e = r->first[root]; e >= 0; e = r->next[e]) {
        const struct sl_op *op = b->graph->nodes.at[r->node[e]].op;
        if (!(strided_mask(op, false) >> r->input[e] & 1) || !same_stage(b, node, r->node[e]))
            return false;
    }
    return true;
}

static int64_t last_size(const struct sl_build *b, int value) {
    const struct sl_shape *shape = &sl_graph_value(b->graph, value)->shape;
    return shape->dim[shape->rank - 1];
}

static void make_part(struct sl_build *b, int value, int whole, int64_t at, int64_t run) {
    b->root[value] = whole;
    b->part_row[value] = last_size(b, whole);
    b->part_run[value] = run;
    b->part_at[value] = at;
}

static bool on_last_axis(const struct sl_build *b, const struct sl_node *node, int value) {
    return node->attr[0].i == sl_graph_value(b->graph, value)->shape.rank - 1;
}

/* Makes the outputs of a split parts of its input if all readers accept strided rows. */
static void try_split(struct sl_build *b, const struct readers *r, int index) {
    const struct sl_node *node = &b->graph->nodes.at[index];
    int whole = node->in[0];
    if (!on_last_axis(b, node, whole) || b->root[whole] != whole)
        return;
    for (int i = 0; i < node->out_count; i++)
        if (!read_strided(b, r, node->out[i], index))
            return;
    const struct sl_value *v = sl_graph_value(b->graph, whole);
    if (v->kind != SL_VALUE_NODE || !same_stage(b, v->node, index))
        return;
    int64_t run = last_size(b, node->out[0]);
    for (int i = 0; i < node->out_count; i++)
        make_part(b, node->out[i], whole, i * run, run);
    b->gone[index] = true;
}

/* Makes the inputs of a concat parts of its output if their producer accepts strided rows and they
 * have no other reader. */
static void try_concat(struct sl_build *b, const struct readers *r, int index) {
    const struct sl_node *node = &b->graph->nodes.at[index];
    int whole = node->out[0];
    if (!on_last_axis(b, node, whole))
        return;
    for (int i = 0; i < node->in_count; i++) {
        int root = b->root[node->in[i]], e = r->first[root];
        const struct sl_value *v = sl_graph_value(b->graph, root);
        if (v->kind != SL_VALUE_NODE || e < 0 || r->next[e] >= 0 || is_kept(b, root))
            return;
        const struct sl_op *op = b->graph->nodes.at[v->node].op;
        if (!(strided_mask(op, true) >> v->slot & 1) || !same_stage(b, v->node, index))
            return;
    }
    int64_t at = 0;
    for (int i = 0; i < node->in_count; i++) {
        int64_t run = last_size(b, node->in[i]);
        make_part(b, b->root[node->in[i]], whole, at, run);
        at += run;
    }
    b->gone[index] = true;
}

/* Makes every view of a part a part. */
static void spread(struct sl_build *b) {
    for (int64_t v = 0; v < b->graph->values.count; v++) {
        const struct sl_value *value = &b->graph->values.at[v];
        if (value->kind != SL_VALUE_NODE)
            continue;
        if (!sl_pass_build_is_view(b, value->node))
            continue;
        int from = b->graph->nodes.at[value->node].in[0];
        b->root[v] = b->root[from];
        b->part_row[v] = b->part_row[from];
        b->part_run[v] = b->part_run[from];
        b->part_at[v] = b->part_at[from];
    }
}

void sl_pass_build_views(struct sl_build *b) {
    find_roots(b);
    struct readers r = list_readers(b);
    for (int64_t n = 0; n < b->graph->nodes.count; n++) {
        const struct sl_op *op = b->graph->nodes.at[n].op;
        if (op->is_split)
            try_split(b, &r, (int)n);
        else if (op->join == SL_JOIN_CONCAT)
            try_concat(b, &r, (int)n);
    }
    spread(b);
}
