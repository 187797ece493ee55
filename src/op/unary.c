/* Functions of one tensor, element by element. Each row gives y and dy/dx.
 *
 *   NAME      x      y = f(x)
 *   NAME_dx   dy x   dx = dy f'(x)
 *
 * At a kink, f' is as in PyTorch: 0 for abs at 0, 1 on the bounds of clamp. */
#include "op/common.h"

#include <math.h>

typedef double unary_fn(double x, const union sl_attr *k);

static void map(const struct sl_ref *r, unary_fn *f) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = f(r->in[0].f[i], r->attr);
}

static void map_dx(const struct sl_ref *r, unary_fn *slope) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = r->in[0].f[i] * slope(r->in[1].f[i], r->attr);
}

static const double two_over_root_pi = 1.12837916709551257390;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static double mish_slope(double x) {
    double t = tanh(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
}

/* Defines an op. k: its attributes. cost: flops per element of y; dx takes two more. */
#define UNARY(name_, brief_, cost, attrs_, y_, slope_)                                             \
    static double y_of_##name_(double x, __attribute__((unused)) const union sl_attr *k) {         \
        return y_;                                                                                 \
    }                                                                                              \
    static double slope_of_##name_(__attribute__((unused)) double x,                               \
                                   __attribute__((unused)) const union sl_attr *k) {               \
        return slope_;                                                                             \
    }                                                                                              \
    static void ref_##name_(const struct sl_ref *r) { map(r, y_of_##name_); }                      \
    static void ref_dx_##name_(const struct sl_ref *r) { map_dx(r, slope_of_##name_); }            \
    static double flops_##name_(const struct sl_op_view *v) {                                      \
        return (cost) * (double)sl_op_numel(&v->out[0]);                                           \
    }                                                                                              \
    static double flops_dx_##name_(const struct sl_op_view *v) {                                   \
        return ((cost) + 2) * (double)sl_op_numel(&v->out[0]);                                     \
    }                                                                                              \
    static int grad_##name_(struct sl_grad *g, int input) {                                        \
        int in[2] = {g->dout[0], g->in[input]};                                                    \
        return sl_graph_grad_emit(g, #name_ "_dx", 2, in, g->attr);                                \
    }                                                                                              \
    const struct sl_op sl_op_##name_ = {                                                           \
        .name = #name_,                                                                            \
        .brief = (brief_),                                                                         \
        .inputs = "x",                                                                             \
        .outputs = "y",                                                                            \
        .attrs = (attrs_),                                                                         \
        .divide = SL_DIVIDE_EACH,                                                                  \
        .infer = sl_op_infer_same,                                                                 \
        .flops = flops_##name_,                                                                    \
        .grad = grad_##name_,                                                                      \
        .ref = ref_##name_,                                                                        \
    };                                                                                             \
    const struct sl_op sl_op_##name_##_dx = {                                                      \
        .name = #name_ "_dx",                                                                      \
        .brief = "gradient of " #name_,                                                            \
        .inputs = "dy x",                                                                          \
        .outputs = "dx",                                                                           \
        .attrs = (attrs_),                                                                         \
        .internal = true,                                                                          \
        .infer = sl_op_infer_same,                                                                 \
        .flops = flops_dx_##name_,                                                                 \
        .ref = ref_dx_##name_,                                                                     \
    };

static const struct sl_attr_desc by[] = {{"by", SL_ATTR_FLOAT, NULL, NULL}, {0}};
static const struct sl_attr_desc alpha_1[] = {{"alpha", SL_ATTR_FLOAT, "1", NULL}, {0}};
static const struct sl_attr_desc slope_001[] = {{"slope", SL_ATTR_FLOAT, "0.01", NULL}, {0}};
static const struct sl_attr_desc range[] = {
    {"min", SL_ATTR_FLOAT, "-3.4028234663852886e38", NULL},
    {"max", SL_ATTR_FLOAT, "3.4028234663852886e38", NULL},
    {0},
};

UNARY(abs, "absolute value", 1, NULL, fabs(x), x > 0 ? 1 : x < 0 ? -1 : 0)
UNARY(clamp, "x limited to [min, max]", 2, range, fmin(fmax(x, k[0].f), k[1].f),
      x >= k[0].f && x <= k[1].f ? 1 : 0)
UNARY(cos, "cosine", 10, NULL, cos(x), -sin(x))
UNARY(elu, "x, or alpha (exp(x) - 1) below 0", 8, alpha_1, x > 0 ? x : k[0].f * expm1(x),
      x > 0 ? 1 : k[0].f * exp(x))
UNARY(erf, "error function", 20, NULL, erf(x), two_over_root_pi *exp(-x *x))
UNARY(hardswish, "x times (x + 3) / 6 limited to [0, 1]", 5, NULL, x *fmin(fmax(x / 6 + 0.5, 0), 1),
      x <= -3  ? 0
      : x >= 3 ? 1
               : x / 3 + 0.5)
UNARY(leaky_relu, "x, or slope x below 0", 2, slope_001, x > 0 ? x : k[0].f * x, x > 0 ? 1 : k[0].f)
UNARY(log, "natural logarithm", 10, NULL, log(x), 1 / x)
UNARY(log1p, "log(1 + x), exact for small x", 10, NULL, log1p(x), 1 / (1 + x))
UNARY(mish, "x tanh(softplus(x))", 20, NULL, x *tanh(softplus(x)), mish_slope(x))
UNARY(neg, "-x", 1, NULL, -x, -1)
UNARY(offset, "x + by", 1, by, x + k[0].f, 1)
UNARY(power, "x to the power of a number", 20, by, pow(x, k[0].f), k[0].f *pow(x, k[0].f - 1))
UNARY(rsqrt, "1 / sqrt(x)", 4, NULL, 1 / sqrt(x), -0.5 / (x * sqrt(x)))
UNARY(sin, "sine", 10, NULL, sin(x), cos(x))
UNARY(softplus, "log(1 + exp(x))", 15, NULL, softplus(x), sigmoid(x))
UNARY(sqrt, "square root", 4, NULL, sqrt(x), 0.5 / sqrt(x))
