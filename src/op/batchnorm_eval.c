/* batchnorm_eval: batchnorm with the running statistics, for evaluation and frozen statistics.
 *
 *   x [B,C,...]   w, b, mean, var [C]   y = (x - mean) / sqrt(var + eps) * w + b
 *
 * Inputs and attributes are those of batchnorm (momentum is unused), so one can replace the other.
 */
#include "op/window.h"

#include <math.h>

enum { EPS, MOMENTUM };
enum { X, W, B, MEAN, VAR };

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, X));
    if (c->in[X].rank < 2 || (c->in[X].batch & ~1u))
        return sl_graph_infer_fail(c, "x must be [B,C] or [B,C,H,W], it is %s",
                                   sl_graph_shape_text(&c->in[X], text));
    for (int i = W; i <= VAR; i++)
        SL_TRY(sl_op_need_channels(c, i, &c->in[X]));
    if (!(c->attr[EPS].f > 0))
        return sl_graph_infer_fail(c, "'eps' must be positive");
    c->out[0] = c->in[X];
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 2.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int dy = g->dout[0];
    if (input == X)
        return sl_graph_grad_emit(g, "batchnorm_eval_dx", 3, (int[]){dy, g->in[W], g->in[VAR]},
                                  g->attr);
    if (input == W)
        return sl_graph_grad_emit(g, "batchnorm_eval_dw", 4,
                                  (int[]){dy, g->in[X], g->in[MEAN], g->in[VAR]}, g->attr);
    return input == B ? sl_op_grad_sum_channels(g, dy, g->in[B]) : -1;
}

/* Returns the channel of element i. */
static int64_t channel_of(const struct sl_shape *x, int64_t i) {
    for (int axis = 2; axis < x->rank; axis++)
        i /= x->dim[axis];
    return i % x->dim[1];
}

static double rstd_of(const struct sl_ref *r, int var, int64_t c) {
    return 1 / sqrt(r->in[var].f[c] + r->attr[EPS].f);
}

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[X].shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = channel_of(&r->in[X].shape, i);
        r->out[0].f[i] =
            (r->in[X].f[i] - r->in[MEAN].f[c]) * rstd_of(r, VAR, c) * r->in[W].f[c] + r->in[B].f[c];
    }
}

static const struct sl_attr_desc attrs[] = {
    {"eps", SL_ATTR_FLOAT, "1e-5", NULL},
    {"momentum", SL_ATTR_FLOAT, "0.1", NULL},
    {0},
};

SL_OP_ROW(batchnorm_eval, "batchnorm with fixed statistics", "x w b mean var", "y", .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)

static void ref_dx(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = channel_of(&r->in[0].shape, i);
        r->out[0].f[i] = r->in[0].f[i] * r->in[1].f[c] * rstd_of(r, 2, c);
    }
}

SL_OP_ROW(batchnorm_eval_dx, "gradient of batchnorm_eval with respect to x", "dy w var", "dx",
          .attrs = attrs, .internal = true, .infer = sl_op_infer_same,
          .flops = sl_op_flops_elementwise, .ref = ref_dx)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = c->in[2];
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->in[0]); }

static void ref_dw(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[1].shape);
    for (int64_t c = 0; c < r->out[0].shape.dim[0]; c++)
        r->out[0].f[c] = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t c = channel_of(&r->in[1].shape, i);
        r->out[0].f[c] += r->in[0].f[i] * (r->in[1].f[i] - r->in[2].f[c]) * rstd_of(r, 3, c);
    }
}

SL_OP_ROW(batchnorm_eval_dw, "gradient of batchnorm_eval with respect to w", "dy x mean var", "dw",
          .attrs = attrs, .internal = true, .infer = infer_dw, .flops = flops_dw, .ref = ref_dw)
