/* The rewriting pass: copies a graph and tries every pattern at every node. */
#include "rewrite/fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MAX = 12 };

/* Patterns in the order in which they are tried; the first that applies is used. */
static sl_rewrite_pattern *const patterns[] = {
    sl_rewrite_views,     sl_rewrite_transposes, sl_rewrite_scales,    sl_rewrite_broadcasts,
    sl_rewrite_guard,     sl_rewrite_silu,       sl_rewrite_gelu_erf,  sl_rewrite_gelu_tanh,
    sl_rewrite_layernorm, sl_rewrite_rmsnorm,    sl_rewrite_groupnorm, sl_rewrite_rope,
    sl_rewrite_attention, sl_rewrite_heads,
};

bool sl_rewrite_is(const struct sl_node *node, const char *op) {
    return node && strcmp(node->op->name, op) == 0;
}

const struct sl_node *sl_rewrite_made_by(const struct sl_rewrite *f, int value, const char *op) {
    const struct sl_value *v = value < 0 ? NULL : sl_graph_value(f->from, value);
    if (!v || v->kind != SL_VALUE_NODE || v->slot != 0)
        return NULL;
    const struct sl_node *node = &f->from->nodes.at[v->node];
    return sl_rewrite_is(node, op) ? node : NULL;
}

const struct sl_shape *sl_rewrite_shape(const struct sl_rewrite *f, int value) {
    return &sl_graph_value(f->from, value)->shape;
}

static const union sl_attr *attr_of(const struct sl_node *node, const char *attr) {
    int index = sl_graph_op_find_attr(node->op, sl_str(attr));
    SL_ASSERT(index >= 0);
    return &node->attr[index];
}

int64_t sl_rewrite_int(const struct sl_node *node, const char *attr) {
    return attr_of(node, attr)->i;
}
double sl_rewrite_float(const struct sl_node *node, const char *attr) {
    return attr_of(node, attr)->f;
}
const struct sl_ints *sl_rewrite_ints(const struct sl_node *node, const char *attr) {
    return &attr_of(node, attr)->ints;
}

bool sl_rewrite_near(double a, double b) { return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)); }

/* ---- constants ---- */

bool sl_rewrite_constant(const struct sl_rewrite *f, int value, struct sl_rewrite_constant *out) {
    static const char *const through[] = {"broadcast_to", "to_int", "to_float"};
    const struct sl_value *v = sl_graph_value(f->from, value);
    bool same = v->kind == SL_VALUE_NODE;
    while (same) {
        same = false;
        for (int i = 0; i < SL_COUNT(through) && !same; i++) {
            const struct sl_node *node = sl_rewrite_made_by(f, value, through[i]);
            if (node) {
                value = node->in[0];
                same = true;
            }
        }
    }
    v = sl_graph_value(f->from, value);
    if (v->kind != SL_VALUE_STATE)
        return false;
    const struct sl_param *state = &f->from->states.at[v->index];
    *out = (struct sl_rewrite_constant){.shape = v->shape};
    if (state->init.kind == SL_INIT_CONST) {
        out->all = state->init.a;
        return true;
    }
    if (state->init.kind == SL_INIT_STORED && f->constants)
        out->f = f->constants->values(f->constants->ctx, state->name);
    return out->f != NULL;
}

bool sl_rewrite_is_matrix(const struct sl_rewrite_constant *c) {
    for (int i = 0; i + 2 < c->shape.rank; i++)
        if (c->shape.dim[i] != 1)
            return false;
    return c->shape.batch == 0;
}

double sl_rewrite_at(const struct sl_rewrite_constant *c, int64_t row, int64_t column) {
    int rank = c->shape.rank;
    int64_t columns = rank > 0 ? c->shape.dim[rank - 1] : 1;
    int64_t rows = rank > 1 ? c->shape.dim[rank - 2] : 1;
    return c->f ? c->f[(rows == 1 ? 0 : row) * columns + (columns == 1 ? 0 : column)] : c->all;
}

bool sl_rewrite_number(const struct sl_rewrite *f, int value, double *out) {
    struct sl_rewrite_constant c;
    if (!sl_rewrite_constant(f, value, &c))
        return false;
    *out = c.f ? c.f[0] : c.all;
    for (int64_t i = 1; c.f && i < sl_graph_shape_numel(&c.shape, 1); i++)
        if (c.f[i] != c.f[0])
            return false;
    return true;
}

const struct sl_node *sl_rewrite_side(const struct sl_rewrite *f, const struct sl_node *node,
                                      const char *op, int *other) {
    for (int i = 0; i < 2 && node->in_count == 2; i++) {
        const struct sl_node *side = sl_rewrite_made_by(f, node->in[i], op);
        *other = node->in[1 - i];
        if (side)
            return side;
    }
    return NULL;
}

/* ---- emitting ---- */

sl_err sl_rewrite_emit(struct sl_rewrite *f, const char *op, int count, const int *in,
                       const union sl_attr *attr, int *out) {
    return sl_graph_apply(f->to, op, count, in, attr, out);
}

sl_err sl_rewrite_reshape(struct sl_rewrite *f, int x, const struct sl_shape *shape, int *out) {
    union sl_attr attr[1] = {{.shape = *shape}};
    *out = x;
    if (sl_graph_shape_equal(&sl_graph_value(f->to, x)->shape, shape))
        return SL_OK;
    return sl_rewrite_emit(f, "reshape", 1, &x, attr, out);
}

