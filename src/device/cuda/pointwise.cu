/* Functions of one, two and three tensors that the CPU has in unary.c and binary.c: y = f(x),
 * dx = dy f'(x), arithmetic with broadcasting and its gradients, comparisons, logic, where. */
#include "device/cuda/kernels.cuh"

struct numbers { /* the float attributes, in order */
    float v[2];
};

static numbers numbers_of(const sl_cuda_call *call) {
    numbers n = {};
    const sl_attr_desc *desc = call->instr->op->attrs;
    for (int i = 0; i < 2 && desc && desc[i].name; i++)
        n.v[i] = (float)call->instr->attr[i].f;
    return n;
}

static __device__ __forceinline__ float sigmoid_of(float x) { return 1 / (1 + expf(-x)); }
static __device__ __forceinline__ float softplus_of(float x) {
    return log1pf(expf(-fabsf(x))) + (x > 0 ? x : 0);
}
static __device__ __forceinline__ float mish_slope(float x) {
    float t = tanhf(softplus_of(x));
    return t + x * (1 - t * t) * sigmoid_of(x);
}
static __device__ __forceinline__ float clamp_of(float x, float low, float high) {
    return x < low ? low : x > high ? high : x; /* NaN stays NaN */
}
static __device__ __forceinline__ float power_of(float x, float by) {
    return by == 2 ? x * x : by == 0.5f ? sqrtf(x) : by == -1 ? 1 / x : powf(x, by);
}
static __device__ __forceinline__ float power_slope(float x, float by) {
    return by == 2 ? 2 * x : by * powf(x, by - 1);
}
static __device__ __forceinline__ float larger(float a, float b) {
    return a > b || isnan(a) ? a : b;
}
static __device__ __forceinline__ float share(float a, float b) {
    return a == b ? 0.5f : a > b ? 1 : 0;
}

/* a, b, c are the inputs, n the numbers. */
#define FUNCTION(name, formula)                                                                    \
    struct name {                                                                                  \
        static __device__ __forceinline__ float of(float a, float b, float c, numbers n) {         \
            (void)a;                                                                               \
            (void)b;                                                                               \
            (void)c;                                                                               \
            (void)n;                                                                               \
            return formula;                                                                        \
        }                                                                                          \
    };
/* For y, a is x; for dx, a is dy and b is x. */
#define UNARY(name, y, dx) FUNCTION(f_##name, y) FUNCTION(f_##name##_dx, dx)

UNARY(abs, fabsf(a), b > 0 ? a : b < 0 ? -a : 0)
UNARY(clamp, clamp_of(a, n.v[0], n.v[1]), b >= n.v[0] && b <= n.v[1] ? a : 0)
UNARY(cos, cosf(a), -a *sinf(b))
UNARY(elu, a > 0 ? a : n.v[0] * expm1f(a), b > 0 ? a : a * n.v[0] * expf(b))
UNARY(erf, erff(a), a * 1.12837917f * expf(-b * b))
UNARY(hardswish, a *clamp_of(a / 6 + 0.5f, 0, 1), b <= -3 ? 0 : b >= 3 ? a : a * (b / 3 + 0.5f))
UNARY(leaky_relu, a > 0 ? a : n.v[0] * a, b > 0 ? a : n.v[0] * a)
UNARY(log, logf(a), a / b)
UNARY(log1p, log1pf(a), a / (1 + b))
UNARY(mish, a *tanhf(softplus_of(a)), a *mish_slope(b))
UNARY(neg, -a, -a)
UNARY(offset, a + n.v[0], a)
UNARY(power, power_of(a, n.v[0]), a *power_slope(b, n.v[0]))
UNARY(rsqrt, 1 / sqrtf(a), a * -0.5f / (b * sqrtf(b)))
UNARY(sin, sinf(a), a *cosf(b))
UNARY(softplus, softplus_of(a), a *sigmoid_of(b))
UNARY(sqrt, sqrtf(a), a * 0.5f / sqrtf(b))

FUNCTION(f_div, a / b)
FUNCTION(f_max, larger(a, b))
FUNCTION(f_min, -larger(-a, -b))
FUNCTION(f_pow, powf(a, b))
/* Here a is dy; b and c are the op's a and b. */
FUNCTION(f_div_da, a / c)
FUNCTION(f_div_db, -a *b / (c * c))
FUNCTION(f_max_da, a *share(b, c))
FUNCTION(f_max_db, a *share(c, b))
FUNCTION(f_min_da, a *share(c, b))
FUNCTION(f_min_db, a *share(b, c))
FUNCTION(f_pow_da, a *c *powf(b, c - 1))
FUNCTION(f_pow_db, b > 0 ? a * powf(b, c) * logf(b) : 0)

