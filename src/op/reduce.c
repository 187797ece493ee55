/* reduce_sum, reduce_mean: over the given axes (default all), kept with size 1 or dropped.
 *
 *   x [B,5,7]   axes=[0,2]           y [5]
 *               axes=[0,2] keep=1    y [1,5,1]
 *
 * The axis that holds B may be reduced: the result is that of the micro-batch.
 */
#include "op/common.h"

enum { AXES, KEEP };

/* Sort the axes, make them non-negative, and use all if none is given. */
static sl_err normalise_axes(const struct sl_infer *c, struct sl_ints *axes) {
    int rank = c->in[0].rank;
    bool taken[SL_MAX_RANK] = {false};
    char text[SL_SHAPE_TEXT];
    for (int i = 0; i < axes->count; i++) {
        SL_TRY(sl_op_need_axis(c, rank, &axes->at[i]));
        if (taken[axes->at[i]])
            return sl_graph_infer_fail(c, "axis %lld of %s is named twice", (long long)axes->at[i],
                                       sl_graph_shape_text(&c->in[0], text));
        taken[axes->at[i]] = true;
    }
    bool all = axes->count == 0;
    axes->count = 0;
    for (int i = 0; i < rank; i++)
        if (all || taken[i])
            axes->at[axes->count++] = i;
    return SL_OK;
}

/* The shape with reduced axes of size 1. */
static struct sl_shape kept_shape(const struct sl_shape *in, const struct sl_ints *axes) {
    struct sl_shape kept = *in;
    for (int i = 0; i < axes->count; i++)
        sl_graph_shape_set(&kept, (int)axes->at[i], (struct sl_dim){1, false});
    return kept;
}

static sl_err infer(struct sl_infer *c) {
    struct sl_ints *axes = &c->attr[AXES].ints;
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(normalise_axes(c, axes));
    if (c->attr[KEEP].i) {
        c->out[0] = kept_shape(&c->in[0], axes);
        return SL_OK;
    }
    c->out[0] = (struct sl_shape){0};
    for (int i = 0, next = 0; i < c->in[0].rank; i++) {
        if (next < axes->count && axes->at[next] == i)
            next++;
        else
            sl_graph_shape_set(&c->out[0], c->out[0].rank++, sl_graph_shape_dim(&c->in[0], i));
    }
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static int spread(struct sl_grad *g, const char *op) {
    struct sl_shape x = *sl_graph_grad_shape(g, g->in[0]); /* copy: emitting may move it */
    union sl_attr attr[1] = {{.shape = x}};
    int dy = sl_op_grad_reshape(g, g->dout[0], kept_shape(&x, &g->attr[AXES].ints));
    return sl_graph_grad_emit(g, op, 1, &dy, attr);
}

static int grad_sum(struct sl_grad *g, int input) {
    (void)input;
    return spread(g, "broadcast_to");
}

static int grad_mean(struct sl_grad *g, int input) {
    (void)input;
    return spread(g, "broadcast_mean");
}

static void reduce(const struct sl_ref *r, double divisor) {
    struct sl_broadcast walk;
    struct sl_shape kept = kept_shape(&r->in[0].shape, &r->attr[AXES].ints);
    int64_t wide = sl_op_numel(&r->in[0].shape), narrow = sl_op_numel(&kept);
    sl_op_broadcast_open(&walk, &kept, &r->in[0].shape);
    for (int64_t i = 0; i < narrow; i++)
        r->out[0].f[i] = 0;
    for (int64_t i = 0; i < wide; i++) {
        r->out[0].f[walk.offset] += r->in[0].f[i];
        sl_op_broadcast_next(&walk);
    }
    for (int64_t i = 0; i < narrow; i++)
        r->out[0].f[i] /= divisor;
}

static void ref_sum(const struct sl_ref *r) { reduce(r, 1); }

static void ref_mean(const struct sl_ref *r) {
    reduce(r, (double)sl_op_numel(&r->in[0].shape) / (double)sl_op_numel(&r->out[0].shape));
}

static const struct sl_attr_desc attrs[] = {
    {"axes", SL_ATTR_INTS, "", NULL},
    {"keep", SL_ATTR_BOOL, "0", NULL},
    {0},
};

const struct sl_op sl_op_reduce_mean = {
    .name = "reduce_mean",
    .brief = "mean over some axes [all]",
    .inputs = "x",
    .outputs = "y",
    .attrs = attrs,
    .infer = infer,
    .flops = flops,
    .grad = grad_mean,
    .ref = ref_mean,
};

const struct sl_op sl_op_reduce_sum = {
    .name = "reduce_sum",
    .brief = "sum over some axes [all]",
    .inputs = "x",
    .outputs = "y",
    .attrs = attrs,
    .infer = infer,
    .flops = flops,
    .grad = grad_sum,
    .ref = ref_sum,
};
