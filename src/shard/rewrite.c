/* Makes the graphs of shards. Every lane is a shard. A replicated tensor has one lane if all shards
 * are together, else one lane per shard. */
#include "shard/rules.h"

#include <string.h>

struct rewriter {
    const struct sl_graph *from;
    const struct sl_shard_layouts *layouts;
    struct sl_graph *to;
    int lanes; /* shards in the graph: all, or one alone */
    int shards;
    bool apart;   /* each lane has its own copy of replicated tensors */
    int *at;      /* [values][lanes] value in the new graph */
    int *entered; /* [values][lanes] value inside a region; -1: not made yet */
    SL_VEC(struct sl_shard_node) nodes;
    struct sl_arena scratch;
};

static int *at_of(const struct rewriter *r, int value) { return r->at + (int64_t)value * r->lanes; }

/* ---- inputs, parameters, states ---- */

static sl_err copy_inputs(struct rewriter *r) {
    for (int64_t i = 0; i < r->from->inputs.count; i++) {
        const struct sl_input *input = &r->from->inputs.at[i];
        const struct sl_value *v = sl_graph_value(r->from, input->value);
        int id;
        SL_TRY(sl_graph_input(r->to, input->name, v->dtype, v->shape, input->below, &id));
        for (int k = 0; k < r->lanes; k++)
            at_of(r, input->value)[k] = id;
    }
    return SL_OK;
}

static void describe_part(struct rewriter *r, const struct sl_param *param, int shard,
                          struct sl_param *out) {
    const struct sl_shard_layout *layout = &r->layouts->at[param->value];
    struct sl_part_of *part = SL_NEW(&r->to->arena, struct sl_part_of, 1);
    *part = (struct sl_part_of){
        .name = sl_arena_dup(&r->to->arena, param->name, strlen(param->name)),
        .shape = sl_graph_value(r->from, param->value)->shape,
        .axis = layout->divided ? layout->axis : 0,
        .parts = layout->divided ? layout->parts : 1,
        .shard = layout->divided ? shard : 0,
        .shards = layout->divided ? r->shards : 1,
    };
    out->part_of = part;
    out->echo = !layout->divided && shard > 0;
}

static sl_err copy_params(struct rewriter *r, bool states) {
    int64_t count = states ? r->from->states.count : r->from->params.count;
    for (int64_t i = 0; i < count; i++) {
        const struct sl_param *p = states ? &r->from->states.at[i] : &r->from->params.at[i];
        const struct sl_shard_layout *layout = &r->layouts->at[p->value];
        struct sl_shape shape =
            sl_shard_shape(&sl_graph_value(r->from, p->value)->shape, layout, r->shards);
        int id = -1;
        for (int k = 0; k < r->lanes; k++) {
            bool first = k == 0 && !layout->divided;
            const char *name = first ? p->name
                                     : sl_arena_printf(&r->scratch, "%s.%s-%d", p->name,
                                                       layout->divided ? "shard" : "echo", k);
            if (first || layout->divided || r->apart) {
                SL_TRY(
                    (states ? sl_graph_state : sl_graph_param)(r->to, name, shape, p->init, &id));
                if (!first)
                    describe_part(r, p, k,
                                  states ? &r->to->states.at[r->to->states.count - 1]
                                         : &r->to->params.at[r->to->params.count - 1]);
                if (!states)
                    r->to->params.at[r->to->params.count - 1].frozen = p->frozen;
            }
            at_of(r, p->value)[k] = id;
        }
    }
    return SL_OK;
}

/* ---- nodes ---- */

static sl_err emit(struct rewriter *r, const struct sl_node_spec *spec, int node, int lane,
                   int *first_out) {
    int64_t before = r->to->nodes.count;
    SL_TRY(sl_graph_node(r->to, spec, first_out));
    for (int64_t n = before; n < r->to->nodes.count; n++)
        SL_PUSH(&r->nodes, ((struct sl_shard_node){node, lane}));
    return SL_OK;
}

static sl_err emit_named(struct rewriter *r, const char *name, int count, const int *in,
                         struct sl_shard_node at, int *out) {
    const struct sl_node *node = &r->from->nodes.at[at.node];
    union sl_attr of[1] = {{.i = r->shards}};
    const struct sl_op *op = r->to->find_op(sl_str(name));
    struct sl_node_spec spec = {.op = op,
                                .in_count = count,
                                .in = in,
                                .attr = op->attrs ? of : NULL,
                                .scope = node->scope,
                                .pos = node->pos};
    return emit(r, &spec, at.node, at.shard, out);
}

