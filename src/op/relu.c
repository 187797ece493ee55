/* relu: y = max(x, 0). The gradient at 0 is 0. */
#include "op/common.h"

static double forward(double x) { return x < 0 ? 0 : x; } /* a NaN stays NaN */

static double backward(double dy, double y) { return y > 0 ? dy : 0; }

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "relu_dx", 2, (int[]){g->dout[0], g->out[0]}, NULL);
}

static double flops(const struct sl_op_view *v) { return 1.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) { return 1.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) { sl_op_ref_map(r, forward); }

static void ref_dx(const struct sl_ref *r) { sl_op_ref_zip(r, backward); }

SL_OP_ROW(relu, "max(x, 0)", "x", "y", .divide = SL_DIVIDE_EACH, .infer = sl_op_infer_same,
          .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(relu_dx, "gradient of relu", "dy y", "dx", .internal = true, .infer = sl_op_infer_same,
          .flops = flops_dx, .ref = ref_dx)
