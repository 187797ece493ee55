/* gelu: y = x P(X <= x) for a standard normal X (Hendrycks and Gimpel 2016), exact (erf) or with
 * the tanh approximation of GPT-2.
 *
 *   erf    y = x/2 (1 + erf(x / sqrt 2))
 *   tanh   y = x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
 */
#include "op/common.h"

#include <math.h>

static const double root_half = 0.70710678118654752440;      /* sqrt(1 / 2) */
static const double root_2_over_pi = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double cubic = 0.044715;

enum { TANH, ERF };

static double forward_tanh(double x) {
    return 0.5 * x * (1 + tanh(root_2_over_pi * (x + cubic * x * x * x)));
}

static double backward_tanh(double dy, double x) {
    double t = tanh(root_2_over_pi * (x + cubic * x * x * x));
    double slope = root_2_over_pi * (1 + 3 * cubic * x * x);
    return dy * 0.5 * (1 + t + x * (1 - t * t) * slope);
}

static double forward_erf(double x) { return 0.5 * x * erfc(-x * root_half); }

static double backward_erf(double dy, double x) {
    double density = 0.5 * root_2_over_pi * exp(-0.5 * x * x);
    return dy * (0.5 * erfc(-x * root_half) + x * density);
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "gelu_dx", 2, (int[]){g->dout[0], g->in[0]}, g->attr);
}

static double flops(const struct sl_op_view *v) { return 10.0 * (double)sl_op_numel(&v->out[0]); }

static double flops_dx(const struct sl_op_view *v) {
    return 15.0 * (double)sl_op_numel(&v->out[0]);
}

static void ref(const struct sl_ref *r) {
    sl_op_ref_map(r, r->attr[0].i == ERF ? forward_erf : forward_tanh);
}

static void ref_dx(const struct sl_ref *r) {
    sl_op_ref_zip(r, r->attr[0].i == ERF ? backward_erf : backward_tanh);
}

static const struct sl_attr_desc attrs[] = {{"approx", SL_ATTR_ENUM, "tanh", "tanh|erf"}, {0}};

SL_OP_ROW(gelu, "Gaussian error linear unit", "x", "y", .divide = SL_DIVIDE_EACH, .attrs = attrs,
          .infer = sl_op_infer_same, .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(gelu_dx, "gradient of gelu", "dy x", "dx", .attrs = attrs, .internal = true,
          .infer = sl_op_infer_same, .flops = flops_dx, .ref = ref_dx)
