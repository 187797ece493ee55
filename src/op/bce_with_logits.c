/* bce_with_logits: mean binary cross entropy of logits x and targets t in [0, 1]; positives have
 * weight w.
 *
 *   x, t [...]   loss []     element   (1 - t) x + u softplus(-x),  u = 1 + (w - 1) t
 *                            dx        ((1 - t) - u / (1 + exp(x))) dloss / elements
 *                            dt        (-x + (w - 1) softplus(-x)) dloss / elements
 *
 * softplus(-x) = log1p(exp(-|x|)) + max(-x, 0): no overflow, no cancellation.
 */
#include "op/common.h"

#include <math.h>

static sl_err infer(struct sl_infer *c) {
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    if (!sl_graph_shape_equal(&c->in[0], &c->in[1]))
        return sl_graph_infer_fail(c, "shapes differ: logits %s and targets %s",
                                   sl_graph_shape_text(&c->in[0], left),
                                   sl_graph_shape_text(&c->in[1], right));
    c->out[0] = (struct sl_shape){0};
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 10.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int in[3] = {g->dout[0], g->in[0], g->in[1]};
    if (input == 0)
        return sl_graph_grad_emit(g, "bce_with_logits_dx", 3, in, g->attr);
    return sl_graph_grad_emit(g, "bce_with_logits_dt", 2, in, g->attr);
}

static double softplus_of_minus(double x) { return log1p(exp(-fabs(x))) + (x < 0 ? -x : 0); }

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape);
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = r->in[0].f[i], t = r->in[1].f[i], u = 1 + (r->attr[0].f - 1) * t;
        total += (1 - t) * x + u * softplus_of_minus(x);
    }
    r->out[0].f[0] = total / (double)count;
}

static const struct sl_attr_desc attrs[] = {{"pos_weight", SL_ATTR_FLOAT, "1", NULL}, {0}};

SL_OP_ROW(bce_with_logits, "mean binary cross entropy of logits", "logits targets", "loss",
          .attrs = attrs, .infer = infer, .flops = flops, .grad = grad, .ref = ref, .is_loss = true,
          .count_input = -1, .count_attr = -1)

static sl_err infer_like_logits(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_grad(const struct sl_op_view *v) {
    return 8.0 * (double)sl_op_numel(&v->in[1]);
}

static void ref_dx(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    double each = r->in[0].f[0] / (double)count;
    for (int64_t i = 0; i < count; i++) {
        double x = r->in[1].f[i], t = r->in[2].f[i], u = 1 + (r->attr[0].f - 1) * t;
        r->out[0].f[i] = each * ((1 - t) - u / (1 + exp(x)));
    }
}

static void ref_dt(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    double each = r->in[0].f[0] / (double)count;
    for (int64_t i = 0; i < count; i++) {
        double x = r->in[1].f[i];
        r->out[0].f[i] = each * ((r->attr[0].f - 1) * softplus_of_minus(x) - x);
    }
}

SL_OP_ROW(bce_with_logits_dt, "gradient of bce_with_logits with respect to the targets",
          "dloss logits", "dt", .attrs = attrs, .internal = true, .infer = infer_like_logits,
          .flops = flops_grad, .ref = ref_dt)

SL_OP_ROW(bce_with_logits_dx, "gradient of bce_with_logits with respect to the logits",
          "dloss logits targets", "dx", .attrs = attrs, .internal = true,
          .infer = infer_like_logits, .flops = flops_grad, .ref = ref_dx)
