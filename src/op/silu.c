/* silu: y = x s(x) with s the logistic function; dx = dy s (1 + x (1 - s)). */
#include "op/common.h"

#include <math.h>

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static double forward(double x) { return x * logistic(x); }

static double backward(double dy, double x) {
    double s = logistic(x);
    return dy * s * (1 + x * (1 - s));
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "silu_dx", 2, (int[]){g->dout[0], g->in[0]}, NULL);
}

static double flops(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) { return 7.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) { sl_op_ref_map(r, forward); }

static void ref_dx(const struct sl_ref *r) { sl_op_ref_zip(r, backward); }

SL_OP_ROW(silu, "x times the logistic function of x", "x", "y", .divide = SL_DIVIDE_EACH,
          .infer = sl_op_infer_same, .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(silu_dx, "gradient of silu", "dy x", "dx", .internal = true, .infer = sl_op_infer_same,
          .flops = flops_dx, .ref = ref_dx)
