/* mul: y = a * b with broadcasting. */
#include "op/common.h"

/* da = sum_to(dy * b, a), and the same for b. */
static int grad(struct sl_grad *g, int input) {
    int other[2] = {g->dout[0], g->in[1 - input]};
    return sl_op_grad_sum_to(g, sl_graph_grad_emit(g, "mul", 2, other, NULL), g->in[input]);
}

static double product(double a, double b) { return a * b; }

static void ref(const struct sl_ref *r) { sl_op_ref_zip_broadcast(r, product); }

SL_OP_ROW(mul, "a * b with broadcasting", "a b", "y", .divide = SL_DIVIDE_EACH,
          .infer = sl_op_infer_broadcast, .flops = sl_op_flops_elementwise, .grad = grad,
          .ref = ref)
