/* The elementwise ops and their gradients. */
#ifndef SL_DEVICE_CPU_LIGHT_ELEMENTWISE_H
#define SL_DEVICE_CPU_LIGHT_ELEMENTWISE_H

#include "device/cpu/light_zip.h"

#define FN(name)                                                                                   \
    static inline vf name(__attribute__((unused)) vf a, __attribute__((unused)) vf b,              \
                          __attribute__((unused)) const float k[4])

/* ---- arithmetic with broadcasting ---- */

FN(sum_of) { return a + b; }

FN(difference_of) { return a - b; }

FN(product_of) { return a * b; }

FN(first_of) { return a; }

FN(times_k) { return a * k[0]; }

static void attr_by(const struct sl_cpu_call *call, float k[4]) {
    k[0] = (float)call->instr->attr[0].f;
}

static void repetitions(const struct sl_cpu_call *call, float k[4]) {
    k[0] = (float)numel_in(call, 0) / (float)numel_out(call, 0);
}

BROADCAST_OF(add, 1, sum_of, no_numbers)
BROADCAST_OF(sub, 1, difference_of, no_numbers)
BROADCAST_OF(mul, 1, product_of, no_numbers)
BROADCAST_OF(broadcast_to, 0, first_of, no_numbers)
BROADCAST_OF(broadcast_mean, 0, times_k, repetitions)
ZIP_OF(scale, 0, 0, times_k, attr_by)

/* ---- exp, tanh, sigmoid, relu: the gradient is a function of y ---- */

FN(exp_of) { return vexp(a); }

FN(tanh_of) { return vtanh(a); }

FN(tanh_slope) { return a * (1.0f - b * b); }

FN(sigmoid_of) { return vsigmoid(a); }

FN(sigmoid_slope) { return a * b * (1.0f - b); }

FN(relu_of) { return (vf)((vi)a & ~(a < 0.0f)); }

FN(relu_slope) { return (vf)((vi)a & (b > 0.0f)); }

MAP(exp, exp_of)
ZIP(exp_dx, product_of)
MAP(tanh, tanh_of)
ZIP(tanh_dx, tanh_slope)
MAP(sigmoid, sigmoid_of)
ZIP(sigmoid_dx, sigmoid_slope)
MAP(relu, relu_of)
ZIP(relu_dx, relu_slope)

/* ---- silu, selu, gelu: the gradient is a function of x ---- */

FN(silu_of) { return a * vsigmoid(a); }

FN(silu_slope) {
    vf s = vsigmoid(b);
    return a * s * (1.0f + b * (1.0f - s));
}

static const float selu_lambda = 1.05070098735548f, selu_alpha = 1.67326324235438f;

FN(selu_of) {
    return selu_lambda * pick(a > 0.0f, a, selu_alpha * vexpm1_negative(vmin(splat(0), a)));
}

FN(selu_slope) {
    vf slope = pick(b > 0.0f, splat(1), selu_alpha * vexp(vmin(splat(0), b)));
    return a * (selu_lambda * slope);
}

FN(gelu_tanh) { return vgelu(a); }

FN(gelu_tanh_slope) { return a * vgelu_slope(b); }

FN(gelu_erf) { return a * vnormal(a); }

/* d/dx (x P(x)) = P + x p, p = exp(-x^2 / 2) / sqrt(2 pi) */
FN(gelu_erf_slope) {
    vf density, below = vnormal_density(b, &density);
    return a * (below + b * (0.398942280401433f * density));
}

MAP(silu, silu_of)
ZIP(silu_dx, silu_slope)
MAP(selu, selu_of)
ZIP(selu_dx, selu_slope)
MAP(gelu_by_tanh, gelu_tanh)
MAP(gelu_by_erf, gelu_erf)
ZIP(gelu_dx_by_tanh, gelu_tanh_slope)
ZIP(gelu_dx_by_erf, gelu_erf_slope)

static void k_gelu(const struct sl_cpu_call *call) {
    (call->instr->attr[0].i ? k_gelu_by_erf : k_gelu_by_tanh)(call);
}

static void k_gelu_dx(const struct sl_cpu_call *call) {
    (call->instr->attr[0].i ? k_gelu_dx_by_erf : k_gelu_dx_by_tanh)(call);
}

#endif
