/* layernorm: over the last axis, y = (x - mean) * rstd * w + b.
 *
 *   x [..., n]   w [n]   b [n]   y [..., n]   mean, rstd [...]   (rows are all leading sizes)
 */
#include "op/common.h"

#include <math.h>

static sl_err need_vector(const struct sl_infer *c, int i, struct sl_dim n) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, i));
    if (c->present[i] &&
        (c->in[i].rank != 1 || !sl_graph_dim_equal(sl_graph_shape_dim(&c->in[i], 0), n)))
        return sl_graph_infer_fail(c, "input %d must be [%lld], it is %s", i, (long long)n.n,
                                   sl_graph_shape_text(&c->in[i], text));
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    if (c->in[0].rank < 2)
        return sl_graph_infer_fail(c, "needs rank 2 or more, got %s",
                                   sl_graph_shape_text(&c->in[0], text));
    if (!(c->attr[0].f > 0))
        return sl_graph_infer_fail(c, "eps = %g must be positive", c->attr[0].f);
    struct sl_dim n = sl_graph_shape_dim(&c->in[0], -1);
    SL_TRY(need_vector(c, 1, n));
    SL_TRY(need_vector(c, 2, n));
    c->out[0] = c->in[0];
    c->out[1] = c->out[2] = sl_op_shape_without_last(&c->in[0]);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 8.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int mean = g->out[1], rstd = g->out[2], dy = g->dout[0];
    if (dy < 0)
        return -1; /* no gradient: mean and rstd exist only for the backward pass */
    if (input == 0)
        return sl_graph_grad_emit(g, "layernorm_dx", 5, (int[]){dy, g->in[0], g->in[1], mean, rstd},
                                  NULL);
    if (input == 1)
        return sl_graph_grad_emit(g, "layernorm_dw", 4, (int[]){dy, g->in[0], mean, rstd}, NULL);
    return sl_op_grad_sum_to(g, dy, g->in[2]);
}

static void ref(const struct sl_ref *r) {
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1],
            rows = sl_op_numel(&r->in[0].shape) / n;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = r->in[0].f + i * n;
        double mean = 0, var = 0;
        for (int64_t j = 0; j < n; j++)
            mean += x[j] / (double)n;
        for (int64_t j = 0; j < n; j++)
            var += (x[j] - mean) * (x[j] - mean) / (double)n;
        double rstd = 1 / sqrt(var + r->attr[0].f);
        for (int64_t j = 0; j < n; j++)
            r->out[0].f[i * n + j] =
                (x[j] - mean) * rstd * r->in[1].f[j] + (r->in[2].f ? r->in[2].f[j] : 0);
        r->out[1].f[i] = mean;
        r->out[2].f[i] = rstd;
    }
}

static const struct sl_attr_desc attrs[] = {{"eps", SL_ATTR_FLOAT, "1e-5", NULL}, {0}};

SL_OP_ROW(layernorm, "normalise over the last axis, scale and shift", "x w b?", "y mean rstd",
          .attrs = attrs, .exact_out = 6, .infer = infer, .flops = flops, .grad = grad, .ref = ref)

/* dx = rstd * (g - mean_j(g) - xhat * mean_j(g * xhat)), g = dy * w */
static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static void ref_dx(const struct sl_ref *r) {
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1],
            rows = sl_op_numel(&r->in[0].shape) / n;
    for (int64_t i = 0; i < rows; i++) {
        const double *dy = r->in[0].f + i * n, *x = r->in[1].f + i * n, *w = r->in[2].f;
        double mean = r->in[3].f[i], rstd = r->in[4].f[i], sum = 0, dot = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += dy[j] * w[j];
            dot += dy[j] * w[j] * (x[j] - mean) * rstd;
        }
        for (int64_t j = 0; j < n; j++)
            r->out[0].f[i * n + j] =
                rstd * (dy[j] * w[j] - sum / (double)n - (x[j] - mean) * rstd * dot / (double)n);
    }
}

SL_OP_ROW(layernorm_dx, "gradient of layernorm with respect to x", "dy x w mean rstd", "dx",
          .internal = true, .infer = infer_dx, .flops = flops, .ref = ref_dx)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = (struct sl_shape){.rank = 1};
    sl_graph_shape_set(&c->out[0], 0, sl_graph_shape_dim(&c->in[1], -1));
    return SL_OK;
}

static void ref_dw(const struct sl_ref *r) {
    int64_t n = r->out[0].shape.dim[0], rows = sl_op_numel(&r->in[0].shape) / n;
    for (int64_t j = 0; j < n; j++)
        r->out[0].f[j] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            r->out[0].f[j] +=
                r->in[0].f[i * n + j] * (r->in[1].f[i * n + j] - r->in[2].f[i]) * r->in[3].f[i];
}

SL_OP_ROW(layernorm_dw, "gradient of layernorm with respect to w", "dy x mean rstd", "dw",
          .internal = true, .infer = infer_dw, .flops = flops, .ref = ref_dw)
