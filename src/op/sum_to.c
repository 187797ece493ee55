/* sum_to: sums over the axes along which a tensor of shape `shape` would be broadcast to the shape
 * of x. */
#include "op/common.h"

static sl_err infer(struct sl_infer *c) {
    struct sl_shape wide;
    char from[SL_SHAPE_TEXT], to[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    if (sl_graph_shape_broadcast(&c->in[0], &c->attr[0].shape, &wide) != SL_OK ||
        !sl_graph_shape_equal(&wide, &c->in[0]))
        return sl_graph_infer_fail(c, "%s is not a broadcast of %s",
                                   sl_graph_shape_text(&c->in[0], from),
                                   sl_graph_shape_text(&c->attr[0].shape, to));
    c->out[0] = c->attr[0].shape;
    return SL_OK;
}

static double flops(const struct sl_op_view *view) { return (double)sl_op_numel(&view->in[0]); }

/* The gradient of a sum is a broadcast: 0 * x + dy. */
static int grad(struct sl_grad *g, int input) {
    (void)input;
    union sl_attr attr[1] = {{.shape = *sl_graph_grad_shape(g, g->in[0])}};
    return sl_graph_grad_emit(g, "broadcast_to", 1, &g->dout[0], attr);
}

static void ref(const struct sl_ref *r) {
    struct sl_broadcast walk;
    int64_t wide = sl_op_numel(&r->in[0].shape), narrow = sl_op_numel(&r->out[0].shape);
    sl_op_broadcast_open(&walk, &r->out[0].shape, &r->in[0].shape);
    for (int64_t i = 0; i < narrow; i++)
        r->out[0].f[i] = 0;
    for (int64_t i = 0; i < wide; i++) {
        r->out[0].f[walk.offset] += r->in[0].f[i];
        sl_op_broadcast_next(&walk);
    }
}

static const struct sl_attr_desc attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(sum_to, "sum over broadcast axes down to a shape", "x", "y", .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)