sl_err sl_rewrite_transpose(struct sl_rewrite *f, int x, const int *perm, int *out) {
    union sl_attr attr[1] = {{.ints = {.count = sl_graph_value(f->to, x)->shape.rank}}};
    for (int i = 0; i < attr[0].ints.count; i++)
        attr[0].ints.at[i] = perm[i];
    return sl_rewrite_emit(f, "transpose", 1, &x, attr, out);
}

/* ---- the pass ---- */

static sl_err copy_leaves(struct sl_rewrite *f) {
    const struct sl_graph *from = f->from;
    for (int64_t i = 0; i < from->inputs.count; i++) {
        const struct sl_input *input = &from->inputs.at[i];
        const struct sl_value *v = sl_graph_value(from, input->value);
        SL_TRY(sl_graph_input(f->to, input->name, v->dtype, v->shape, input->below,
                              &f->map[input->value]));
    }
    for (int64_t i = 0; i < from->params.count; i++) {
        const struct sl_param *p = &from->params.at[i];
        SL_TRY(sl_graph_param(f->to, p->name, sl_graph_value(from, p->value)->shape, p->init,
                              &f->map[p->value]));
        f->to->params.at[f->to->params.count - 1].frozen = p->frozen;
    }
    for (int64_t i = 0; i < from->states.count; i++) {
        const struct sl_param *p = &from->states.at[i];
        SL_TRY(sl_graph_state(f->to, p->name, sl_graph_value(from, p->value)->shape, p->init,
                              &f->map[p->value]));
    }
    return SL_OK;
}

static sl_err copy_node(struct sl_rewrite *f, const struct sl_node *node) {
    int in[SL_MAX_IN], out = -1;
    for (int i = 0; i < SL_COUNT(patterns) && out < 0; i++)
        SL_TRY(patterns[i](f, node, &out));
    if (out >= 0) {
        f->map[node->out[0]] = out;
        f->changed = true;
        return SL_OK;
    }
    for (int i = 0; i < node->in_count; i++)
        in[i] = node->in[i] < 0 ? -1 : f->map[node->in[i]];
    struct sl_node_spec spec = {
        .op = node->op, .in_count = node->in_count, .in = in, .attr = node->attr};
    SL_TRY(sl_graph_node(f->to, &spec, &out));
    for (int i = 0; i < node->out_count; i++)
        f->map[node->out[i]] = out + i;
    return SL_OK;
}

static sl_err copy_ends(struct sl_rewrite *f) {
    const struct sl_graph *from = f->from;
    for (int64_t i = 0; i < from->outputs.count; i++)
        SL_TRY(sl_graph_output(f->to, from->outputs.at[i].name, f->map[from->outputs.at[i].value]));
    for (int64_t i = 0; i < from->losses.count; i++)
        SL_TRY(sl_graph_loss(f->to, from->losses.at[i].name, f->map[from->losses.at[i].value],
                             from->losses.at[i].weight));
    return SL_OK;
}

static void count_readers(struct sl_rewrite *f) {
    const struct sl_graph *from = f->from;
    for (int64_t n = 0; n < from->nodes.count; n++)
        for (int i = 0; i < from->nodes.at[n].in_count; i++)
            if (from->nodes.at[n].in[i] >= 0)
                f->readers[from->nodes.at[n].in[i]]++;
    for (int64_t i = 0; i < from->outputs.count; i++)
        f->readers[from->outputs.at[i].value]++;
    for (int64_t i = 0; i < from->losses.count; i++)
        f->readers[from->losses.at[i].value]++;
}

static sl_err one_pass(struct sl_rewrite *f) {
    count_readers(f);
    SL_TRY(copy_leaves(f));
    for (int64_t n = 0; n < f->from->nodes.count; n++)
        SL_TRY(copy_node(f, &f->from->nodes.at[n]));
    return copy_ends(f);
}

/* Rewrites once; *out is NULL if no pattern applied. */
static sl_err rewrite(const struct sl_graph *graph, const struct sl_rewrite_constants *constants,
                      bool by_loss, struct sl_graph **out) {
    size_t count = (size_t)graph->values.count + 1;
    struct sl_rewrite f = {.from = graph,
                           .to = sl_graph_open(graph->name, graph->find_op),
                           .constants = constants,
                           .map = calloc(count, sizeof *f.map),
                           .readers = calloc(count, sizeof *f.readers)};
    if (!f.map || !f.readers)
        sl_out_of_memory(count * sizeof *f.map);
    f.to->node_limit = graph->node_limit;
    *out = NULL;
    sl_err err = one_pass(&f);
    if (err == SL_OK && f.changed)
        err = sl_rewrite_prune(f.to, by_loss, out);
    sl_graph_close(f.to);
    free(f.map);
    free(f.readers);
    return err;
}

sl_err sl_rewrite_fuse(struct sl_graph **graph, bool by_loss,
                       const struct sl_rewrite_constants *constants) {
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        struct sl_graph *next;
        SL_TRY(rewrite(*graph, constants, by_loss, &next));
        if (!next)
            return SL_OK;
        sl_graph_close(*graph);
        *graph = next;
    }
    return SL_OK;
}
