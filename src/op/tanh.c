/* tanh: dx = dy (1 - y^2). */
#include "op/common.h"

#include <math.h>

static double backward(double dy, double y) { return dy * (1 - y * y); }

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "tanh_dx", 2, (int[]){g->dout[0], g->out[0]}, NULL);
}

static double flops(const struct sl_op_view *v) { return 1.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) { sl_op_ref_map(r, tanh); }

static void ref_dx(const struct sl_ref *r) { sl_op_ref_zip(r, backward); }

SL_OP_ROW(tanh, "hyperbolic tangent", "x", "y", .divide = SL_DIVIDE_EACH, .infer = sl_op_infer_same,
          .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(tanh_dx, "gradient of tanh", "dy y", "dx", .internal = true, .infer = sl_op_infer_same,
          .flops = flops_dx, .ref = ref_dx)
