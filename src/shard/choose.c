/* Chooses layouts, region by region.
 *
 * A product with a weight opens a region: its columns are divided. The rules carry the layout to
 * all readers, and to the other operands that must then be divided. A product that sums over the
 * divided axis ends the region. If a node on the way cannot be divided, the whole region stays
 * replicated. */
#include "shard/rules.h"

#include "base/map.h"

#include <string.h>

struct chooser {
    struct sl_arena *arena;
    const struct sl_graph *graph;
    struct sl_shard_layouts *out;
    int *first_reader, *next_reader; /* [values + 1]; [slots]: the reads of each value as a list */
    int *reader;                     /* [slots] the node that reads */
    SL_VEC(int) values;              /* values that this attempt has divided */
    SL_VEC(int) summing;             /* nodes that sum over shards in this attempt */
    SL_VEC(int) work;                /* nodes to visit */
    bool *kept;                      /* [values] outputs and losses, which stay replicated */
    int64_t table_rows;              /* rows of the largest table; 0: tables stay replicated */
    const struct sl_map *wanted;     /* parameters that may be divided; NULL: all */
    int want_parts;
};

static void list_readers(struct chooser *c) {
    const struct sl_graph *graph = c->graph;
    int64_t slots = 0, at = 0;
    for (int64_t n = 0; n < sl_shard_nodes(graph); n++)
        slots += graph->nodes.at[n].in_count;
    c->first_reader = SL_NEW(c->arena, int, graph->values.count + 1);
    c->next_reader = SL_NEW(c->arena, int, slots + 1);
    c->reader = SL_NEW(c->arena, int, slots + 1);
    c->kept = SL_NEW(c->arena, bool, graph->values.count + 1);
    for (int64_t v = 0; v < graph->values.count; v++)
        c->first_reader[v] = -1;
    for (int64_t n = 0; n < sl_shard_nodes(graph); n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int v = graph->nodes.at[n].in[i];
            if (v < 0)
                continue;
            c->reader[at] = (int)n;
            c->next_reader[at] = c->first_reader[v];
            c->first_reader[v] = (int)at++;
        }
    for (int64_t i = 0; i < graph->losses.count; i++)
        c->kept[graph->losses.at[i].value] = true;
    for (int64_t i = 0; i < graph->outputs.count && !c->out->vocabulary; i++)
        c->kept[graph->outputs.at[i].value] = true;
    for (int64_t i = 0; i < graph->updates.count; i++)
        c->kept[graph->updates.at[i].value] = true;
}

/* May this value be divided? */
static bool may_divide(const struct chooser *c, int value) {
    const struct sl_value *v = sl_graph_value(c->graph, value);
    if (v->kind == SL_VALUE_PARAM)
        return !c->wanted ||
               sl_map_find(c->wanted, sl_str(c->graph->params.at[v->index].name)) != NULL;
    return v->kind == SL_VALUE_NODE && !c->kept[value] && v->dtype == SL_FLOAT;
}

static bool divide(struct chooser *c, int value, const struct sl_shard_layout *layout) {
    struct sl_shard_layout *at = &c->out->at[value];
    const struct sl_value *v = sl_graph_value(c->graph, value);
    if (at->divided)
        return at->axis == layout->axis && at->parts == layout->parts;
    if (!may_divide(c, value))
        return false;
    *at = *layout;
    SL_PUSH(&c->values, value);
    for (int r = c->first_reader[value]; r >= 0; r = c->next_reader[r])
        SL_PUSH(&c->work, c->reader[r]);
    if (v->kind == SL_VALUE_NODE)
        SL_PUSH(&c->work, v->node);
    return true;
}

static void fill_query(const struct sl_graph *graph, const struct sl_shard_layouts *layouts, int n,
                       struct sl_shard_query *q) {
    q->graph = graph;
    q->node = &graph->nodes.at[n];
    q->shards = layouts->shards;
    for (int i = 0; i < q->node->in_count; i++)
        q->in[i] = q->node->in[i] >= 0 ? layouts->at[q->node->in[i]]
                                       : (struct sl_shard_layout){.divided = false};
    for (int i = 0; i < q->node->out_count; i++)
        q->out[i] = layouts->at[q->node->out[i]];
}

/* Does a divided node read a whole parameter? The gradient of that parameter would be a sum over
 * shards. Only the bias of a summing product is added once, outside the region. */
static bool reads_whole_param(const struct sl_shard_query *q) {
    bool divided = false;
    for (int i = 0; i < q->node->in_count; i++)
        divided |= q->in[i].divided;
    for (int i = 0; i < q->node->out_count; i++)
        divided |= q->out[i].divided;
    if (!divided)
        return false;
    for (int i = 0; i < q->node->in_count; i++) {
        if (q->node->in[i] < 0 || q->in[i].divided || (q->sums && i == 2))
            continue;
        enum sl_value_kind kind = sl_graph_value(q->graph, q->node->in[i])->kind;
        if (kind == SL_VALUE_PARAM || kind == SL_VALUE_STATE)
            return true;
    }
    return false;
}

