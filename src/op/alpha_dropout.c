/* alpha_dropout: a dropped element becomes selu's lowest value -L A. An affine map restores mean 0
 * and variance 1 (Klambauer et al. 2017, section "New Dropout Technique"):
 *
 *   y = a (m x + (1 - m) (-L A)) + b,  q = 1 - p,  a = (q + (L A)^2 q p)^-1/2,  b = a p L A
 */
#include "op/dropout.h"

#include <math.h>

static const double lowest = -1.7580993408473768599402175208123; /* -lambda alpha of selu */

static double slope(double p) { return 1 / sqrt((1 - p) * (1 + p * lowest * lowest)); }

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "alpha_dropout_dx", 1, &g->dout[0], g->attr);
}

static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static void ref(const struct sl_ref *r) {
    struct sl_dropout mask = sl_dropout_open(r);
    double a = slope(mask.p), b = -a * mask.p * lowest;
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = a * (sl_dropout_keeps(&mask, i) ? r->in[0].f[i] : lowest) + b;
}

static void ref_dx(const struct sl_ref *r) {
    struct sl_dropout mask = sl_dropout_open(r);
    double a = slope(mask.p);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = sl_dropout_keeps(&mask, i) ? a * r->in[0].f[i] : 0;
}

static const struct sl_attr_desc attrs[] = {
    {"p", SL_ATTR_FLOAT, NULL, NULL},
    {"stream", SL_ATTR_INT, "-1", NULL}, /* -1: the graph assigns a stream */
    {0},
};

SL_OP_ROW(alpha_dropout, "dropout that keeps the mean and variance of selu's activations", "x", "y",
          .attrs = attrs, .infer = sl_op_infer_dropout, .flops = flops, .grad = grad, .ref = ref,
          .eval_op = "identity")

SL_OP_ROW(alpha_dropout_dx, "gradient of alpha_dropout", "dy", "dx", .attrs = attrs,
          .internal = true, .infer = sl_op_infer_dropout, .flops = flops, .ref = ref_dx)