/* ---- one loop for all: strides of up to three inputs, 0 along axes where an input is repeated
 * ---- */

struct walk3 {
    int rank;
    i64 size[SL_MAX_RANK], stride[3][SL_MAX_RANK];
};

static walk3 walk_of(const sl_instr *instr) {
    const sl_shape *y = &instr->out[0].shape;
    walk3 w = {};
    i64 stride[3][SL_MAX_RANK] = {};
    for (int i = 0; i < instr->in_count; i++) {
        const sl_shape *x = &instr->in[i].shape;
        i64 next = 1;
        for (int k = y->rank - 1; k >= 0; k--) {
            int axis = k - (y->rank - x->rank);
            stride[i][k] = axis >= 0 && x->dim[axis] == y->dim[k] ? next : 0;
            next *= axis >= 0 ? x->dim[axis] : 1;
        }
    }
    for (int k = 0; k < y->rank; k++) {
        int last = w.rank - 1;
        bool merged = last >= 0;
        if (y->dim[k] == 1)
            continue;
        for (int i = 0; i < 3 && merged; i++)
            merged = w.stride[i][last] == stride[i][k] * y->dim[k];
        if (!merged) {
            last = w.rank++;
            w.size[last] = 1;
        }
        w.size[last] *= y->dim[k];
        for (int i = 0; i < 3; i++)
            w.stride[i][last] = stride[i][k];
    }
    return w;
}

/* What a loop over y reads and writes. */
struct operands {
    array y, a, b, c;
    walk3 w;
    i64 count;
};

static operands operands_of(const sl_cuda_call *call) {
    return {out_array(call, 0), in_array(call, 0),    in_array(call, 1),
            in_array(call, 2),  walk_of(call->instr), call->instr->out[0].numel};
}

static __device__ __forceinline__ void places(const walk3 &w, i64 i, i64 at[3]) {
    at[0] = at[1] = at[2] = 0;
    for (int k = w.rank - 1; k >= 0; k--) {
        i64 here = k ? i % w.size[k] : i;
        i /= w.size[k];
        for (int n = 0; n < 3; n++)
            at[n] += here * w.stride[n][k];
    }
}

template <class F> static __global__ void zip3(operands o, numbers n, bool add) {
    GRID_LOOP(i, o.count) {
        i64 at[3];
        places(o.w, i, at);
        float b = o.b.at ? get(o.b, at[1]) : 0, c = o.c.at ? get(o.c, at[2]) : 0;
        put(o.y, i, F::of(get(o.a, at[0]), b, c, n), add);
    }
}

template <class F> static sl_err k_zip3(const sl_cuda_call *call) {
    operands o = operands_of(call);
    zip3<F><<<blocks_for(o.count, THREADS), THREADS, 0, call->stream>>>(o, numbers_of(call),
                                                                        call->add);
    return launched(call);
}

/* ---- truth: ints 0 and 1 of two floats or two ints ---- */

#define TRUTH(name, formula)                                                                       \
    struct name {                                                                                  \
        template <class T> static __device__ __forceinline__ bool of(T a, T b) {                   \
            (void)b;                                                                               \
            return formula;                                                                        \
        }                                                                                          \
    };

TRUTH(t_equal, a == b)
TRUTH(t_greater, a > b)
TRUTH(t_greater_equal, a >= b)
TRUTH(t_less, a < b)
TRUTH(t_less_equal, a <= b)
TRUTH(t_and, a != 0 && b != 0)
TRUTH(t_or, a != 0 || b != 0)
TRUTH(t_xor, (a != 0) != (b != 0))
TRUTH(t_not, a == 0)

template <class F> static __global__ void truth(operands o, bool ints) {
    int32_t *y = (int32_t *)o.y.at;
    const int32_t *p = (const int32_t *)o.a.at, *q = (const int32_t *)o.b.at;
    GRID_LOOP(i, o.count) {
        i64 at[3];
        places(o.w, i, at);
        y[i] = ints ? F::of(p[at[0]], q ? q[at[1]] : 0) : F::of(get(o.a, at[0]), get(o.b, at[1]));
    }
}

