/* sub: y = a - b with broadcasting. */
#include "op/common.h"

static int grad(struct sl_grad *g, int input) {
    int dy = sl_op_grad_sum_to(g, g->dout[0], g->in[input]);
    union sl_attr attr[1] = {{.f = -1}};
    return input == 0 ? dy : sl_graph_grad_emit(g, "scale", 1, &dy, attr);
}

static double difference(double a, double b) { return a - b; }

static void ref(const struct sl_ref *r) { sl_op_ref_zip_broadcast(r, difference); }

SL_OP_ROW(sub, "a - b with broadcasting", "a b", "y", .divide = SL_DIVIDE_EACH,
          .infer = sl_op_infer_broadcast, .flops = sl_op_flops_elementwise, .grad = grad,
          .ref = ref)
