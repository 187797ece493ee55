/* reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_var: reduce the given axes (default
 * all), which are kept with size 1 or dropped.
 *
 *   x [B,5,7]   axes=[0,2]           y [5]
 *               axes=[0,2] keep=1    y [1,5,1]
 *
 * The axis with B may be reduced; the result is then over the micro-batch. */
#include "op/common.h"

#include <math.h>

enum { AXES, KEEP, CORRECTION };

/* Sorts the axes and makes them non-negative; uses all axes if none is given. */
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

/* Returns the shape with size 1 for reduced axes. */
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
    /* a copy, because emitting may move it */
    struct sl_shape x = *sl_graph_grad_shape(g, g->in[0]);
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

/* Visits x once: calls f(r, element of x, element of the result, acc). */
typedef void fold_fn(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc);

static void fold(const struct sl_ref *r, const struct sl_array *x, fold_fn *f, double *acc) {
    struct sl_broadcast walk;
    struct sl_shape kept = kept_shape(&x->shape, &r->attr[AXES].ints);
    int64_t wide = sl_op_numel(&x->shape);
    sl_op_broadcast_open(&walk, &kept, &x->shape);
    for (int64_t i = 0; i < wide; i++) {
        f(r, i, walk.offset, acc);
        sl_op_broadcast_next(&walk);
    }
}

SL_OP_ROW(reduce_mean, "mean over some axes [all]", "x", "y", .attrs = attrs, .infer = infer,
          .flops = flops, .grad = grad_mean, .ref = ref_mean)

SL_OP_ROW(reduce_sum, "sum over some axes [all]", "x", "y", .attrs = attrs, .infer = infer,
          .flops = flops, .grad = grad_sum, .ref = ref_sum)

/* ---- max, min: equal values share the gradient, as in torch.amax ---- */

static void larger(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    double x = r->in[0].f[wide];
    acc[narrow] = x > acc[narrow] || isnan(x) ? x : acc[narrow];
}

static void smaller(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    double x = r->in[0].f[wide];
    acc[narrow] = x < acc[narrow] || isnan(x) ? x : acc[narrow];
}

static void ref_extreme(const struct sl_ref *r, double start, fold_fn *f) {
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++)
        r->out[0].f[i] = start;
    fold(r, &r->in[0], f, r->out[0].f);
}

static void ref_max(const struct sl_ref *r) { ref_extreme(r, -INFINITY, larger); }
static void ref_min(const struct sl_ref *r) { ref_extreme(r, INFINITY, smaller); }

static int grad_extreme(struct sl_grad *g, int input) {
    int in[3] = {g->dout[0], g->in[input], g->out[0]};
    return sl_graph_grad_emit(g, "reduce_max_dx", 3, in, g->attr);
}

#define REDUCTION(name_, brief_, attrs_, infer_, grad_, ref_)                                      \
    const struct sl_op sl_op_##name_ = {                                                           \
        .name = #name_,                                                                            \
        .brief = (brief_),                                                                         \
        .inputs = "x",                                                                             \
        .outputs = "y",                                                                            \
        .attrs = (attrs_),                                                                         \
        .infer = (infer_),                                                                         \
        .flops = flops,                                                                            \
        .grad = (grad_),                                                                           \
        .ref = (ref_),                                                                             \
    };

REDUCTION(reduce_max, "maximum over some axes [all]", attrs, infer, grad_extreme, ref_max)
REDUCTION(reduce_min, "minimum over some axes [all]", attrs, infer, grad_extreme, ref_min)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_dx(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->in[1]); }

/* Inputs: dy, x, y. */
static void count_ties(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    acc[narrow] += r->in[1].f[wide] == r->in[2].f[narrow];
}

static void spread_ties(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    bool tie = r->in[1].f[wide] == r->in[2].f[narrow];
    r->out[0].f[wide] = tie ? r->in[0].f[narrow] / acc[narrow] : 0;
}

static void fold_twice(const struct sl_ref *r, fold_fn *first, fold_fn *second) {
    struct sl_arena arena = {0};
    double *acc = SL_NEW(&arena, double, sl_op_numel(&r->in[0].shape));
    fold(r, &r->in[1], first, acc);
    fold(r, &r->in[1], second, acc);
    sl_arena_free(&arena);
}

static void ref_max_dx(const struct sl_ref *r) { fold_twice(r, count_ties, spread_ties); }

SL_OP_ROW(reduce_max_dx, "gradient of reduce_max and reduce_min", "dy x y", "dx", .attrs = attrs,
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_max_dx)

/* ---- var: sum of (x - mean)^2 over (n - correction) ---- */

static const struct sl_attr_desc attrs_var[] = {
    {"axes", SL_ATTR_INTS, "", NULL},
    {"keep", SL_ATTR_BOOL, "0", NULL},
    {"correction", SL_ATTR_INT, "0", NULL},
    {0},
};

static sl_err infer_var(struct sl_infer *c) {
    int64_t terms = 1;
    char text[SL_SHAPE_TEXT];
    SL_TRY(infer(c));
    for (int i = 0; i < c->attr[AXES].ints.count; i++)
        terms *= c->in[0].dim[c->attr[AXES].ints.at[i]];
    if (c->attr[CORRECTION].i < 0 || c->attr[CORRECTION].i >= terms)
        return sl_graph_infer_fail(c, "correction = %lld must be in [0, %lld), the terms of %s",
                                   (long long)c->attr[CORRECTION].i, (long long)terms,
                                   sl_graph_shape_text(&c->in[0], text));
    return SL_OK;
}

static int grad_var(struct sl_grad *g, int input) {
    return sl_graph_grad_emit(g, "reduce_var_dx", 2, (int[]){g->dout[0], g->in[input]}, g->attr);
}

static double terms_of(const struct sl_array *x, const struct sl_array *y) {
    return (double)sl_op_numel(&x->shape) / (double)sl_op_numel(&y->shape);
}

static void add_x(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    acc[narrow] += r->in[0].f[wide];
}

static void add_square(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    double terms = terms_of(&r->in[0], &r->out[0]), off = r->in[0].f[wide] - acc[narrow] / terms;
    r->out[0].f[narrow] += off * off / (terms - (double)r->attr[CORRECTION].i);
}

static void ref_var(const struct sl_ref *r) {
    struct sl_arena arena = {0};
    int64_t count = sl_op_numel(&r->out[0].shape);
    double *sums = SL_NEW(&arena, double, count);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = 0;
    fold(r, &r->in[0], add_x, sums);
    fold(r, &r->in[0], add_square, sums);
    sl_arena_free(&arena);
}

REDUCTION(reduce_var, "variance over some axes [all]", attrs_var, infer_var, grad_var, ref_var)

/* Inputs: dy, x. */
static void add_other(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    acc[narrow] += r->in[1].f[wide];
}

static void spread_off(const struct sl_ref *r, int64_t wide, int64_t narrow, double *acc) {
    double terms = terms_of(&r->in[1], &r->in[0]);
    r->out[0].f[wide] = 2 * r->in[0].f[narrow] * (r->in[1].f[wide] - acc[narrow] / terms) /
                        (terms - (double)r->attr[CORRECTION].i);
}

static void ref_var_dx(const struct sl_ref *r) { fold_twice(r, add_other, spread_off); }

SL_OP_ROW(reduce_var_dx, "gradient of reduce_var", "dy x", "dx", .attrs = attrs_var,
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_var_dx)