template <class F> static sl_err k_truth(const sl_cuda_call *call) {
    operands o = operands_of(call);
    truth<F><<<blocks_for(o.count, THREADS), THREADS, 0, call->stream>>>(
        o, call->instr->in[0].dtype == SL_INT);
    return launched(call);
}

static __global__ void to_float(array y, const int32_t *x, i64 count, bool add) {
    GRID_LOOP(i, count) put(y, i, (float)x[i], add);
}

static sl_err k_to_float(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    to_float<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), (const int32_t *)call->in[0], count, call->add);
    return launched(call);
}

/* The conversion of the device saturates, and gives 0 for NaN. */
static __global__ void to_int(int32_t *y, array x, i64 count) {
    GRID_LOOP(i, count) y[i] = __float2int_rz(get(x, i));
}

static sl_err k_to_int(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    to_int<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>((int32_t *)call->out[0],
                                                                     in_array(call, 0), count);
    return launched(call);
}

/* ---- where ---- */

/* `a` is the condition. */
static __global__ void where(operands o, bool ints, bool add) {
    const int32_t *cond = (const int32_t *)o.a.at;
    GRID_LOOP(i, o.count) {
        i64 at[3];
        places(o.w, i, at);
        array x = cond[at[0]] ? o.b : o.c;
        i64 from = cond[at[0]] ? at[1] : at[2];
        if (ints)
            ((int32_t *)o.y.at)[i] = ((const int32_t *)x.at)[from];
        else
            put(o.y, i, get(x, from), add);
    }
}

static sl_err k_where(const sl_cuda_call *call) {
    operands o = operands_of(call);
    where<<<blocks_for(o.count, THREADS), THREADS, 0, call->stream>>>(
        o, call->instr->out[0].dtype == SL_INT, call->add);
    return launched(call);
}

/* `a` is dy, `b` is the condition. */
static __global__ void where_d(operands o, bool when, bool add) {
    const int32_t *cond = (const int32_t *)o.b.at;
    GRID_LOOP(i, o.count) {
        i64 at[3];
        places(o.w, i, at);
        put(o.y, i, (cond[at[1]] != 0) == when ? get(o.a, i) : 0, add);
    }
}

static sl_err k_where_d(const sl_cuda_call *call) {
    operands o = operands_of(call);
    where_d<<<blocks_for(o.count, THREADS), THREADS, 0, call->stream>>>(
        o, call->instr->attr[0].i == 0, call->add);
    return launched(call);
}

/* clang-format off */
#define UNARY_ROWS(name) {#name, k_zip3<f_##name>}, {#name "_dx", k_zip3<f_##name##_dx>}
#define BINARY_ROWS(name) {#name, k_zip3<f_##name>}, {#name "_da", k_zip3<f_##name##_da>}, \
    {#name "_db", k_zip3<f_##name##_db>}
extern "C" const struct sl_cuda_kernel sl_cuda_pointwise[] = {
    UNARY_ROWS(abs), UNARY_ROWS(clamp), UNARY_ROWS(cos), UNARY_ROWS(elu), UNARY_ROWS(erf),
    UNARY_ROWS(hardswish), UNARY_ROWS(leaky_relu), UNARY_ROWS(log), UNARY_ROWS(log1p),
    UNARY_ROWS(mish), UNARY_ROWS(neg), UNARY_ROWS(offset), UNARY_ROWS(power), UNARY_ROWS(rsqrt),
    UNARY_ROWS(sin), UNARY_ROWS(softplus), UNARY_ROWS(sqrt),
    BINARY_ROWS(div), BINARY_ROWS(max), BINARY_ROWS(min), BINARY_ROWS(pow),
    {"equal", k_truth<t_equal>},
    {"greater", k_truth<t_greater>},
    {"greater_equal", k_truth<t_greater_equal>},
    {"less", k_truth<t_less>},
    {"less_equal", k_truth<t_less_equal>},
    {"logical_and", k_truth<t_and>},
    {"logical_not", k_truth<t_not>},
    {"logical_or", k_truth<t_or>},
    {"logical_xor", k_truth<t_xor>},
    {"to_float", k_to_float},
    {"to_int", k_to_int},
    {"where", k_where},
    {"where_d", k_where_d},
    {},
};
/* clang-format on */
