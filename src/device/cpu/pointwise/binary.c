/* div, max, min, pow and their gradients, comparisons, logic, where: with broadcasting. */
#include "device/cpu/pointwise/zip.h"
#include "device/cpu/pointwise/zip3.h"

#include <math.h>

static FN(quotient_of) { return a / b; }
/* NaN if either operand is NaN; vmax and vmin alone would return b.
 * NOLINTBEGIN(misc-redundant-expression) */
static FN(larger_of) { return pick(a != a, a, vmax(a, b)); }
static FN(smaller_of) { return pick(a != a, a, vmin(a, b)); }
/* NOLINTEND(misc-redundant-expression) */

static FN(pow_of) {
    vf y = a;
    for (int i = 0; i < LANES; i++)
        y[i] = powf(a[i], b[i]);
    return y;
}

BROADCAST_OF(div, 1, quotient_of, no_numbers)
BROADCAST_OF(max, 1, larger_of, no_numbers)
BROADCAST_OF(min, 1, smaller_of, no_numbers)
BROADCAST_OF(pow, 1, pow_of, no_numbers)

/* ---- gradients: of dy, a, b ---- */

#define SLOPE(name, formula)                                                                       \
    static INLINE vf name##_of(__attribute__((unused)) vf dy, __attribute__((unused)) vf a,        \
                               __attribute__((unused)) vf b) {                                     \
        return formula;                                                                            \
    }                                                                                              \
    static void name##_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {   \
        (void)call;                                                                                \
        vec3_run(r, name##_of);                                                                    \
    }                                                                                              \
    ZIP3_OF(name, name##_run)

/* dy where this operand is the larger one, half of dy where both are equal, else 0. */
static INLINE vf share(vf dy, vi larger, vi same) {
    return (vf)((larger & (vi)dy) | (same & (vi)(dy * 0.5f)));
}

static INLINE vf pow_da_of_lanes(vf dy, vf a, vf b) {
    for (int i = 0; i < LANES; i++)
        dy[i] *= b[i] * powf(a[i], b[i] - 1);
    return dy;
}

static INLINE vf pow_db_of_lanes(vf dy, vf a, vf b) {
    for (int i = 0; i < LANES; i++)
        dy[i] = a[i] > 0 ? dy[i] * (powf(a[i], b[i]) * logf(a[i])) : 0;
    return dy;
}

SLOPE(div_da, dy / b)
SLOPE(div_db, -dy *a / (b * b))
SLOPE(max_da, share(dy, a > b, a == b))
SLOPE(max_db, share(dy, b > a, a == b))
SLOPE(min_da, share(dy, a < b, a == b))
SLOPE(min_db, share(dy, b < a, a == b))
SLOPE(pow_da, pow_da_of_lanes(dy, a, b))
SLOPE(pow_db, pow_db_of_lanes(dy, a, b))

/* `cond` is an int: 0 or not. a and b have either type. */
static INLINE vf where_of(vf cond, vf a, vf b) { return pick((vi)cond != 0, a, b); }
static INLINE vf where_true(vf dy, vf cond, vf none) {
    (void)none;
    return (vf)(((vi)cond != 0) & (vi)dy);
}
static INLINE vf where_false(vf dy, vf cond, vf none) {
    (void)none;
    return (vf)(((vi)cond == 0) & (vi)dy);
}

static void where_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {
    (void)call;
    vec3_run(r, where_of);
}

static void where_d_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {
    struct sl_zip3_run two = *r;
    two.in[2] = r->in[0];
    two.step[2] = r->step[0];
    if (call->instr->attr[0].i == 0)
        vec3_run(&two, where_true);
    else
        vec3_run(&two, where_false);
}

ZIP3_OF(where, where_run)
ZIP3_OF(where_d, where_d_run)

/* ---- truth: ints 0 and 1; the compiler makes vectors of these loops ---- */

#define LOOP(type, formula)                                                                        \
    do {                                                                                           \
        int32_t *y = r->y;                                                                         \
        const type *p = r->in[0], *q = r->in[1];                                                   \
        if (r->step[0] && r->step[1])                                                              \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type a = p[i], b = q[i];                                                           \
                y[i] = formula;                                                                    \
            }                                                                                      \
        else if (r->step[0])                                                                       \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type a = p[i], b = q[0];                                                           \
                y[i] = formula;                                                                    \
            }                                                                                      \
        else                                                                                       \
            for (int64_t i = 0; i < r->n; i++) {                                                   \
                type a = p[0], b = q[r->step[1] ? i : 0];                                          \
                y[i] = formula;                                                                    \
            }                                                                                      \
    } while (0)

#define COMPARE(name, formula)                                                                     \
    static void name##_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {   \
        if (call->instr->in[0].dtype == SL_INT)                                                    \
            LOOP(int32_t, formula);                                                                \
        else                                                                                       \
            LOOP(float, formula);                                                                  \
    }                                                                                              \
    ZIP3_OF(name, name##_run)

#define LOGIC(name, formula)                                                                       \
    static void name##_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {   \
        (void)call;                                                                                \
        LOOP(int32_t, formula);                                                                    \
    }                                                                                              \
    ZIP3_OF(name, name##_run)

COMPARE(equal, a == b)
COMPARE(greater, a > b)
COMPARE(greater_equal, a >= b)
COMPARE(less, a < b)
COMPARE(less_equal, a <= b)
LOGIC(logical_and, (a != 0) & (b != 0))
LOGIC(logical_or, (a != 0) | (b != 0))
LOGIC(logical_xor, (a != 0) ^ (b != 0))

static void logical_not_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {
    const int32_t *a = r->in[0];
    int32_t *y = r->y;
    (void)call;
    for (int64_t i = 0; i < r->n; i++)
        y[i] = a[r->step[0] ? i : 0] == 0;
}

static void to_float_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {
    const int32_t *a = r->in[0];
    float *y = r->y;
    (void)call;
    for (int64_t i = 0; i < r->n; i++)
        y[i] = (r->add ? y[i] : 0) + (float)a[r->step[0] ? i : 0];
}

static void to_int_run(const struct sl_zip3_run *r, const struct sl_device_cpu_call *call) {
    const float *a = r->in[0];
    int32_t *y = r->y;
    (void)call;
    for (int64_t i = 0; i < r->n; i++) {
        double x = (double)a[r->step[0] ? i : 0];
        y[i] = isnan(x) ? 0 : (int32_t)fmin(fmax(x, -2147483648.0), 2147483647.0);
    }
}

ZIP3_OF(logical_not, logical_not_run)
ZIP3_OF(to_float, to_float_run)
ZIP3_OF(to_int, to_int_run)

#define ROW(name)                                                                                  \
    { #name, k_##name, NULL }

const struct sl_device_cpu_kernel SL_ISA_NAME(binary_kernels)[] = {
    ROW(div),         ROW(div_da),
    ROW(div_db),      ROW(equal),
    ROW(greater),     ROW(greater_equal),
    ROW(less),        ROW(less_equal),
    ROW(logical_and), ROW(logical_not),
    ROW(logical_or),  ROW(logical_xor),
    ROW(max),         ROW(max_da),
    ROW(max_db),      ROW(min),
    ROW(min_da),      ROW(min_db),
    ROW(pow),         ROW(pow_da),
    ROW(pow_db),      ROW(to_float),
    ROW(to_int),      ROW(where),
    ROW(where_d),     {0},
};
