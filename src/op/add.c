/* add: y = a + b with broadcasting. */
#include "op/common.h"

static int grad(struct sl_grad *g, int input) {
    return sl_op_grad_sum_to(g, g->dout[0], g->in[input]);
}

static void ref(const struct sl_ref *r) {
    struct sl_broadcast a, b;
    sl_op_broadcast_open(&a, &r->in[0].shape, &r->out[0].shape);
    sl_op_broadcast_open(&b, &r->in[1].shape, &r->out[0].shape);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++) {
        r->out[0].f[i] = r->in[0].f[a.offset] + r->in[1].f[b.offset];
        sl_op_broadcast_next(&a);
        sl_op_broadcast_next(&b);
    }
}

SL_OP_ROW(add, "a + b with broadcasting", "a b", "y", .divide = SL_DIVIDE_EACH, .join = SL_JOIN_ADD,
          .infer = sl_op_infer_broadcast, .flops = sl_op_flops_elementwise, .grad = grad,
          .ref = ref)
