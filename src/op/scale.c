/* scale: y = x * by, where `by` is a constant of the model. */
#include "op/common.h"

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "scale", 1, &g->dout[0], g->attr);
}

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = r->in[0].f[i] * r->attr[0].f;
}

static const struct sl_attr_desc attrs[] = {{"by", SL_ATTR_FLOAT, NULL, NULL}, {0}};

SL_OP_ROW(scale, "x times a constant", "x", "y", .divide = SL_DIVIDE_EACH, .attrs = attrs,
          .infer = sl_op_infer_same, .flops = sl_op_flops_elementwise, .grad = grad, .ref = ref)
