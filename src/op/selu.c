/* selu: y = L x for x > 0, L A (exp(x) - 1) otherwise: activations keep mean 0 and variance 1
 * (Klambauer et al. 2017, eq. 2 and 14). expm1 is accurate near 0.
 */
#include "op/common.h"

#include <math.h>

static const double lambda = 1.0507009873554804934193349852946;
static const double alpha = 1.6732632423543772848170429916717;

static double forward(double x) { return lambda * (x > 0 ? x : alpha * expm1(x)); }

static double backward(double dy, double x) { return dy * lambda * (x > 0 ? 1 : alpha * exp(x)); }

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "selu_dx", 2, (int[]){g->dout[0], g->in[0]}, NULL);
}

static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) { sl_op_ref_map(r, forward); }

static void ref_dx(const struct sl_ref *r) { sl_op_ref_zip(r, backward); }

SL_OP_ROW(selu, "self-normalising exponential linear unit", "x", "y", .divide = SL_DIVIDE_EACH,
          .infer = sl_op_infer_same, .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(selu_dx, "gradient of selu", "dy x", "dx", .internal = true, .infer = sl_op_infer_same,
          .flops = flops_dx, .ref = ref_dx)
