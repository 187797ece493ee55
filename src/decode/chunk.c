/* Makes the graph of a chunk: decides which values are needed whole and which in part. */
#include "decode/chunk_make.h"
#include "decode/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int make_text(struct sl_decode_maker *m) {
    const struct sl_input *input = &m->from->inputs.at[0];
    for (int64_t i = 0; i < m->from->inputs.count; i++)
        if (strcmp(m->from->inputs.at[i].name, "tokens") == 0)
            input = &m->from->inputs.at[i];
    if (m->text == SL_DECODE_FAILED && !m->dry &&
        sl_graph_input(m->to, "text", SL_INT, *sl_decode_shape_of(m, input->value), input->below,
                       &m->text) != SL_OK)
        return SL_DECODE_FAILED;
    return m->dry ? 0 : m->text;
}

static int make_value(struct sl_decode_maker *m, int value, int64_t inner) {
    const struct sl_value *v = sl_graph_value(m->from, value);
    const struct sl_node *node = sl_decode_node_of(m, value);
    if (v->kind == SL_VALUE_INPUT) {
        if (strcmp(m->from->inputs.at[v->index].name, "tokens") != 0)
            return SL_DECODE_FAILED;
        return inner == SL_DECODE_NONE ? make_text(m) : inner == 1 ? m->tokens : SL_DECODE_FAILED;
    }
    if (inner == SL_DECODE_NONE && (!m->moves[value] || m->cheap[value]))
        return node ? sl_decode_copy_whole(m, node, v->slot) : SL_DECODE_FAILED;
    if (inner == SL_DECODE_NONE)
        return sl_decode_cache_value(m, value);
    if (!m->moves[value])
        return sl_decode_take_rows(m, value, inner);
    return sl_decode_make_node(m, value, node, inner);
}

int sl_decode_make(struct sl_decode_maker *m, int value, int64_t inner) {
    const struct sl_value *v = sl_graph_value(m->from, value);
    struct sl_arena *arena = &m->arena;
    if (inner == SL_DECODE_NONE && v->kind == SL_VALUE_PARAM) {
        const int64_t *param =
            sl_map_find(&m->to->names, sl_str(m->from->params.at[v->index].name));
        return param ? (int)*param : SL_DECODE_FAILED;
    }
    const char *key = sl_arena_printf(arena, "%d.%lld", value, (long long)inner);
    struct sl_map *made_map = m->dry ? &m->tried : &m->made;
    const int64_t *known = sl_map_find(made_map, sl_str(key));
    if (known)
        return (int)*known;
    int made = make_value(m, value, inner);
    if (made != SL_DECODE_FAILED && value == m->pick && inner != SL_DECODE_NONE && !m->dry) {
        made = sl_decode_add_node(m, &sl_decode_pick, 2, (int[]){made, m->last}, NULL, "");
        m->length = 1; /* from here on the length is 1 */
    }
    sl_map_put(made_map, sl_str(key), made);
    return made;
}

/* ---- the graph ---- */

/* Marks the values that depend on the tokens, and those that depend only on them. */
static void mark(struct sl_decode_maker *m) {
    const struct sl_graph *g = m->from;
    m->moves = SL_NEW(&m->arena, bool, g->values.count + 1);
    m->cheap = SL_NEW(&m->arena, bool, g->values.count + 1);
    for (int64_t v = 0; v < g->values.count; v++) {
        const struct sl_node *node = sl_decode_node_of(m, (int)v);
        bool is_input = g->values.at[v].kind == SL_VALUE_INPUT;
        m->moves[v] = m->cheap[v] = is_input;
        if (!node)
            continue;
        m->cheap[v] = node->op->layer == SL_LAYER_NONE;
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0) {
                m->moves[v] |= m->moves[node->in[i]];
                m->cheap[v] &= m->cheap[node->in[i]];
            }
    }
}

static int find_output(const struct sl_graph *graph, const char *name) {
    for (int64_t i = 0; i < graph->outputs.count; i++)
        if (strcmp(graph->outputs.at[i].name, name) == 0)
            return graph->outputs.at[i].value;
    return SL_DECODE_FAILED;
}

static int find_input(const struct sl_graph *graph, const char *name) {
    for (int64_t i = 0; i < graph->inputs.count; i++)
        if (strcmp(graph->inputs.at[i].name, name) == 0)
            return graph->inputs.at[i].value;
    return SL_DECODE_FAILED;
}

