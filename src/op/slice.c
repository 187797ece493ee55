/* slice: takes items [from, to) of one axis; negative positions count from its end, and `to`
 * defaults to the end. slice_dx pads a gradient with zeros.
 *
 *   x [B,7,5]   axis=1 from=2 to=-1   y [B,4,5] */
#include "op/slice.h"

enum { AXIS, FROM, TO };

static const int64_t whole = INT64_MAX;

sl_err sl_op_need_plain_axis(const struct sl_infer *infer, int input, int64_t *axis) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_axis(infer, infer->in[input].rank, axis));
    if (sl_graph_shape_dim(&infer->in[input], (int)*axis).batch)
        return sl_graph_infer_fail(infer, "axis %lld of %s holds the micro-batch", (long long)*axis,
                                   sl_graph_shape_text(&infer->in[input], text));
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    int64_t from = c->attr[FROM].i, to = c->attr[TO].i;
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    int axis = (int)c->attr[AXIS].i;
    int64_t size = c->in[0].dim[axis];
    int64_t first = from < 0 ? from + size : from;
    int64_t last = to == whole ? size : to < 0 ? to + size : to;
    if (first < 0 || last > size || first >= last)
        return sl_graph_infer_fail(c, "[%lld, %lld) is not a range of axis %d of %s",
                                   (long long)first, (long long)last, axis,
                                   sl_graph_shape_text(&c->in[0], text));
    c->attr[FROM].i = first;
    c->attr[TO].i = last;
    c->out[0] = c->in[0];
    c->out[0].dim[axis] = last - first;
    c->out_dtype[0] = c->in_dtype[0];
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[3] = {g->attr[AXIS], g->attr[FROM]};
    attr[2].shape = *sl_graph_grad_shape(g, g->in[input]);
    return sl_graph_grad_emit(g, "slice_dx", 1, &g->dout[0], attr);
}

static void ref(const struct sl_ref *r) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    int64_t run = (r->attr[TO].i - r->attr[FROM].i) * x.inner;
    for (int64_t o = 0; o < x.outer; o++)
        for (int64_t k = 0; k < run; k++)
            sl_op_array_copy(&r->out[0], o * run + k, &r->in[0],
                             (o * x.size + r->attr[FROM].i) * x.inner + k);
}

static const struct sl_attr_desc attrs[] = {
    {"axis", SL_ATTR_INT, NULL, NULL},
    {"from", SL_ATTR_INT, "0", NULL},
    {"to", SL_ATTR_INT, "9223372036854775807", NULL},
    {0},
};

SL_OP_ROW(slice, "items [from, to) of one axis", "x", "y", .attrs = attrs, .infer = infer,
          .flops = sl_op_flops_none, .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->attr[2].shape;
    return SL_OK;
}

static void ref_dx(const struct sl_ref *r) {
    struct sl_around dx = sl_around(&r->out[0].shape, r->attr[AXIS].i);
    struct sl_around dy = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    int64_t count = sl_op_numel(&r->out[0].shape), run = dy.size * dy.inner;
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = 0;
    for (int64_t o = 0; o < dy.outer; o++)
        for (int64_t k = 0; k < run; k++)
            r->out[0].f[(o * dx.size + r->attr[FROM].i) * dx.inner + k] = r->in[0].f[o * run + k];
}

static const struct sl_attr_desc attrs_dx[] = {
    {"axis", SL_ATTR_INT, NULL, NULL},
    {"from", SL_ATTR_INT, NULL, NULL},
    {"shape", SL_ATTR_SHAPE, NULL, NULL},
    {0},
};

SL_OP_ROW(slice_dx, "gradient of slice: padded with zeros to a shape", "dy", "dx",
          .attrs = attrs_dx, .internal = true, .infer = infer_dx, .flops = sl_op_flops_none,
          .ref = ref_dx)
