/* Elementwise ops and their gradients. */
#include "device/cpu/pointwise/zip.h"
#include "device/cpu/vec_math.h"

/* ---- arithmetic with broadcasting ---- */

static FN(sum_of) { return a + b; }

static FN(difference_of) { return a - b; }

static FN(product_of) { return a * b; }

static FN(first_of) { return a; }

static FN(times_k) { return a * k[0]; }

static void attr_by(const struct sl_device_cpu_call *call, float k[4]) {
    k[0] = (float)call->instr->attr[0].f;
}

static void repetitions(const struct sl_device_cpu_call *call, float k[4]) {
    k[0] = (float)numel_in(call, 0) / (float)numel_out(call, 0);
}

BROADCAST_OF(add, 1, sum_of, no_numbers)
BROADCAST_OF(sub, 1, difference_of, no_numbers)
BROADCAST_OF(mul, 1, product_of, no_numbers)
BROADCAST_OF(broadcast_to, 0, first_of, no_numbers)
BROADCAST_OF(broadcast_mean, 0, times_k, repetitions)
ZIP_OF(scale, 0, 0, times_k, attr_by)

/* ---- exp, tanh, sigmoid, relu: the gradient is a function of y ---- */

static FN(exp_of) { return vexp(a); }

static FN(tanh_of) { return vtanh(a); }

static FN(tanh_slope) { return a * (1.0f - b * b); }

static FN(sigmoid_of) { return vsigmoid(a); }

static FN(sigmoid_slope) { return a * b * (1.0f - b); }

static FN(relu_of) { return (vf)((vi)a & ~(a < 0.0f)); }

static FN(relu_slope) { return (vf)((vi)a & (b > 0.0f)); }

MAP(exp, exp_of)
ZIP(exp_dx, product_of)
MAP(tanh, tanh_of)
ZIP(tanh_dx, tanh_slope)
MAP(sigmoid, sigmoid_of)
ZIP(sigmoid_dx, sigmoid_slope)
MAP(relu, relu_of)
ZIP(relu_dx, relu_slope)

/* ---- silu, selu, gelu: the gradient is a function of x ---- */

static FN(silu_of) { return a * vsigmoid(a); }

static FN(silu_slope) {
    vf s = vsigmoid(b);
    return a * s * (1.0f + b * (1.0f - s));
}

static const float selu_lambda = 1.05070098735548f, selu_alpha = 1.67326324235438f;

static FN(selu_of) {
    return selu_lambda * pick(a > 0.0f, a, selu_alpha * vexpm1_negative(vmin(splat(0), a)));
}

static FN(selu_slope) {
    vf slope = pick(b > 0.0f, splat(1), selu_alpha * vexp(vmin(splat(0), b)));
    return a * (selu_lambda * slope);
}

static FN(gelu_tanh) { return vgelu(a); }

static FN(gelu_tanh_slope) { return a * vgelu_slope(b); }

static FN(gelu_erf) { return a * vnormal(a); }

/* The derivative of x P(x) is P + x p, with p = exp(-x^2 / 2) / sqrt(2 pi). */
static FN(gelu_erf_slope) {
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

static void k_gelu(const struct sl_device_cpu_call *call) {
    (call->instr->attr[0].i ? k_gelu_by_erf : k_gelu_by_tanh)(call);
}

static void k_gelu_dx(const struct sl_device_cpu_call *call) {
    (call->instr->attr[0].i ? k_gelu_dx_by_erf : k_gelu_dx_by_tanh)(call);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(elementwise_kernels)[] = {
    {"add", k_add, NULL},
    {"broadcast_mean", k_broadcast_mean, NULL},
    {"broadcast_to", k_broadcast_to, NULL},
    {"exp", k_exp, NULL},
    {"exp_dx", k_exp_dx, NULL},
    {"gelu", k_gelu, NULL},
    {"gelu_dx", k_gelu_dx, NULL},
    {"mul", k_mul, NULL},
    {"relu", k_relu, NULL},
    {"relu_dx", k_relu_dx, NULL},
    {"scale", k_scale, NULL},
    {"selu", k_selu, NULL},
    {"selu_dx", k_selu_dx, NULL},
    {"sigmoid", k_sigmoid, NULL},
    {"sigmoid_dx", k_sigmoid_dx, NULL},
    {"silu", k_silu, NULL},
    {"silu_dx", k_silu_dx, NULL},
    {"sub", k_sub, NULL},
    {"tanh", k_tanh, NULL},
    {"tanh_dx", k_tanh_dx, NULL},
    {0},
};