sl_err sl_decode_sizes_of(const struct sl_graph *graph, struct sl_decode_sizes *out) {
    int tokens = find_input(graph, "tokens"), logits = find_output(graph, "logits");
    const struct sl_shape *in = tokens < 0 ? NULL : &sl_graph_value(graph, tokens)->shape;
    const struct sl_shape *y = logits < 0 ? NULL : &sl_graph_value(graph, logits)->shape;
    if (!in || !y || in->rank != 2 || y->rank != 3 || in->batch != 1 || y->batch != 1 ||
        y->dim[1] != in->dim[1] || in->dim[0] != 1 || y->dim[0] != 1)
        return sl_fail(SL_ERR_REFUSED, "this model cannot write text: that takes an input "
                                       "'tokens' [B,T] and an output 'logits' [B,T,V]");
    *out = (struct sl_decode_sizes){in->dim[1], y->dim[2]};
    return SL_OK;
}

/* Finds the value that the last product reads; only one row of it is needed. */
static int find_pick(const struct sl_decode_maker *m) {
    int value = m->logits;
    for (const struct sl_node *node;
         (node = sl_decode_node_of(m, value)) != NULL && node->in_count;) {
        value = node->in[0];
        if (node->op->layer == SL_LAYER_PRODUCT)
            return sl_decode_shape_of(m, value)->rank == 3 ? value : m->logits;
    }
    return m->logits;
}

static sl_err add_inputs(struct sl_decode_maker *m) {
    const struct sl_graph *g = m->from;
    const struct sl_value *tokens = sl_graph_value(g, find_input(g, "tokens"));
    struct sl_shape chunk = tokens->shape, one = {.rank = 1, .batch = 1, .dim = {1}};
    chunk.dim[1] = m->length;
    SL_TRY(sl_graph_input(m->to, "tokens", SL_INT, chunk, g->inputs.at[tokens->index].below,
                          &m->tokens));
    SL_TRY(sl_graph_input(m->to, "past", SL_INT, one, 0, &m->past));
    SL_TRY(sl_graph_input(m->to, "last", SL_INT, one, 0, &m->last));
    for (int64_t i = 0; i < g->params.count; i++) {
        int value;
        const struct sl_param *p = &g->params.at[i];
        SL_TRY(sl_graph_param(m->to, p->name, sl_graph_value(g, p->value)->shape, p->init, &value));
    }
    return SL_OK;
}

static sl_err fail_blocked(const struct sl_decode_maker *m) {
    if (!m->blocked)
        return sl_fail(SL_ERR_REFUSED, "this model reads inputs other than its tokens");
    return sl_fail(SL_ERR_REFUSED,
                   "the op '%s'%s%s mixes tokens in a way that is not known to be "
                   "causal",
                   m->blocked->op->name, *m->blocked->scope ? " in " : "", m->blocked->scope);
}

static sl_err build(struct sl_decode_maker *m) {
    SL_TRY(add_inputs(m));
    mark(m);
    m->logits = find_output(m->from, "logits");
    m->pick = find_pick(m);
    int logits = sl_decode_make(m, m->logits, m->sizes.vocab);
    SL_TRY(m->err);
    if (logits == SL_DECODE_FAILED)
        return fail_blocked(m);
    SL_TRY(sl_graph_output(m->to, "logits", logits));
    m->to->forward_count = (int)m->to->nodes.count;
    m->to->checked = true; /* marked as checked, because it has no loss */
    return SL_OK;
}

sl_err sl_decode_chunk_build(const struct sl_graph *graph, int64_t tokens, int64_t batch,
                             struct sl_graph **out) {
    struct sl_decode_maker m = {
        .from = graph, .length = tokens, .batch = batch, .text = SL_DECODE_FAILED};
    SL_TRY(sl_decode_sizes_of(graph, &m.sizes));
    m.to = sl_graph_open(graph->name, graph->find_op);
    m.to->eval = true;
    sl_err err = build(&m);
    sl_map_free(&m.made);
    sl_map_free(&m.tried);
    sl_arena_free(&m.arena);
    if (err != SL_OK)
        sl_graph_close(m.to);
    else
        *out = m.to;
    return err;
}
