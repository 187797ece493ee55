/* dot_interaction: dot products of all pairs of features (DLRM, Naumov et al. 2019), as the
 * lower triangle row by row, with the diagonal if `self`.
 *
 *   x [B,F,D]   y [B,P]: x1.x0, x2.x0, x2.x1, x3.x0, ...
 *               P = F (F - 1) / 2, with self F (F + 1) / 2 */
#include "op/common.h"

static int64_t pair_count(int64_t features, int64_t self) {
    return features * (features - 1) / 2 + (self ? features : 0);
}

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    sl_graph_shape_text(&c->in[0], text);
    if (c->in[0].rank != 3 || c->in[0].batch & 6u)
        return sl_graph_infer_fail(c, "needs [B,features,size], got %s", text);
    int64_t features = c->in[0].dim[1];
    if (features > 1 << 20 || pair_count(features, c->attr[0].i) < 1)
        return sl_graph_infer_fail(c, "the features of %s have no pairs, or too many", text);
    c->out[0].rank = 2;
    sl_graph_shape_set(&c->out[0], 0, sl_graph_shape_dim(&c->in[0], 0));
    sl_graph_shape_set(&c->out[0], 1, (struct sl_dim){pair_count(features, c->attr[0].i), false});
    return SL_OK;
}

static double flops(const struct sl_op_view *v) {
    return 2.0 * (double)sl_op_numel(&v->out[0]) * (double)v->in[0].dim[2];
}

static int grad(struct sl_grad *g, int input) {
    int in[2] = {g->dout[0], g->in[input]};
    return sl_graph_grad_emit(g, "dot_interaction_dx", 2, in, g->attr);
}

static void ref(const struct sl_ref *r) {
    int64_t features = r->in[0].shape.dim[1], n = r->in[0].shape.dim[2];
    double *y = r->out[0].f;
    for (int64_t b = 0; b < r->in[0].shape.dim[0]; b++) {
        const double *x = r->in[0].f + b * features * n;
        for (int64_t i = 0; i < features; i++)
            for (int64_t j = 0; j < i + r->attr[0].i; j++) {
                double dot = 0;
                for (int64_t k = 0; k < n; k++)
                    dot += x[i * n + k] * x[j * n + k];
                *y++ = dot;
            }
    }
}

static const struct sl_attr_desc attrs[] = {{"self", SL_ATTR_BOOL, "0", NULL}, {0}};

SL_OP_ROW(dot_interaction, "dot products of all pairs of features", "x", "y", .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_dx(const struct sl_op_view *v) {
    return 4.0 * (double)sl_op_numel(&v->in[0]) * (double)v->in[1].dim[2];
}

static void ref_dx(const struct sl_ref *r) {
    int64_t features = r->in[1].shape.dim[1], n = r->in[1].shape.dim[2];
    const double *dy = r->in[0].f;
    for (int64_t b = 0; b < r->in[1].shape.dim[0]; b++) {
        const double *x = r->in[1].f + b * features * n;
        double *dx = r->out[0].f + b * features * n;
        for (int64_t i = 0; i < features * n; i++)
            dx[i] = 0;
        for (int64_t i = 0; i < features; i++)
            for (int64_t j = 0; j < i + r->attr[0].i; j++, dy++)
                for (int64_t k = 0; k < n; k++) {
                    dx[i * n + k] += *dy * x[j * n + k];
                    dx[j * n + k] += *dy * x[i * n + k];
                }
    }
}

SL_OP_ROW(dot_interaction_dx, "gradient of dot_interaction", "dy x", "dx", .attrs = attrs,
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)
