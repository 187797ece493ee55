/* broadcast_to: repeats a tensor along the axes that numpy's broadcasting adds; its gradient is
 * sum_to. broadcast_mean also divides by the number of repetitions: it is the gradient of a
 * mean. */
#include "op/common.h"

static sl_err infer(struct sl_infer *c) {
    struct sl_shape wide;
    char from[SL_SHAPE_TEXT], to[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_graph_shape_check(&c->attr[0].shape));
    if (sl_graph_shape_broadcast(&c->in[0], &c->attr[0].shape, &wide) != SL_OK ||
        !sl_graph_shape_equal(&wide, &c->attr[0].shape))
        return sl_graph_infer_fail(c, "%s does not broadcast to %s",
                                   sl_graph_shape_text(&c->in[0], from),
                                   sl_graph_shape_text(&c->attr[0].shape, to));
    c->out[0] = c->attr[0].shape;
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    return sl_op_grad_sum_to(g, g->dout[0], g->in[input]);
}

static void repeat(const struct sl_ref *r, double divisor) {
    struct sl_broadcast walk;
    int64_t wide = sl_op_numel(&r->out[0].shape);
    sl_op_broadcast_open(&walk, &r->in[0].shape, &r->out[0].shape);
    for (int64_t i = 0; i < wide; i++) {
        r->out[0].f[i] = r->in[0].f[walk.offset] / divisor;
        sl_op_broadcast_next(&walk);
    }
}

static void ref(const struct sl_ref *r) { repeat(r, 1); }

static void ref_mean(const struct sl_ref *r) {
    repeat(r, (double)sl_op_numel(&r->out[0].shape) / (double)sl_op_numel(&r->in[0].shape));
}

static const struct sl_attr_desc attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(broadcast_to, "repeat along new axes and axes of size 1 up to a shape", "x", "y",
          .attrs = attrs, .infer = infer, .flops = sl_op_flops_none, .grad = grad, .ref = ref)

SL_OP_ROW(broadcast_mean, "broadcast_to divided by the number of repetitions", "x", "y",
          .attrs = attrs, .internal = true, .infer = infer, .flops = sl_op_flops_elementwise,
          .ref = ref_mean)