static bool is_vocabulary(const struct sl_op *op) {
    return op->divide == SL_DIVIDE_TABLE || op->divide == SL_DIVIDE_CLASSES;
}

static bool visit(struct chooser *c, int n) {
    struct sl_shard_query q;
    fill_query(c->graph, c->out, n, &q);
    if (is_vocabulary(q.node->op) && !c->out->vocabulary)
        return false;
    if (!sl_shard_rule_apply(&q)) {
        c->want_parts = q.want_parts ? q.want_parts : c->want_parts;
        return false;
    }
    for (int i = 0; i < q.node->in_count; i++)
        if (q.in[i].divided && !divide(c, q.node->in[i], &q.in[i]))
            return false;
    for (int i = 0; i < q.node->out_count; i++)
        if (q.out[i].divided && !divide(c, q.node->out[i], &q.out[i]))
            return false;
    if (reads_whole_param(&q))
        return false;
    if (q.sums && !c->out->sums[n]) {
        c->out->sums[n] = true;
        SL_PUSH(&c->summing, n);
    }
    return true;
}

static void forget(struct chooser *c) {
    for (int64_t i = 0; i < c->values.count; i++)
        c->out->at[c->values.at[i]].divided = false;
    for (int64_t i = 0; i < c->summing.count; i++)
        c->out->sums[c->summing.at[i]] = false;
}

/* Tries to make a region that begins with the columns of node n, or with the rows of its table. */
static bool attempt(struct chooser *c, int n, int parts) {
    const struct sl_node *node = &c->graph->nodes.at[n];
    bool table = node->op->divide == SL_DIVIDE_TABLE;
    int first = table ? node->in[0] : node->out[0];
    int rank = sl_graph_value(c->graph, first)->shape.rank;
    const struct sl_shard_layout part = {true, table ? 0 : rank - 1, parts};
    c->values.count = c->summing.count = c->work.count = 0;
    c->want_parts = 0;
    bool ok = divide(c, first, &part);
    while (ok && c->work.count > 0)
        ok = visit(c, c->work.at[--c->work.count]);
    ok = ok && c->summing.count > 0;
    if (!ok)
        forget(c);
    return ok;
}

static bool opens(const struct chooser *c, int n) {
    const struct sl_node *node = &c->graph->nodes.at[n];
    if (node->op->divide == SL_DIVIDE_TABLE)
        return c->out->vocabulary && !c->out->at[node->in[0]].divided &&
               sl_graph_value(c->graph, node->in[0])->shape.dim[0] == c->table_rows;
    if (node->op->divide != SL_DIVIDE_PRODUCT || c->out->at[node->in[0]].divided ||
        c->out->at[node->out[0]].divided || c->out->at[node->in[1]].divided)
        return false;
    return sl_graph_value(c->graph, node->in[1])->kind == SL_VALUE_PARAM;
}

static void find_largest_table(struct chooser *c) {
    for (int64_t n = 0; n < sl_shard_nodes(c->graph); n++) {
        const struct sl_node *node = &c->graph->nodes.at[n];
        if (node->op->divide != SL_DIVIDE_TABLE)
            continue;
        int64_t rows = sl_graph_value(c->graph, node->in[0])->shape.dim[0];
        c->table_rows = rows > c->table_rows ? rows : c->table_rows;
    }
}

static sl_err choose(struct chooser *c, int shards, bool vocabulary) {
    const struct sl_graph *graph = c->graph;
    SL_ASSERT(graph->checked && shards >= 1);
    *c->out = (struct sl_shard_layouts){
        .shards = shards,
        .vocabulary = vocabulary,
        .at = SL_NEW(c->arena, struct sl_shard_layout, graph->values.count + 1),
        .sums = SL_NEW(c->arena, bool, graph->nodes.count + 1),
    };
    list_readers(c);
    find_largest_table(c);
    for (int n = 0; n < sl_shard_nodes(graph) && shards > 1; n++) {
        if (!opens(c, n))
            continue;
        bool ok = attempt(c, n, 1);
        if (!ok && c->want_parts > 1)
            ok = attempt(c, n, c->want_parts);
        c->out->regions += ok;
    }
    SL_VEC_FREE(&c->values);
    SL_VEC_FREE(&c->summing);
    SL_VEC_FREE(&c->work);
    return sl_shard_check(graph, c->out);
}

sl_err sl_shard_choose(struct sl_arena *arena, const struct sl_graph *graph, int shards,
                       struct sl_shard_layouts *out) {
    struct chooser c = {.arena = arena, .graph = graph, .out = out};
    return choose(&c, shards, false);
}