/* Makes the value inside a region, for every lane. Values without gradient enter unchanged. */
static sl_err enter(struct rewriter *r, int value, int node) {
    int *to = r->entered + (int64_t)value * r->lanes;
    const struct sl_value *v = sl_graph_value(r->from, value);
    if (to[0] >= 0)
        return SL_OK;
    if (v->kind != SL_VALUE_NODE || v->dtype != SL_FLOAT) {
        memcpy(to, at_of(r, value), sizeof *to * (size_t)r->lanes);
        return SL_OK;
    }
    if (!r->apart) {
        int first;
        SL_TRY(emit_named(r, "shard_fan", 1, at_of(r, value), (struct sl_shard_node){node, 0},
                          &first));
        const int *outs = r->to->nodes.at[r->to->nodes.count - 1].out;
        memcpy(to, outs, sizeof *to * (size_t)r->lanes);
        return SL_OK;
    }
    for (int k = 0; k < r->lanes; k++)
        SL_TRY(emit_named(r, "shard_enter", 1, &at_of(r, value)[k], (struct sl_shard_node){node, k},
                          &to[k]));
    return SL_OK;
}

static void put_outputs(struct rewriter *r, const struct sl_node *node, int lane, int first) {
    const int *outs = r->to->nodes.at[sl_graph_value(r->to, first)->node].out;
    for (int i = 0; i < node->out_count; i++)
        at_of(r, node->out[i])[lane] = outs[i];
}

/* Is the node an addition to a sum over shards? If it were an `add`, it might be fused with the
 * norm that follows, and no stage could end after it. The whole model has no such pair, because the
 * product takes the addition. */
static bool adds_to_sum(const struct rewriter *r, const struct sl_node *node) {
    bool sum = false;
    if (node->op->join != SL_JOIN_ADD || node->in_count != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct sl_value *v = sl_graph_value(r->from, node->in[i]);
        sum |= v->kind == SL_VALUE_NODE && r->layouts->sums[v->node];
    }
    return sum && sl_graph_shape_equal(&sl_graph_value(r->from, node->in[0])->shape,
                                       &sl_graph_value(r->from, node->in[1])->shape);
}

static sl_err emit_replicated(struct rewriter *r, int n) {
    const struct sl_node *node = &r->from->nodes.at[n];
    const union sl_attr two[1] = {{.i = 2}};
    bool sum = adds_to_sum(r, node);
    for (int k = 0; k < (r->apart ? r->lanes : 1); k++) {
        int in[SL_MAX_IN], first;
        for (int i = 0; i < node->in_count; i++)
            in[i] = node->in[i] < 0 ? -1 : at_of(r, node->in[i])[k];
        struct sl_node_spec spec = {.op = sum ? r->to->find_op(SL_STR("shard_sum")) : node->op,
                                    .in_count = node->in_count,
                                    .in = in,
                                    .attr = sum ? two : node->attr,
                                    .scope = node->scope,
                                    .pos = node->pos};
        SL_TRY(emit(r, &spec, n, k, &first));
        put_outputs(r, node, k, first);
    }
    for (int k = 1; !r->apart && k < r->lanes; k++)
        for (int i = 0; i < node->out_count; i++)
            at_of(r, node->out[i])[k] = at_of(r, node->out[i])[0];
    return SL_OK;
}

/* Adds the sum of the lanes' terms, then the bias, which the products left out. */
static sl_err emit_sum(struct rewriter *r, int n, const int *terms) {
    const struct sl_node *node = &r->from->nodes.at[n];
    int bias = node->in_count > 2 ? node->in[2] : -1, *out = at_of(r, node->out[0]);
    for (int k = 0; k < (r->apart ? r->lanes : 1); k++) {
        const struct sl_shard_node at = {n, k};
        SL_TRY(emit_named(r, "shard_sum", r->apart ? 1 : r->lanes, terms + k, at, &out[k]));
        if (bias >= 0)
            SL_TRY(emit_named(r, "add", 2, (int[]){out[k], at_of(r, bias)[k]}, at, &out[k]));
    }
    for (int k = 1; !r->apart && k < r->lanes; k++)
        out[k] = out[0];
    return SL_OK;
}

static sl_err emit_divided(struct rewriter *r, int n) {
    const struct sl_node *node = &r->from->nodes.at[n];
    struct sl_shard_query q = {.graph = r->from, .node = node, .shards = r->shards};
    union sl_attr attr[SL_MAX_ATTR];
    bool sums = r->layouts->sums[n];
    int terms[SL_MAX_OUT];
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            q.in[i] = r->layouts->at[node->in[i]];
    for (int i = 0; i < node->out_count; i++)
        q.out[i] = r->layouts->at[node->out[i]];
    sl_shard_attrs(&q, attr);
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !r->layouts->at[node->in[i]].divided && !(sums && i == 2))
            SL_TRY(enter(r, node->in[i], n));
    for (int k = 0; k < r->lanes; k++) {
        int in[SL_MAX_IN], first, count = sums ? 2 : node->in_count;
        for (int i = 0; i < count; i++) {
            int v = node->in[i];
            bool divided = v >= 0 && r->layouts->at[v].divided;
            in[i] = v < 0 ? -1 : divided ? at_of(r, v)[k] : r->entered[(int64_t)v * r->lanes + k];
        }
        struct sl_node_spec spec = {.op = node->op,
                                    .in_count = count,
                                    .in = in,
                                    .attr = attr,
                                    .scope = node->scope,
                                    .pos = node->pos};
        SL_TRY(emit(r, &spec, n, k, &first));
        terms[k] = first;
        put_outputs(r, node, k, first);
    }
    return sums ? emit_sum(r, n, terms) : SL_OK;
}

