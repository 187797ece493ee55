/* mse: mean over all elements of (x - target)^2.
 *
 *   x, target [...]   loss []        dx = 2 (x - target) dloss / elements, dtarget = -dx
 */
#include "op/common.h"

static sl_err infer(struct sl_infer *c) {
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    if (!sl_graph_shape_equal(&c->in[0], &c->in[1]))
        return sl_graph_infer_fail(c, "shapes differ: %s and %s",
                                   sl_graph_shape_text(&c->in[0], left),
                                   sl_graph_shape_text(&c->in[1], right));
    c->out[0] = (struct sl_shape){0};
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    return sl_graph_grad_emit(g, "mse_dx", 3, (int[]){g->dout[0], g->in[input], g->in[1 - input]},
                              NULL);
}

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape);
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = r->in[0].f[i] - r->in[1].f[i];
        total += off * off;
    }
    r->out[0].f[0] = total / (double)count;
}

SL_OP_ROW(mse, "mean squared error", "x target", "loss", .infer = infer, .flops = flops,
          .grad = grad, .ref = ref, .is_loss = true, .count_input = -1, .count_attr = -1)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_dx(const struct sl_op_view *v) { return 2.0 * (double)sl_op_numel(&v->in[1]); }

static void ref_dx(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    double factor = 2 * r->in[0].f[0] / (double)count;
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = factor * (r->in[1].f[i] - r->in[2].f[i]);
}

SL_OP_ROW(mse_dx, "gradient of mse with respect to its first input", "dloss x target", "dx",
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)
