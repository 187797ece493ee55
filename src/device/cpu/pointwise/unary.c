/* Functions of one tensor: y = f(x), dx = dy f'(x). The array k holds the op's attributes. */
#include "device/cpu/pointwise/zip.h"
#include "device/cpu/vec_log.h"

/* Reads the float attributes, in order. */
static void float_attrs(const struct sl_device_cpu_call *call, float k[4]) {
    const struct sl_attr_desc *desc = call->instr->op->attrs;
    for (int i = 0; i < 4 && desc && desc[i].name; i++)
        k[i] = (float)call->instr->attr[i].f;
}

/* Defines an op: in y(a), a is x; in slope(a, b), a is dy and b is x. */
#define UNARY(name, y, slope)                                                                      \
    static FN(y_of_##name) { return y; }                                                           \
    static FN(dx_of_##name) { return slope; }                                                      \
    ZIP_OF(name, 0, 0, y_of_##name, float_attrs)                                                   \
    ZIP_OF(name##_dx, 0, 1, dx_of_##name, float_attrs)

static INLINE vf clamp01(vf x) { return vmin(vmax(x, splat(0)), splat(1)); }

/* Returns a where the mask holds, else 0. */
static INLINE vf keep(vi mask, vf a) { return (vf)(mask & (vi)a); }

/* tanh(log(1 + e^x)) = n / (n + 2) with n = e (e + 2), e = exp(x). From x = 20 on it is 1. */
static INLINE vf mish_share(vf x) {
    vf e = vexp(vmin(x, splat(20))), n = e * (e + 2.0f);
    return n / (n + 2.0f);
}

static INLINE vf mish_slope(vf x) {
    vf t = mish_share(x);
    return t + x * (1.0f - t * t) * vsigmoid(x);
}

static const float two_over_root_pi = 1.12837917f;

UNARY(abs, vabs(a), pick(b > 0.0f, a, keep(b < 0.0f, -a)))
/* The order of the arguments keeps NaN: vmin and vmax return their second argument if either is
 * NaN. */
UNARY(clamp, vmin(splat(k[1]), vmax(splat(k[0]), a)), keep((b >= k[0]) & (b <= k[1]), a))
UNARY(cos, vcos(a), -a *vsin(b))
UNARY(elu, pick(a > 0.0f, a, k[0] * vexpm1_negative(vmin(splat(0), a))),
      pick(b > 0.0f, a, a *(k[0] * vexp(vmin(splat(0), b)))))
UNARY(erf, verf(a), a *(two_over_root_pi *vexp(-b *b)))
UNARY(hardswish, a *clamp01(a *(1.0f / 6) + 0.5f),
      pick(b >= 3.0f, a, keep(b > -3.0f, a *(b *(1.0f / 3) + 0.5f))))
UNARY(leaky_relu, pick(a > 0.0f, a, k[0] * a), pick(b > 0.0f, a, k[0] * a))
UNARY(log, vlog(a), a / b)
UNARY(log1p, vlog1p_any(a), a / (1.0f + b))
UNARY(mish, a *mish_share(a), a *mish_slope(b))
UNARY(neg, -a, -a)
UNARY(offset, a + k[0], a)
UNARY(rsqrt, 1.0f / vsqrt(a), a *(-0.5f / (b * vsqrt(b))))
UNARY(sin, vsin(a), a *vcos(b))
UNARY(softplus, vsoftplus_of_minus(-a), a *vsigmoid(b))
UNARY(sqrt, vsqrt(a), a *(0.5f / vsqrt(b)))

/* ---- power: common exponents have loops of their own ---- */

static INLINE vf power_of(vf x, float by) {
    vf y = x;
    for (int i = 0; i < LANES; i++)
        y[i] = powf(x[i], by);
    return y;
}

UNARY(power_any, power_of(a, k[0]), a *(k[0] * power_of(b, k[0] - 1)))
UNARY(power_2, a *a, a *(b + b))
UNARY(power_3, a *a *a, a *(3.0f * b * b))
UNARY(power_minus_1, 1.0f / a, -a / (b * b))

static const struct power_row {
    double by;
    void (*run)(const struct sl_device_cpu_call *call),
        (*run_dx)(const struct sl_device_cpu_call *);
} powers[] = {
    {-1, k_power_minus_1, k_power_minus_1_dx},
    {-0.5, k_rsqrt, k_rsqrt_dx},
    {0.5, k_sqrt, k_sqrt_dx},
    {2, k_power_2, k_power_2_dx},
    {3, k_power_3, k_power_3_dx},
};

static void k_power(const struct sl_device_cpu_call *call) {
    for (int i = 0; i < SL_COUNT(powers); i++)
        if (call->instr->attr[0].f == powers[i].by) {
            powers[i].run(call);
            return;
        }
    k_power_any(call);
}

static void k_power_dx(const struct sl_device_cpu_call *call) {
    for (int i = 0; i < SL_COUNT(powers); i++)
        if (call->instr->attr[0].f == powers[i].by) {
            powers[i].run_dx(call);
            return;
        }
    k_power_any_dx(call);
}

#define ROWS(name)                                                                                 \
    {#name, k_##name, NULL}, { #name "_dx", k_##name##_dx, NULL }

const struct sl_device_cpu_kernel SL_ISA_NAME(unary_kernels)[] = {
    ROWS(abs),        ROWS(clamp), ROWS(cos),   ROWS(elu),      ROWS(erf),  ROWS(hardswish),
    ROWS(leaky_relu), ROWS(log),   ROWS(log1p), ROWS(mish),     ROWS(neg),  ROWS(offset),
    ROWS(power),      ROWS(rsqrt), ROWS(sin),   ROWS(softplus), ROWS(sqrt), {0},
};