static bool is_divided(const struct rewriter *r, int n) {
    const struct sl_node *node = &r->from->nodes.at[n];
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && r->layouts->at[node->in[i]].divided)
            return true;
    for (int i = 0; i < node->out_count; i++)
        if (r->layouts->at[node->out[i]].divided)
            return true;
    return false;
}

/* ---- losses, outputs, the whole graph ---- */

static sl_err copy_ends(struct rewriter *r) {
    for (int64_t i = 0; i < r->from->losses.count; i++) {
        const struct sl_loss *loss = &r->from->losses.at[i];
        for (int k = 0; k < (r->apart ? r->lanes : 1); k++) {
            const char *name =
                k ? sl_arena_printf(&r->scratch, "%s.echo-%d", loss->name, k) : loss->name;
            SL_TRY(sl_graph_loss(r->to, name, at_of(r, loss->value)[k], loss->weight));
            r->to->losses.at[r->to->losses.count - 1].echo = k > 0;
        }
    }
    for (int64_t i = 0; i < r->from->outputs.count; i++)
        if (!r->layouts->at[r->from->outputs.at[i].value].divided)
            SL_TRY(sl_graph_output(r->to, r->from->outputs.at[i].name,
                                   at_of(r, r->from->outputs.at[i].value)[0]));
    return SL_OK;
}

static struct sl_graph *open_like(const struct sl_graph *from) {
    struct sl_graph *to = sl_graph_open(from->name, from->find_op);
    to->brief = sl_arena_dup(&to->arena, from->brief, strlen(from->brief));
    to->weights =
        from->weights ? sl_arena_dup(&to->arena, from->weights, strlen(from->weights)) : NULL;
    to->stored = from->stored;
    to->stored.close = NULL; /* the old graph will close it */
    to->eval = from->eval;
    to->node_limit = INT32_MAX;
    to->stream_count = from->stream_count;
    for (int64_t i = 0; i < from->sizes.count; i++) {
        struct sl_size size = from->sizes.at[i];
        size.name = sl_arena_dup(&to->arena, size.name, strlen(size.name));
        SL_PUSH(&to->sizes, size);
    }
    return to;
}

static sl_err fill(struct rewriter *r) {
    int64_t count = r->from->values.count * r->lanes;
    r->at = SL_NEW(&r->scratch, int, count + 1);
    r->entered = SL_NEW(&r->scratch, int, count + 1);
    for (int64_t i = 0; i < count; i++)
        r->at[i] = r->entered[i] = -1;
    SL_TRY(copy_inputs(r));
    SL_TRY(copy_params(r, false));
    SL_TRY(copy_params(r, true));
    for (int n = 0; n < sl_shard_nodes(r->from); n++)
        SL_TRY(is_divided(r, n) ? emit_divided(r, n) : emit_replicated(r, n));
    SL_TRY(copy_ends(r));
    return sl_graph_check(r->to);
}

sl_err sl_shard_rewrite(const struct sl_graph *graph, const struct sl_shard_layouts *layouts,
                        enum sl_shard_form form, struct sl_graph **out,
                        struct sl_shard_node **nodes) {
    bool alone = form == SL_SHARD_ALONE;
    SL_ASSERT(alone || !layouts->vocabulary);
    if (layouts->shards < 1 || (layouts->shards > SL_MAX_OUT && !alone))
        return sl_fail(SL_ERR_REFUSED, "%d tensor-parallel shards: 1 to %d can run",
                       layouts->shards, SL_MAX_OUT);
    SL_TRY(sl_shard_check(graph, layouts));
    struct rewriter r = {.from = graph,
                         .layouts = layouts,
                         .to = open_like(graph),
                         .lanes = alone ? 1 : layouts->shards,
                         .shards = layouts->shards,
                         .apart = form != SL_SHARD_TOGETHER};
    sl_err err = fill(&r);
    if (err == SL_OK && nodes)
        *nodes = sl_vec_freeze(&r.to->arena, r.nodes.at, r.nodes.count, sizeof **nodes);
    SL_VEC_FREE(&r.nodes);
    sl_arena_free(&r.scratch);
    if (err != SL_OK) {
        sl_graph_close(r.to);
        return err;
    }
    *out = r.to;
    return SL_OK;
}
