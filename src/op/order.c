/* Ops along one axis: argmax, argmin, cumsum, topk. Of equal values they choose the first one.
 *
 *   argmax   x [B,5,7]   axis=1          y int [B,7]; keep=1: [B,1,7]
 *   cumsum   x [B,5,7]   axis=1          y [B,5,7]; exclusive=1: without the element itself;
 *                                        reverse=1: from the end
 *   topk     x [B,5,7]   k=3 axis=-1     values [B,5,3], indices int [B,5,3], best first */
#include "op/slice.h"

#include <math.h>
#include <string.h>

enum { AXIS, KEEP };
enum { EXCLUSIVE = 1, REVERSE };
enum { K, TOP_AXIS, LARGEST };

/* Does a come before b in descending order? NaN is larger than any number. */
static bool exceeds(double a, double b) { return a > b || (isnan(a) && !isnan(b)); }

static sl_err infer_arg(struct sl_infer *c) {
    struct sl_shape *y = &c->out[0];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    *y = c->in[0];
    c->out_dtype[0] = SL_INT;
    sl_graph_shape_set(y, (int)c->attr[AXIS].i, (struct sl_dim){1, false});
    for (int i = (int)c->attr[AXIS].i; !c->attr[KEEP].i && i < y->rank; i++)
        sl_graph_shape_set(
            y, i, i + 1 < y->rank ? sl_graph_shape_dim(y, i + 1) : (struct sl_dim){0, false});
    y->rank -= !c->attr[KEEP].i;
    return SL_OK;
}

static double flops_in(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static void ref_arg(const struct sl_ref *r, double sign) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t i = 0; i < x.inner; i++) {
            const double *row = r->in[0].f + o * x.size * x.inner + i;
            int64_t best = 0;
            for (int64_t k = 1; k < x.size; k++)
                if (exceeds(sign * row[k * x.inner], sign * row[best * x.inner]))
                    best = k;
            r->out[0].i[o * x.inner + i] = (int32_t)best;
        }
}

static void ref_argmax(const struct sl_ref *r) { ref_arg(r, 1); }
static void ref_argmin(const struct sl_ref *r) { ref_arg(r, -1); }

static const struct sl_attr_desc attrs_arg[] = {
    {"axis", SL_ATTR_INT, "-1", NULL}, {"keep", SL_ATTR_BOOL, "0", NULL}, {0}};

SL_OP_ROW(argmax, "place of the maximum along an axis", "x", "y", .attrs = attrs_arg,
          .infer = infer_arg, .flops = flops_in, .ref = ref_argmax)

SL_OP_ROW(argmin, "place of the minimum along an axis", "x", "y", .attrs = attrs_arg,
          .infer = infer_arg, .flops = flops_in, .ref = ref_argmin)

/* ---- cumsum ---- */

static sl_err infer_cumsum(struct sl_infer *c) {
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    return sl_op_infer_same(c);
}

/* dx[i] is the sum of dy[j] over all j whose sum contains x[i]: a cumsum from the other end. */
static int grad_cumsum(struct sl_grad *g, int input) {
    (void)input;
    union sl_attr attr[3] = {g->attr[AXIS], g->attr[EXCLUSIVE], {.i = !g->attr[REVERSE].i}};
    return sl_graph_grad_emit(g, "cumsum", 1, &g->dout[0], attr);
}

static void ref_cumsum(const struct sl_ref *r) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t i = 0; i < x.inner; i++) {
            double sum = 0;
            for (int64_t k = 0; k < x.size; k++) {
                int64_t at = r->attr[REVERSE].i ? x.size - 1 - k : k;
                at = (o * x.size + at) * x.inner + i;
                r->out[0].f[at] = sum + (r->attr[EXCLUSIVE].i ? 0 : r->in[0].f[at]);
                sum += r->in[0].f[at];
            }
        }
}

static const struct sl_attr_desc attrs_cumsum[] = {{"axis", SL_ATTR_INT, "-1", NULL},
                                                   {"exclusive", SL_ATTR_BOOL, "0", NULL},
                                                   {"reverse", SL_ATTR_BOOL, "0", NULL},
                                                   {0}};

SL_OP_ROW(cumsum, "running sum along an axis", "x", "y", .attrs = attrs_cumsum,
          .infer = infer_cumsum, .flops = sl_op_flops_elementwise, .grad = grad_cumsum,
          .ref = ref_cumsum)

/* ---- topk: the gradient of a value goes to its index ---- */

static sl_err infer_topk(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[TOP_AXIS].i));
    int64_t *size = &c->in[0].dim[c->attr[TOP_AXIS].i];
    if (c->attr[K].i < 1 || c->attr[K].i > *size)
        return sl_graph_infer_fail(
            c, "k = %lld must be in [1, %lld] for axis %lld of %s", (long long)c->attr[K].i,
            (long long)*size, (long long)c->attr[TOP_AXIS].i, sl_graph_shape_text(&c->in[0], text));
    c->out[0] = c->in[0];
    c->out[0].dim[c->attr[TOP_AXIS].i] = c->attr[K].i;
    c->out[1] = c->out[0];
    c->out_dtype[1] = SL_INT;
    return SL_OK;
}

static double flops_topk(const struct sl_op_view *v) {
    return (double)sl_op_numel(&v->in[0]) * log2(2 + (double)v->attr[K].i);
}

static int grad_topk(struct sl_grad *g, int input) {
    union sl_attr attr[2] = {g->attr[TOP_AXIS], {.shape = *sl_graph_grad_shape(g, g->in[input])}};
    return sl_graph_grad_emit(g, "gather_dx", 2, (int[]){g->dout[0], g->out[1]}, attr);
}

static void ref_topk(const struct sl_ref *r) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[TOP_AXIS].i);
    double sign = r->attr[LARGEST].i ? 1 : -1;
    for (int64_t row = 0; row < x.outer * x.inner; row++) {
        const double *from = r->in[0].f + row / x.inner * x.size * x.inner + row % x.inner;
        int64_t last = -1;
        for (int64_t k = 0; k < r->attr[K].i; k++) {
            int64_t best = -1; /* index of the first element of those that come after `last` */
            for (int64_t i = 0; i < x.size; i++) {
                double v = sign * from[i * x.inner];
                double before = last < 0 ? 0 : sign * from[last * x.inner];
                bool later = last < 0 || exceeds(before, v) || (!exceeds(v, before) && i > last);
                if (later && (best < 0 || exceeds(v, sign * from[best * x.inner])))
                    best = i;
            }
            int64_t to = (row / x.inner * r->attr[K].i + k) * x.inner + row % x.inner;
            r->out[0].f[to] = from[best * x.inner];
            r->out[1].i[to] = (int32_t)best;
            last = best;
        }
    }
}

static const struct sl_attr_desc attrs_topk[] = {{"k", SL_ATTR_INT, NULL, NULL},
                                                 {"axis", SL_ATTR_INT, "-1", NULL},
                                                 {"largest", SL_ATTR_BOOL, "1", NULL},
                                                 {0}};

const struct sl_op sl_op_topk = {.name = "topk",
                                 .brief =
                                     "the k largest or smallest along an axis, and where they are",
                                 .inputs = "x",
                                 .outputs = "values indices",
                                 .attrs = attrs_topk,
                                 .infer = infer_topk,
                                 .flops = flops_topk,
                                 .grad = grad_topk,
                                 .ref = ref_topk};