sl_err sl_shard_choose_vocabulary(struct sl_arena *arena, const struct sl_graph *graph, int shards,
                                  struct sl_shard_layouts *out) {
    struct chooser c = {.arena = arena, .graph = graph, .out = out};
    return choose(&c, shards, true);
}

static sl_err check_like(const struct sl_graph *graph, const struct sl_shard_layouts *layouts,
                         const struct sl_graph *of, const struct sl_shard_layouts *like) {
    for (int64_t i = 0; i < graph->params.count; i++) {
        const struct sl_param *p = &graph->params.at[i];
        const int64_t *other = sl_map_find(&of->names, sl_str(p->name));
        if (!other)
            continue;
        const struct sl_shard_layout *a = &layouts->at[p->value], *b = &like->at[*other];
        if (a->divided != b->divided ||
            (a->divided && (a->axis != b->axis || a->parts != b->parts)))
            return sl_fail(SL_ERR_REFUSED,
                           "parameter '%s' cannot be divided in the same way for training and "
                           "evaluation",
                           p->name);
    }
    return SL_OK;
}

sl_err sl_shard_choose_like(struct sl_arena *arena, const struct sl_graph *graph,
                            const struct sl_graph *of, const struct sl_shard_layouts *like,
                            struct sl_shard_layouts *out) {
    struct sl_map wanted = {0};
    struct chooser c = {.arena = arena, .graph = graph, .out = out, .wanted = &wanted};
    for (int64_t i = 0; i < of->params.count; i++)
        if (like->at[of->params.at[i].value].divided)
            sl_map_put(&wanted, sl_str(of->params.at[i].name), i);
    sl_err err = choose(&c, like->shards, like->vocabulary);
    sl_map_free(&wanted);
    return err == SL_OK ? check_like(graph, out, of, like) : err;
}

/* ---- the checker ---- */

static sl_err fail_node(const struct sl_graph *graph, int64_t n, const char *why) {
    const struct sl_node *node = &graph->nodes.at[n];
    return sl_fail(SL_ERR_INPUT, "node %lld (%s%s%s): %s", (long long)n, node->scope,
                   *node->scope ? "." : "", node->op->name, why);
}

static bool unchanged(const struct sl_shard_query *a, const struct sl_shard_query *b) {
    for (int i = 0; i < a->node->in_count; i++)
        if (a->in[i].divided != b->in[i].divided)
            return false;
    for (int i = 0; i < a->node->out_count; i++)
        if (a->out[i].divided != b->out[i].divided)
            return false;
    return true;
}

static sl_err check_node(const struct sl_graph *graph, const struct sl_shard_layouts *layouts,
                         int64_t n) {
    struct sl_shard_query q, had;
    fill_query(graph, layouts, (int)n, &q);
    had = q;
    if (!sl_shard_rule_apply(&q))
        return fail_node(graph, n, "its op cannot compute with tensors divided like this");
    if (!unchanged(&q, &had))
        return fail_node(graph, n, "one of its tensors is divided and another is not");
    if (reads_whole_param(&q))
        return fail_node(graph, n, "it is divided and reads a whole parameter");
    if (q.sums && !layouts->sums[n])
        return fail_node(graph, n, "the terms of the shards are not summed");
    if (!q.sums && layouts->sums[n])
        return fail_node(graph, n, "a result that is no sum of terms is summed");
    return SL_OK;
}

sl_err sl_shard_check(const struct sl_graph *graph, const struct sl_shard_layouts *layouts) {
    for (int64_t v = 0; v < graph->values.count; v++) {
        const struct sl_value *value = &graph->values.at[v];
        bool may = value->kind == SL_VALUE_NODE || value->kind == SL_VALUE_PARAM;
        if (!layouts->at[v].divided)
            continue;
        if (!may || !sl_shard_divides(&value->shape, &layouts->at[v], layouts->shards))
            return sl_fail(SL_ERR_INPUT, "value %lld cannot be divided into %d parts", (long long)v,
                           layouts->shards);
    }
    for (int64_t i = 0; i < graph->losses.count; i++)
        if (layouts->at[graph->losses.at[i].value].divided)
            return sl_fail(SL_ERR_INPUT, "loss '%s' is divided", graph->losses.at[i].name);
    for (int64_t i = 0; i < graph->outputs.count; i++)
        if (layouts->at[graph->outputs.at[i].value].divided && !layouts->vocabulary)
            return sl_fail(SL_ERR_INPUT, "output '%s' is divided", graph->outputs.at[i].name);
    for (int64_t n = 0; n < sl_shard_nodes(graph); n++)
        SL_TRY(check_node(graph, layouts, n));
    return SL_OK;
}
