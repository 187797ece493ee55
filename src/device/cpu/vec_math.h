/* Functions of vectors: exp, tanh, erf, sigmoid, softplus, gelu, the normal distribution.
 *
 * The relative error is below 2e-7 unless a function states another bound. NaN gives NaN.
 * The polynomials are our own minimax fits (Remez exchange in 40 digits, rounded to float).
 * tests/unit/device/test_cpu_math.c checks the bounds.
 */
#ifndef SL_DEVICE_CPU_VEC_MATH_H
#define SL_DEVICE_CPU_VEC_MATH_H

#include "device/cpu/vec.h"

/* exp(x) = 2^n exp(r), with n = round(x / ln 2), so |r| <= ln 2 / 2. ln 2 is split into two parts;
 * n times the first part is exact. Adding 1.5 x 2^23 rounds to an integer. */
static INLINE vf vexp(vf x) {
    const float to_integer = 12582912.0f;
    x = vmin(splat(89.0f), vmax(splat(-104.0f), x));
    vf n = (x * 1.44269504f + to_integer) - to_integer;
    vf r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    vf p = r * 1.381314709e-03f + 8.369418792e-03f;
    p = p * r + 4.166845605e-02f;
    p = p * r + 1.666651517e-01f;
    p = p * r + 4.999999404e-01f;
    return scale_by_power((p * r * r + r) + 1.0f, n);
}

/* |x| < 0.625: x + x^3 p(x^2); else 1 - 2 / (exp(2 |x|) + 1), with the sign of x. */
static INLINE vf vtanh(vf x) {
    vf size = vmin(splat(20.0f), vabs(x)), z = x * x;
    vf p = z * -5.660792813e-03f + 2.060201205e-02f;
    p = p * z + -5.372923240e-02f;
    p = p * z + 1.333132833e-01f;
    p = p * z + -3.333327770e-01f;
    vf outer = with_sign(1.0f - 2.0f * reciprocal(vexp(size + size) + 1.0f), x);
    return pick(size < 0.625f, p * z * x + x, outer);
}

/* |x| < 1: x p(x^2); else 1 - exp(-h(|x|)) with h fitted to -log(erfc), with the sign of x. */
static INLINE vf verf(vf x) {
    vf size = vmin(splat(4.0f), vabs(x)), z = x * x;
    vf p = z * 7.853860734e-05f + -8.010193706e-04f;
    p = p * z + 5.188327748e-03f;
    p = p * z + -2.685381100e-02f;
    p = p * z + 1.128358543e-01f;
    p = p * z + -3.761262596e-01f;
    p = p * z + 1.283791670e-01f;
    vf h = size * 2.168673564e-05f + -4.413349670e-04f;
    h = h * size + 4.204554483e-03f;
    h = h * size + -2.520823665e-02f;
    h = h * size + 1.084185392e-01f;
    h = h * size + 6.332198977e-01f;
    h = h * size + 1.129578352e+00f;
    h = h * size + -1.880361233e-04f;
    vf outer = with_sign(1.0f - vexp(-h), x);
    return pick(size < 1.0f, p * x + x, outer);
}

/* P(X <= x) for a standard normal X, absolute error below 1e-7. The tail beyond |x| is
 * exp(-h(|x|)). h is fitted to the logarithm of the tail up to 5.8 and keeps growing beyond. */
static INLINE vf vnormal(vf x) {
    vf a = vabs(x), h = a * 1.921440571e-06f + -2.676989970e-05f;
    h = h * a + 1.265325554e-04f;
    h = h * a + 1.011089407e-04f;
    h = h * a + -4.904342815e-03f;
    h = h * a + 3.639371321e-02f;
    h = h * a + 3.182965815e-01f;
    h = h * a + 7.978857160e-01f;
    h = h * a + 6.931471825e-01f;
    vf tail = vexp(-h);
    return pick(x > 0.0f, 1.0f - tail, tail);
}

/* P(X <= x) with an absolute error below 3e-7, and *density = exp(-x^2 / 2); both from one
 * exponential. The tail is the density times a polynomial in u = 1 / (1 + 0.27 |x|), fitted to this
 * form (Hastings; see Abramowitz and Stegun, 7.1.26). */
static INLINE vf vnormal_density(vf x, vf *density) {
    vf u = reciprocal(1.0f + 0.27f * vmin(splat(1e30f), vabs(x)));
    vf p = u * -1.215969250e-01f + 5.100508928e-01f;
    p = p * u + -4.230321050e-01f;
    p = p * u + 3.990462422e-01f;
    p = p * u + 1.635105722e-02f;
    p = p * u + 1.191808358e-01f;
    *density = vexp(x * x * -0.5f);
    vf tail = p * u * *density;
    return pick(x > 0.0f, 1.0f - tail, tail);
}

/* 1 / (1 + exp(-x)); 1.6e-38 for x below -87. */
static INLINE vf vsigmoid(vf x) { return reciprocal(1.0f + vexp(vmin(splat(87.0f), -x))); }

/* gelu by tanh: x/2 (1 + tanh u) = x s with u = sqrt(2 / pi) (x + 0.044715 x^3),
 * s = 1 / (1 + 2^v), v = -2 u / ln 2. The rounding of v is the largest error. Returns s. */
static INLINE vf vgelu_share(vf x) {
    const float to_integer = 12582912.0f;
    vf v = x * (x * x * -1.029432396e-01f + -2.302208198e+00f);
    v = vmin(splat(125.0f), vmax(splat(-125.0f), v));
    vf n = (v + to_integer) - to_integer, f = v - n;
    vf p = f * 1.559467782e-04f + 1.340664341e-03f;
    p = p * f + 9.617692791e-03f;
    p = p * f + 5.550310388e-02f;
    p = p * f + 2.402265221e-01f;
    p = p * f + 6.931472421e-01f;
    p = p * f + 1.0f;
    return reciprocal(1.0f + scale_by_power(p, n));
}

static INLINE vf vgelu(vf x) { return x * vgelu_share(x); }

/* The derivative: s + x s (1 - s) 2 u' */
static INLINE vf vgelu_slope(vf x) {
    vf s = vgelu_share(x), part = x * s;
    return s + (part - part * s) * (x * x * 2.140644488e-01f + 1.595769122e+00f);
}

/* log(1 + u) for u in [0, 1]: 2 atanh(s), s = u / (2 + u). */
static INLINE vf vlog1p(vf u) {
    vf s = u * reciprocal(u + 2.0f), z = s * s;
    vf p = z * 2.437485158e-01f + 2.140950710e-01f;
    p = p * z + 2.861840427e-01f;
    p = p * z + 3.999882936e-01f;
    p = p * z + 6.666667461e-01f;
    return p * z * s + (s + s);
}

/* log(1 + exp(-x)) */
static INLINE vf vsoftplus_of_minus(vf x) { return vlog1p(vexp(-vabs(x))) + vmax(-x, splat(0.0f)); }

/* exp(x) - 1 = 2 t / (1 - t), t = tanh(x / 2), for x <= 0: no cancellation. */
static INLINE vf vexpm1_negative(vf x) {
    vf t = vtanh(x * 0.5f);
    return (t + t) * reciprocal(1.0f - t);
}

#endif
