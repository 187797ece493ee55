/* Losses that are means of a term per element or per row.
 *
 *   l1          |x - t|
 *   huber       d^2 / 2 for d = |x - t| up to delta, then delta (d - delta / 2)
 *   kl          t (log t - x), x are logarithms; batchmean=1: the sum over the first size
 *   focal       of a logit x and a target t in [0, 1]: alpha_t (1 - p_t)^gamma times the cross entropy
 *               (Lin et al. 2017); alpha < 0: no alpha_t
 *   nll         -x[target], x [...,classes] are logarithms of probabilities
 *   contrastive of a distance x and t in {0, 1}: t x^2 + (1 - t) max(margin - x, 0)^2
 *               (Hadsell et al. 2006)
 *
 * NAME_dx is dloss times the derivative of the mean; targets have a gradient in l1 and huber only.
 */
#include "op/common.h"

#include <math.h>

static sl_err infer_pair(struct sl_infer *c) {
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

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static double flops_in(const struct sl_op_view *v) { return 10.0 * (double)sl_op_numel(&v->in[0]); }
static double flops_dx(const struct sl_op_view *v) { return 10.0 * (double)sl_op_numel(&v->in[1]); }

typedef double term_fn(double x, double t, const union sl_attr *k);

/* Returns the divisor of the sum: the number of elements, or the first size for kl with
 * batchmean. */
static double terms_of(const struct sl_array *x, bool rows) {
    double count = (double)sl_op_numel(&x->shape);
    return rows && x->shape.rank ? (double)x->shape.dim[0] : count;
}

static void ref_mean(const struct sl_ref *r, term_fn *f, bool rows) {
    double sum = 0;
    for (int64_t i = 0; i < sl_op_numel(&r->in[0].shape); i++)
        sum += f(r->in[0].f[i], r->in[1].f[i], r->attr);
    r->out[0].f[0] = sum / terms_of(&r->in[0], rows);
}

static void ref_slope(const struct sl_ref *r, term_fn *f, bool rows) {
    double each = r->in[0].f[0] / terms_of(&r->in[1], rows);
    for (int64_t i = 0; i < sl_op_numel(&r->in[1].shape); i++)
        r->out[0].f[i] = each * f(r->in[1].f[i], r->in[2].f[i], r->attr);
}

static double sign(double d) { return (d > 0) - (d < 0); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static double huber_of(double d, double delta) {
    return fabs(d) <= delta ? d * d / 2 : delta * (fabs(d) - delta / 2);
}

/* The cross entropy of the logit z of the target, times (1 - p)^gamma; and its derivative with
 * respect to z. */
static double focal_of(double z, double gamma) {
    return pow(1 / (1 + exp(z)), gamma) * softplus(-z);
}
static double focal_slope(double z, double gamma) {
    double p = 1 / (1 + exp(-z)), q = 1 / (1 + exp(z));
    return -pow(q, gamma) * (gamma * p * softplus(-z) + q);
}
static double focal(double x, double t, const union sl_attr *k) {
    double a = k[0].f < 0 ? 1 : k[0].f, b = k[0].f < 0 ? 1 : 1 - k[0].f;
    return t * a * focal_of(x, k[1].f) + (1 - t) * b * focal_of(-x, k[1].f);
}
static double focal_dx(double x, double t, const union sl_attr *k) {
    double a = k[0].f < 0 ? 1 : k[0].f, b = k[0].f < 0 ? 1 : 1 - k[0].f;
    return t * a * focal_slope(x, k[1].f) - (1 - t) * b * focal_slope(-x, k[1].f);
}

/* Defines a loss. both: the target has a gradient too, that of x with x and t exchanged. */
#define LOSS(name_, brief_, attrs_, rows, both, term, slope)                                       \
    static double term_##name_(double x, double t,                                                 \
                               __attribute__((unused)) const union sl_attr *k) {                   \
        return term;                                                                               \
    }                                                                                              \
    static double slope_##name_(__attribute__((unused)) double x,                                  \
                                __attribute__((unused)) double t,                                  \
                                __attribute__((unused)) const union sl_attr *k) {                  \
        return slope;                                                                              \
    }                                                                                              \
    static void ref_##name_(const struct sl_ref *r) { ref_mean(r, term_##name_, rows); }           \
    static void ref_dx_##name_(const struct sl_ref *r) { ref_slope(r, slope_##name_, rows); }      \
    static int grad_##name_(struct sl_grad *g, int input) {                                        \
        int in[3] = {g->dout[0], g->in[input], g->in[1 - input]};                                  \
        return input && !(both) ? -1 : sl_graph_grad_emit(g, #name_ "_dx", 3, in, g->attr);        \
    }                                                                                              \
    SL_OP_ROW(name_, brief_, "x target", "loss", .attrs = (attrs_), .infer = infer_pair,           \
              .flops = flops_in, .grad = grad_##name_, .ref = ref_##name_, .is_loss = true,        \
              .count_input = -1, .count_attr = -1)                                                 \
    SL_OP_ROW(name_##_dx, "gradient of " #name_, "dloss x target", "dx", .attrs = (attrs_),        \
              .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_dx_##name_)

static const struct sl_attr_desc delta[] = {{"delta", SL_ATTR_FLOAT, "1", NULL}, {0}};
static const struct sl_attr_desc margin[] = {{"margin", SL_ATTR_FLOAT, "1", NULL}, {0}};
static const struct sl_attr_desc batchmean[] = {{"batchmean", SL_ATTR_BOOL, "0", NULL}, {0}};
static const struct sl_attr_desc weights[] = {
    {"alpha", SL_ATTR_FLOAT, "0.25", NULL}, {"gamma", SL_ATTR_FLOAT, "2", NULL}, {0}};

LOSS(contrastive, "contrastive loss of distances", margin, false, false,
     t *x *x + (1 - t) * pow(fmax(k[0].f - x, 0), 2), 2 * t * x - 2 * (1 - t) * fmax(k[0].f - x, 0))
LOSS(focal, "sigmoid focal loss", weights, false, false, focal(x, t, k), focal_dx(x, t, k))
LOSS(huber, "Huber loss", delta, false, true, huber_of(x - t, k[0].f),
     fmin(fmax(x - t, -k[0].f), k[0].f))
LOSS(kl, "Kullback-Leibler divergence from logarithms", batchmean, r->attr[0].i != 0, false,
     t > 0 ? t * (log(t) - x) : 0, -t)
LOSS(l1, "mean absolute error", NULL, false, true, fabs(x - t), sign(x - t))

/* ---- nll: rows with the target `ignore` do not count ---- */

static sl_err infer_nll(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], target[SL_SHAPE_TEXT];
    struct sl_shape rows = {0};
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    if (c->in[0].rank > 0)
        rows = sl_op_shape_without_last(&c->in[0]);
    if (c->in[0].rank < 1 || !sl_graph_shape_equal(&rows, &c->in[1]))
        return sl_graph_infer_fail(
            c, "x must be [...,classes] and target [...], they are %s and %s",
            sl_graph_shape_text(&c->in[0], x), sl_graph_shape_text(&c->in[1], target));
    c->out[0] = (struct sl_shape){0};
    return SL_OK;
}

