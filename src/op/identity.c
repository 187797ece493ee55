/* identity: y = x, a view. Replaces dropout in an evaluation graph, hence its attributes. */
#include "op/common.h"

static sl_err infer(struct sl_infer *c) {
    c->out[0] = c->in[0];
    c->out_dtype[0] = c->in_dtype[0];
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return g->dout[0];
}

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        sl_op_array_copy(&r->out[0], i, &r->in[0], i);
}

static const struct sl_attr_desc attrs[] = {
    {"p", SL_ATTR_FLOAT, "0", NULL},
    {"stream", SL_ATTR_INT, "0", NULL},
    {0},
};

SL_OP_ROW(identity, "the tensor itself; dropout in an evaluation graph", "x", "y",
          .divide = SL_DIVIDE_EACH, .attrs = attrs, .is_view = true, .infer = infer,
          .flops = sl_op_flops_none, .grad = grad, .ref = ref)
