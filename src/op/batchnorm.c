/* batchnorm: normalise each channel over the micro-batch, scale and shift; keep running statistics.
 *
 *   x [B,C,...]   w, b [C]   running mean, running var [C] (states)
 *   y [B,C,...]   mean, rstd [C] of this micro-batch     new_mean, new_var [C]
 *
 *   new = (1 - momentum) old + momentum * (statistic of this micro-batch)
 *
 * y uses the biased variance, new_var the unbiased one (n / (n - 1)), as in PyTorch. PyTorch
 * refuses a channel with a single element (B = 1, no pixels). A model does not know its micro-batch
 * size, so this case is defined here: variance 0, y = b, dx = 0, running variance unchanged.
 */
#include "op/window.h"

#include <math.h>

enum { EPS, MOMENTUM };
enum { X, W, B, RUNNING_MEAN, RUNNING_VAR };

static sl_err check(const struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, X));
    if (c->in[X].rank < 2 || (c->in[X].batch & ~1u))
        return sl_graph_infer_fail(c, "x must be [B,C] or [B,C,H,W], it is %s",
                                   sl_graph_shape_text(&c->in[X], text));
    for (int i = W; i <= RUNNING_VAR; i++)
        SL_TRY(sl_op_need_channels(c, i, &c->in[X]));
    if (!(c->attr[EPS].f > 0) || !(c->attr[MOMENTUM].f >= 0 && c->attr[MOMENTUM].f <= 1))
        return sl_graph_infer_fail(c, "'eps' must be positive and 'momentum' in [0,1]");
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    SL_TRY(check(c));
    c->out[0] = c->in[X];
    for (int i = 1; i < 5; i++)
        c->out[i] = SL_SHAPE(1, 0, c->in[X].dim[1]);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 7.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int dy = g->dout[0], mean = g->out[1], rstd = g->out[2];
    if (!sl_op_grad_flows(g, 1))
        return -1;
    if (input == X)
        return sl_graph_grad_emit(g, "batchnorm_dx", 5, (int[]){dy, g->in[X], g->in[W], mean, rstd},
                                  NULL);
    if (input == W)
        return sl_graph_grad_emit(g, "batchnorm_dw", 4, (int[]){dy, g->in[X], mean, rstd}, NULL);
    return input == B ? sl_op_grad_sum_channels(g, dy, g->in[B]) : -1;
}

/* Each channel has n elements; element i of channel c is at channel_at(&z, c, i). */
struct sizes {
    int64_t channels, inner, n;
};

static struct sizes sizes_of(const struct sl_shape *x) {
    struct sizes z = {.channels = x->dim[1], .inner = 1};
    for (int i = 2; i < x->rank; i++)
        z.inner *= x->dim[i];
    z.n = x->dim[0] * z.inner;
    return z;
}

static int64_t channel_at(const struct sizes *z, int64_t c, int64_t i) {
    return (i / z->inner * z->channels + c) * z->inner + i % z->inner;
}

static void moments(const struct sizes *z, const double *x, int64_t c, double *mean, double *var) {
    *mean = *var = 0;
    for (int64_t i = 0; i < z->n; i++)
        *mean += x[channel_at(z, c, i)];
    *mean /= (double)z->n;
    for (int64_t i = 0; i < z->n; i++) {
        double centred = x[channel_at(z, c, i)] - *mean;
        *var += centred * centred;
    }
    *var /= (double)z->n;
}

static void ref(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[X].shape);
    double momentum = r->attr[MOMENTUM].f;
    for (int64_t c = 0; c < z.channels; c++) {
        double mean, var;
        moments(&z, r->in[X].f, c, &mean, &var);
        double rstd = 1 / sqrt(var + r->attr[EPS].f);
        for (int64_t i = 0; i < z.n; i++) {
            int64_t at = channel_at(&z, c, i);
            r->out[0].f[at] = (r->in[X].f[at] - mean) * rstd * r->in[W].f[c] + r->in[B].f[c];
        }
        double old_mean = r->in[RUNNING_MEAN].f[c], old_var = r->in[RUNNING_VAR].f[c];
        double unbiased = z.n > 1 ? var * (double)z.n / (double)(z.n - 1) : old_var;
        r->out[1].f[c] = mean;
        r->out[2].f[c] = rstd;
        r->out[3].f[c] = (1 - momentum) * old_mean + momentum * mean;
        r->out[4].f[c] = (1 - momentum) * old_var + momentum * unbiased;
    }
}

static const struct sl_attr_desc attrs[] = {
    {"eps", SL_ATTR_FLOAT, "1e-5", NULL},
    {"momentum", SL_ATTR_FLOAT, "0.1", NULL},
    {0},
};

SL_OP_ROW(batchnorm, "normalise each channel over the micro-batch, with running statistics",
          "x w b mean var", "y mean rstd new_mean new_var", .attrs = attrs, .exact_out = 30,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref, .eval_op = "batchnorm_eval",
          .update_count = 2, .updates = {{3, RUNNING_MEAN}, {4, RUNNING_VAR}})

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

/* Computes the sums over a channel of dy and of dy * xhat. */
static void channel_sums(const struct sizes *z, const struct sl_array *in, int64_t c,
                         const double stat[2], double sum[2]) {
    sum[0] = sum[1] = 0;
    for (int64_t i = 0; i < z->n; i++) {
        int64_t at = channel_at(z, c, i);
        sum[0] += in[0].f[at];
        sum[1] += in[0].f[at] * (in[1].f[at] - stat[0]) * stat[1];
    }
}

/* dx = w rstd (dy - mean(dy) - xhat mean(dy xhat)) */
static void ref_dx(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[1].shape);
    double n = (double)z.n;
    for (int64_t c = 0; c < z.channels; c++) {
        double stat[2] = {r->in[3].f[c], r->in[4].f[c]}, sum[2];
        channel_sums(&z, r->in, c, stat, sum);
        for (int64_t i = 0; i < z.n; i++) {
            int64_t at = channel_at(&z, c, i);
            double xhat = (r->in[1].f[at] - stat[0]) * stat[1];
            r->out[0].f[at] =
                r->in[2].f[c] * stat[1] * (r->in[0].f[at] - sum[0] / n - xhat * sum[1] / n);
        }
    }
}

SL_OP_ROW(batchnorm_dx, "gradient of batchnorm with respect to x", "dy x w mean rstd", "dx",
          .internal = true, .infer = infer_dx, .flops = flops, .ref = ref_dx)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = c->in[2];
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->in[0]); }

static void ref_dw(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[1].shape);
    for (int64_t c = 0; c < z.channels; c++) {
        double sum[2];
        channel_sums(&z, r->in, c, (double[]){r->in[2].f[c], r->in[3].f[c]}, sum);
        r->out[0].f[c] = sum[1];
    }
}

SL_OP_ROW(batchnorm_dw, "gradient of batchnorm with respect to w", "dy x mean rstd", "dw",
          .internal = true, .infer = infer_dw, .flops = flops_dw, .ref = ref_dw)
