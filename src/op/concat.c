/* concat: joins tensors along one axis; the gradient of each is a slice.
 *
 *   [B,3,5] [B,1,5] [B,7,5]   axis=1   y [B,11,5] */
#include "op/slice.h"

static sl_err check_other(const struct sl_infer *c, int i, int axis) {
    char first[SL_SHAPE_TEXT], other[SL_SHAPE_TEXT];
    struct sl_shape want = c->in[0];
    if (c->in_dtype[i] != c->in_dtype[0])
        return sl_graph_infer_fail(c, "inputs 0 and %d are of different types", i);
    if (axis < c->in[i].rank)
        sl_graph_shape_set(&want, axis, sl_graph_shape_dim(&c->in[i], axis));
    if (want.batch != c->in[0].batch || !sl_graph_shape_equal(&want, &c->in[i]))
        return sl_graph_infer_fail(c, "%s and %s differ in more than axis %d",
                                   sl_graph_shape_text(&c->in[0], first),
                                   sl_graph_shape_text(&c->in[i], other), axis);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[0].i));
    int axis = (int)c->attr[0].i;
    c->out[0] = c->in[0];
    c->out_dtype[0] = c->in_dtype[0];
    for (int i = 1; i < c->in_count; i++) {
        SL_TRY(check_other(c, i, axis));
        c->out[0].dim[axis] += c->in[i].dim[axis];
    }
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    int axis = (int)g->attr[0].i;
    int64_t from = 0;
    for (int i = 0; i < input; i++)
        from += sl_graph_grad_shape(g, g->in[i])->dim[axis];
    int64_t to = from + sl_graph_grad_shape(g, g->in[input])->dim[axis];
    union sl_attr attr[3] = {{.i = axis}, {.i = from}, {.i = to}};
    return sl_graph_grad_emit(g, "slice", 1, &g->dout[0], attr);
}

static void ref(const struct sl_ref *r) {
    struct sl_around y = sl_around(&r->out[0].shape, r->attr[0].i);
    int64_t from = 0;
    for (int i = 0; i < r->in_count; i++) {
        struct sl_around x = sl_around(&r->in[i].shape, r->attr[0].i);
        int64_t run = x.size * x.inner;
        for (int64_t o = 0; o < x.outer; o++)
            for (int64_t k = 0; k < run; k++)
                sl_op_array_copy(&r->out[0], (o * y.size + from) * y.inner + k, &r->in[i],
                                 o * run + k);
        from += x.size;
    }
}

static const struct sl_attr_desc attrs[] = {{"axis", SL_ATTR_INT, "-1", NULL}, {0}};

SL_OP_ROW(concat, "join tensors along one axis", "xs*", "y", .attrs = attrs, .join = SL_JOIN_CONCAT,
          .infer = infer, .flops = sl_op_flops_none, .grad = grad, .ref = ref)
