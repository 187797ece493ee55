/* Ops that select elements by index. An index is in [0, size) of its axis, or negative: then it
 * counts from the end.
 *
 *   gather        x [4,5] indices [4,2] axis=1   y[i,j] = x[i, indices[i,j]]        (torch.gather)
 *   index_select  x [4,5] indices [2,3] axis=1   y[i,j,k] = x[i, indices[j,k]]      (numpy.take)
 *   scatter_add   x, indices, src as in gather   y = x, then y[i, indices[i,j]] += src[i,j]
 *   one_hot       indices [4] size=5             y [4,5]: 1 at the index, else 0
 *
 * The axes of gather and scatter_add other than `axis` are those of x. Sums run in the order of
 * the indices, so results are deterministic. An index out of range stops the program, as in
 * embed; one_hot has a row of zeros for it. */
#include "op/slice.h"

#include <string.h>

enum { AXIS, SHAPE };

/* Turns an index into a place in [0, size). */
static int64_t place(int32_t index, int64_t size) {
    int64_t at = index < 0 ? index + size : index;
    SL_ASSERT(at >= 0 && at < size);
    return at;
}

/* Checks that x and indices have equal sizes except along attr[AXIS]. */
static sl_err need_alike(struct sl_infer *c, const struct sl_shape *x) {
    char text[SL_SHAPE_TEXT], other[SL_SHAPE_TEXT];
    struct sl_shape like = c->in[1];
    SL_TRY(sl_op_need_int(c, 1));
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    if (like.rank == x->rank)
        sl_graph_shape_set(&like, (int)c->attr[AXIS].i,
                           sl_graph_shape_dim(x, (int)c->attr[AXIS].i));
    if (!sl_graph_shape_equal(&like, x))
        return sl_graph_infer_fail(c, "indices %s and x %s may differ in axis %lld only",
                                   sl_graph_shape_text(&c->in[1], other),
                                   sl_graph_shape_text(x, text), (long long)c->attr[AXIS].i);
    return SL_OK;
}

static const struct sl_attr_desc attrs[] = {{"axis", SL_ATTR_INT, "0", NULL}, {0}};
static const struct sl_attr_desc attrs_dx[] = {
    {"axis", SL_ATTR_INT, NULL, NULL}, {"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

static sl_err infer_stated(struct sl_infer *c) {
    c->out[0] = c->attr[SHAPE].shape;
    return SL_OK;
}

static double flops_in(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

/* Bytes moved: counts only the elements that are read, not the whole of x. */
static double bytes_out(const struct sl_op_view *v) {
    return 4.0 * (double)sl_op_numel(&v->in[1]) + 8.0 * (double)sl_op_numel(&v->out[0]);
}

#define ROW(name_, brief_, inputs_, attrs_, infer_, flops_, ref_, ...)                             \
    const struct sl_op sl_op_##name_ = {.name = #name_,                                            \
                                        .brief = brief_,                                           \
                                        .inputs = inputs_,                                         \
                                        .outputs = "y",                                            \
                                        .attrs = attrs_,                                           \
                                        .infer = infer_,                                           \
                                        .flops = flops_,                                           \
                                        .ref = ref_,                                               \
                                        __VA_ARGS__};

/* ---- gather ---- */

static sl_err infer_gather(struct sl_infer *c) {
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(need_alike(c, &c->in[0]));
    c->out[0] = c->in[1];
    return SL_OK;
}

static int grad_gather(struct sl_grad *g, int input) {
    union sl_attr attr[2] = {g->attr[AXIS], {.shape = *sl_graph_grad_shape(g, g->in[0])}};
    if (input != 0)
        return -1;
    return sl_graph_grad_emit(g, "gather_dx", 2, (int[]){g->dout[0], g->in[1]}, attr);
}

/* Returns the place in `x` of element i of `thin`. */
static int64_t gather_place(const struct sl_around *x, const struct sl_around *thin,
                            const int32_t *index, int64_t i) {
    int64_t outer = i / (thin->size * thin->inner), inner = i % thin->inner;
    return (outer * x->size + place(index[i], x->size)) * x->inner + inner;
}

static void ref_gather(const struct sl_ref *r) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    struct sl_around thin = sl_around(&r->in[1].shape, r->attr[AXIS].i);
    for (int64_t i = 0; i < sl_op_numel(&r->in[1].shape); i++)
        r->out[0].f[i] = r->in[0].f[gather_place(&x, &thin, r->in[1].i, i)];
}

/* Adds src to y at the indices. */
static void add_at(const struct sl_ref *r, const double *src, const struct sl_array *indices) {
    struct sl_around x = sl_around(&r->out[0].shape, r->attr[AXIS].i);
    struct sl_around thin = sl_around(&indices->shape, r->attr[AXIS].i);
    for (int64_t i = 0; i < sl_op_numel(&indices->shape); i++)
        r->out[0].f[gather_place(&x, &thin, indices->i, i)] += src[i];
}

static void ref_gather_dx(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    add_at(r, r->in[0].f, &r->in[1]);
}

ROW(gather, "elements along an axis by index", "x indices", attrs, infer_gather, sl_op_flops_none,
    ref_gather, .bytes = bytes_out, .grad = grad_gather)
ROW(gather_dx, "gradient of gather and topk", "dy indices", attrs_dx, infer_stated, flops_in,
    ref_gather_dx, .internal = true)

/* ---- scatter_add ---- */

static sl_err infer_scatter(struct sl_infer *c) {
    char indices[SL_SHAPE_TEXT], src[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 2));
    SL_TRY(need_alike(c, &c->in[0]));
    if (!sl_graph_shape_equal(&c->in[1], &c->in[2]))
        return sl_graph_infer_fail(c, "indices %s and src %s differ",
                                   sl_graph_shape_text(&c->in[1], indices),
                                   sl_graph_shape_text(&c->in[2], src));
    c->out[0] = c->in[0];
    return SL_OK;
}

