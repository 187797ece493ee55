/* dropout: each element is 0 with probability p, else divided by 1 - p. Its gradient is dropout of
 * dy: the op is linear and the mask is a function of the element's index (dropout.h). */
#include "op/dropout.h"

sl_err sl_op_infer_dropout(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    double p = c->attr[SL_DROPOUT_P].f;
    SL_TRY(sl_op_need_float(c, 0));
    sl_graph_shape_text(&c->in[0], text);
    if (!(p >= 0 && p < 1))
        return sl_graph_infer_fail(c, "p = %g must be in [0, 1)", p);
    if (c->in[0].rank < 1 || !sl_graph_shape_dim(&c->in[0], 0).batch)
        return sl_graph_infer_fail(c, "the first size of %s must hold the micro-batch B", text);
    c->out[0] = c->in[0];
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "dropout", 1, &g->dout[0], g->attr);
}

static double flops(const struct sl_op_view *v) { return 2.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) {
    struct sl_dropout mask = sl_dropout_open(r);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = sl_dropout_keeps(&mask, i) ? r->in[0].f[i] / (1 - mask.p) : 0;
}

static const struct sl_attr_desc attrs[] = {
    {"p", SL_ATTR_FLOAT, NULL, NULL},
    {"stream", SL_ATTR_INT, "-1", NULL}, /* -1: the graph assigns a stream */
    {0},
};

SL_OP_ROW(dropout, "zero elements with probability p, scale the others", "x", "y", .attrs = attrs,
          .infer = sl_op_infer_dropout, .flops = flops, .grad = grad, .ref = ref,
          .eval_op = "identity")
