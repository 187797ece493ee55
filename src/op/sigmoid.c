/* sigmoid: y = 1 / (1 + exp(-x)), dx = dy y (1 - y). If exp(-x) overflows to inf, y is 0. */
#include "op/common.h"

#include <math.h>

static double forward(double x) { return 1 / (1 + exp(-x)); }

static double backward(double dy, double y) { return dy * y * (1 - y); }

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "sigmoid_dx", 2, (int[]){g->dout[0], g->out[0]}, NULL);
}

static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) { sl_op_ref_map(r, forward); }

static void ref_dx(const struct sl_ref *r) { sl_op_ref_zip(r, backward); }

SL_OP_ROW(sigmoid, "logistic function", "x", "y", .divide = SL_DIVIDE_EACH,
          .infer = sl_op_infer_same, .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(sigmoid_dx, "gradient of sigmoid", "dy y", "dx", .internal = true,
          .infer = sl_op_infer_same, .flops = flops_dx, .ref = ref_dx)