static int grad_nll(struct sl_grad *g, int input) {
    union sl_attr attr[2] = {g->attr[0], {.shape = *sl_graph_grad_shape(g, g->in[0])}};
    return input ? -1 : sl_graph_grad_emit(g, "nll_dx", 2, (int[]){g->dout[0], g->in[1]}, attr);
}

static int64_t valid_targets(const struct sl_array *target, int64_t ignore) {
    int64_t valid = 0;
    for (int64_t i = 0; i < sl_op_numel(&target->shape); i++)
        valid += target->i[i] != ignore;
    return valid;
}

static void ref_nll(const struct sl_ref *r) {
    int64_t n = r->in[0].shape.dim[r->in[0].shape.rank - 1];
    int64_t valid = valid_targets(&r->in[1], r->attr[0].i);
    r->out[0].f[0] = 0;
    for (int64_t i = 0; i < sl_op_numel(&r->in[1].shape); i++)
        if (r->in[1].i[i] != r->attr[0].i)
            r->out[0].f[0] -= r->in[0].f[i * n + r->in[1].i[i]] / (double)valid;
}

/* Inputs: dloss, target. */
static void ref_nll_dx(const struct sl_ref *r) {
    int64_t n = r->out[0].shape.dim[r->out[0].shape.rank - 1];
    int64_t valid = valid_targets(&r->in[1], r->attr[0].i);
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++) {
        bool named = r->in[1].i[i / n] == i % n && i % n != r->attr[0].i;
        r->out[0].f[i] = named ? -r->in[0].f[0] / (double)valid : 0;
    }
}

static sl_err infer_nll_dx(struct sl_infer *c) {
    c->out[0] = c->attr[1].shape;
    return SL_OK;
}

static const struct sl_attr_desc ignore[] = {{"ignore", SL_ATTR_INT, "-100", NULL}, {0}};
static const struct sl_attr_desc ignore_shape[] = {
    {"ignore", SL_ATTR_INT, NULL, NULL}, {"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(nll, "negative log likelihood of classes", "x target", "loss", .attrs = ignore,
          .infer = infer_nll, .flops = sl_op_flops_none, .grad = grad_nll, .ref = ref_nll,
          .is_loss = true, .count_input = 1, .count_attr = 0)
SL_OP_ROW(nll_dx, "gradient of nll", "dloss target", "dx", .attrs = ignore_shape, .internal = true,
          .infer = infer_nll_dx, .flops = sl_op_flops_none, .ref = ref_nll_dx)