static int grad_scatter(struct sl_grad *g, int input) {
    if (input == 0)
        return g->dout[0];
    return input == 1 ? -1
                      : sl_graph_grad_emit(g, "gather", 2, (int[]){g->dout[0], g->in[1]}, g->attr);
}

static void ref_scatter(const struct sl_ref *r) {
    memcpy(r->out[0].f, r->in[0].f, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    add_at(r, r->in[2].f, &r->in[1]);
}

ROW(scatter_add, "x with src added at indices along an axis", "x indices src", attrs, infer_scatter,
    flops_in, ref_scatter, .grad = grad_scatter)

/* ---- index_select ---- */

static sl_err infer_select(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], indices[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    int axis = (int)c->attr[AXIS].i, more = c->in[1].rank - 1;
    if (c->in[0].rank + more > SL_MAX_RANK || (c->in[0].batch && c->in[1].batch))
        return sl_graph_infer_fail(c, "x %s with indices %s: the result would have %s",
                                   sl_graph_shape_text(&c->in[0], x),
                                   sl_graph_shape_text(&c->in[1], indices),
                                   c->in[0].batch && c->in[1].batch ? "B twice" : "too many sizes");
    struct sl_shape y = {.rank = c->in[0].rank + more};
    for (int i = 0; i < y.rank; i++)
        sl_graph_shape_set(&y, i,
                           i < axis           ? sl_graph_shape_dim(&c->in[0], i)
                           : i <= axis + more ? sl_graph_shape_dim(&c->in[1], i - axis)
                                              : sl_graph_shape_dim(&c->in[0], i - more));
    c->out[0] = y;
    return SL_OK;
}

static int grad_select(struct sl_grad *g, int input) {
    union sl_attr attr[2] = {g->attr[AXIS], {.shape = *sl_graph_grad_shape(g, g->in[0])}};
    if (input != 0)
        return -1;
    return sl_graph_grad_emit(g, "index_select_dx", 2, (int[]){g->dout[0], g->in[1]}, attr);
}

/* wide is x or dx; thin is y or dy, with shape [outer, indices, inner]. */
static void visit_select(const struct sl_ref *r, const struct sl_array *wide, double *wide_at,
                         double *thin, bool into_wide) {
    struct sl_around x = sl_around(&wide->shape, r->attr[AXIS].i);
    int64_t count = sl_op_numel(&r->in[1].shape);
    for (int64_t i = 0; i < x.outer * count * x.inner; i++) {
        int64_t row = place(r->in[1].i[i / x.inner % count], x.size);
        int64_t at = (i / x.inner / count * x.size + row) * x.inner + i % x.inner;
        if (into_wide)
            wide_at[at] += thin[i];
        else
            thin[i] = wide_at[at];
    }
}

static void ref_select(const struct sl_ref *r) {
    visit_select(r, &r->in[0], r->in[0].f, r->out[0].f, false);
}

static void ref_select_dx(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    visit_select(r, &r->out[0], r->out[0].f, r->in[0].f, true);
}

ROW(index_select, "slices of x along an axis by index", "x indices", attrs, infer_select,
    sl_op_flops_none, ref_select, .bytes = bytes_out, .grad = grad_select)
ROW(index_select_dx, "gradient of index_select", "dy indices", attrs_dx, infer_stated, flops_in,
    ref_select_dx, .internal = true)

/* ---- one_hot ---- */

static sl_err infer_one_hot(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_int(c, 0));
    if (c->in[0].rank == SL_MAX_RANK || c->attr[0].i < 1)
        return sl_graph_infer_fail(c, "cannot add an axis of size %lld to %s",
                                   (long long)c->attr[0].i, sl_graph_shape_text(&c->in[0], text));
    c->out[0] = c->in[0];
    sl_graph_shape_set(&c->out[0], c->out[0].rank++, (struct sl_dim){c->attr[0].i, false});
    return SL_OK;
}

static void ref_one_hot(const struct sl_ref *r) {
    int64_t size = r->attr[0].i;
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++) {
        int64_t index = r->in[0].i[i / size];
        r->out[0].f[i] = (index < 0 ? index + size : index) == i % size;
    }
}

static const struct sl_attr_desc attrs_one_hot[] = {{"size", SL_ATTR_INT, NULL, NULL}, {0}};

ROW(one_hot, "1 at the index and 0 elsewhere, along a new last axis", "indices", attrs_one_hot,
    infer_one_hot, sl_op_flops_none, ref_one_hot, .layer = SL_LAYER_NONE)
