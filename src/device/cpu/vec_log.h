/* Logarithms, sine and cosine of vectors.
 *
 * log: the relative error is below 3e-7, or the absolute one below 1e-7 near 1.
 * sin, cos: the absolute error is below 2e-7 for |x| <= 8192; larger arguments go to libm, one by
 * one. NaN gives NaN.
 */
#ifndef SL_DEVICE_CPU_VEC_LOG_H
#define SL_DEVICE_CPU_VEC_LOG_H

#include "device/cpu/vec_math.h"

/* log(1 + u) = 2 atanh(s) with s = u / (2 + u), for u in [-0.3, 0.42], where |s| <= 0.18. The
 * series 2 (s + s^3/3 + s^5/5 + ...) is cut where its terms vanish in a float. */
static INLINE vf vlog_near_1(vf u) {
    vf s = u / (u + 2.0f), z = s * s;
    vf p = z * 1.818181818e-01f + 2.222222222e-01f;
    p = p * z + 2.857142857e-01f;
    p = p * z + 4.0e-01f;
    p = p * z + 6.666666667e-01f;
    return p * z * s + (s + s);
}

/* Uses x = m 2^e, m in [0.707, 1.414). The log of 0 is -infinity, that of x < 0 is NaN. */
static INLINE vf vlog(vf x) {
    vi tiny = x < 1.17549435e-38f;
    vf y = pick(tiny, x * 8388608.0f, x);
    vi bits = (vi)y - 0x3F3504F3, e = bits >> 23;
    vf m = (vf)((bits & 0x007FFFFF) + 0x3F3504F3);
    vf n = __builtin_convertvector(e, vf) - (vf)(tiny & (vi)splat(23));
    vf r = (vlog_near_1(m - 1.0f) + n * -2.12194440e-4f) + n * 0.693359375f;
    r = pick(x == 0.0f, splat(-INFINITY), r);
    r = pick(~(x >= 0.0f), splat(NAN), r); /* x is below 0, or NaN */
    return pick(x == INFINITY, x, r);
}

/* log(1 + x) for any x > -1: no digits are lost where x is small. */
static INLINE vf vlog1p_any(vf x) {
    vi near = (x > -0.29f) & (x < 0.41f);
    return pick(near, vlog_near_1(pick(near, x, splat(0))), vlog(1.0f + x));
}

/* sin(x + quarters pi / 2), with x = n pi / 2 + r, |r| <= pi / 4. pi / 2 is split into three parts;
 * n times each of the first two is exact for |n| < 2^13. Taylor series give sin r and cos r. */
static INLINE vf vsin_turned(vf x, int quarters) {
    const float to_integer = 12582912.0f;
    vf n = (x * 0.636619772f + to_integer) - to_integer;
    vf r = ((x - n * 1.5703125f) - n * 4.837512969970703e-4f) - n * 7.549789948768648e-8f;
    vf z = r * r;
    vf s = z * 2.755731922e-06f + -1.984126984e-04f;
    s = s * z + 8.333333333e-03f;
    s = s * z + -1.666666667e-01f;
    s = s * z * r + r;
    vf c = z * -2.755731922e-07f + 2.480158730e-05f;
    c = c * z + -1.388888889e-03f;
    c = c * z + 4.166666667e-02f;
    c = (c * z + -0.5f) * z + 1.0f;
    vi quarter = __builtin_convertvector(n, vi) + quarters;
    vf y = pick((quarter & 1) != 0, c, s);
    vi sign = (quarter & 2) != 0; /* -1: change the sign */
    return (vf)((vi)y ^ (sign & INT32_MIN));
}

static INLINE bool all_small(vf x) {
    vi small = vabs(x) <= 8192.0f;
    for (int i = 0; i < LANES; i++)
        if (!small[i])
            return false;
    return true;
}

static INLINE vf vsin(vf x) {
    if (all_small(x))
        return vsin_turned(x, 0);
    for (int i = 0; i < LANES; i++)
        x[i] = sinf(x[i]);
    return x;
}

static INLINE vf vcos(vf x) {
    if (all_small(x))
        return vsin_turned(x, 1);
    for (int i = 0; i < LANES; i++)
        x[i] = cosf(x[i]);
    return x;
}

#endif
