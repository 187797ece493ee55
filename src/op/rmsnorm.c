/* rmsnorm: over the last axis, y = x rstd w with rstd = 1 / sqrt(mean(x^2) + eps)
 * (Zhang and Sennrich 2019). Without w, each row is scaled to length sqrt(n).
 *
 *   x [..., n]   w [n]   y [..., n]   rstd [...]
 */
#include "op/common.h"

#include <math.h>

static sl_err infer(struct sl_infer *c) {
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    sl_graph_shape_text(&c->in[0], left);
    if (c->in[0].rank < 1)
        return sl_graph_infer_fail(c, "needs rank 1 or more, got a scalar");
    if (c->present[1] &&
        (c->in[1].rank != 1 ||
         !sl_graph_dim_equal(sl_graph_shape_dim(&c->in[0], -1), sl_graph_shape_dim(&c->in[1], 0))))
        return sl_graph_infer_fail(c, "w %s does not match the last size of %s",
                                   sl_graph_shape_text(&c->in[1], right), left);
    if (!(c->attr[0].f > 0))
        return sl_graph_infer_fail(c, "eps = %g must be positive", c->attr[0].f);
    c->out[0] = c->in[0];
    c->out[1] = sl_op_shape_without_last(&c->in[0]);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int dy = g->dout[0], x = g->in[0], rstd = g->out[1];
    if (dy < 0)
        return -1; /* no gradient: rstd exists only for the backward pass */
    if (input == 0)
        return sl_graph_grad_emit(g, "rmsnorm_dx", 4,
                                  (int[]){dy, x, rstd, sl_graph_grad_input(g, 1)}, NULL);
    return sl_graph_grad_emit(g, "rmsnorm_dw", 3, (int[]){dy, x, rstd}, NULL);
}

static void ref(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = r->in[0].f + i * rows.n;
        double square = 0;
        for (int64_t j = 0; j < rows.n; j++)
            square += x[j] * x[j];
        double rstd = 1 / sqrt(square / (double)rows.n + r->attr[0].f);
        for (int64_t j = 0; j < rows.n; j++)
            r->out[0].f[i * rows.n + j] = x[j] * rstd * (r->in[1].f ? r->in[1].f[j] : 1);
        r->out[1].f[i] = rstd;
    }
}

static const struct sl_attr_desc attrs[] = {{"eps", SL_ATTR_FLOAT, "1e-5", NULL}, {0}};

SL_OP_ROW(rmsnorm, "divide by the root mean square of the last axis, scale", "x w?", "y rstd",
          .attrs = attrs, .exact_out = 2, .infer = infer, .flops = flops, .grad = grad, .ref = ref)

/* dx = rstd (g - xhat mean_j(g xhat)), g = dy w, xhat = x rstd */
static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_dx(const struct sl_op_view *v) { return 8.0 * (double)sl_op_numel(&v->in[0]); }

static void ref_dx(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *dy = r->in[0].f + i * rows.n, *x = r->in[1].f + i * rows.n, *w = r->in[3].f;
        double *dx = r->out[0].f + i * rows.n;
        double rstd = r->in[2].f[i], dot = 0;
        for (int64_t j = 0; j < rows.n; j++) {
            dx[j] = dy[j] * (w ? w[j] : 1);
            dot += dx[j] * x[j] * rstd;
        }
        for (int64_t j = 0; j < rows.n; j++)
            dx[j] = rstd * (dx[j] - x[j] * rstd * dot / (double)rows.n);
    }
}

SL_OP_ROW(rmsnorm_dx, "gradient of rmsnorm with respect to x", "dy x rstd w?", "dx",
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = (struct sl_shape){.rank = 1};
    sl_graph_shape_set(&c->out[0], 0, sl_graph_shape_dim(&c->in[1], -1));
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->in[0]); }

static void ref_dw(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t j = 0; j < rows.n; j++)
        r->out[0].f[j] = 0;
    for (int64_t i = 0; i < rows.count; i++)
        for (int64_t j = 0; j < rows.n; j++)
            r->out[0].f[j] +=
                r->in[0].f[i * rows.n + j] * r->in[1].f[i * rows.n + j] * r->in[2].f[i];
}

SL_OP_ROW(rmsnorm_dw, "gradient of rmsnorm with respect to w", "dy x rstd", "dw", .internal = true,
          .infer = infer_dw, .flops = flops_dw, .ref = ref_dw)
