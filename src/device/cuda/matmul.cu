/* matmul and its fused forms (pass/fused.h): cuBLASLt with an epilogue if it has one, else the
 * plain product and one more kernel.
 *
 *   a, b of different dtypes        the fp32 one is rounded to 16 bits in scratch
 *   scratch                         [a in 16 bits] [b in 16 bits] [parts of column sums]
 */
#include "device/cuda/columns.cuh"
#include "device/cuda/gemm.h"

enum form { PLAIN, ADD, GELU, GELU_DX };

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

static sl_gemm gemm_of(const sl_instr *instr) {
    const sl_shape *a = &instr->in[0].shape, *b = &instr->in[1].shape;
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.ta = instr->attr[0].i != 0;
    g.tb = instr->attr[1].i != 0;
    i64 rows_ = a->dim[a->rank - 2], cols = a->dim[a->rank - 1];
    g.m = g.ta ? cols : rows_;
    g.k = g.ta ? rows_ : cols;
    g.n = b->dim[b->rank - (g.tb ? 2 : 1)];
    g.batch = 1;
    for (int i = 0; i < a->rank - 2; i++)
        g.batch *= a->dim[i];
    if (b->rank == 2 && !g.ta) { /* one product for all rows */
        g.m *= g.batch;
        g.batch = 1;
    }
    const sl_dtype types[] = {instr->in[0].dtype, instr->in[1].dtype, instr->out[0].dtype};
    for (sl_dtype type : types) /* a program has only one 16-bit type */
        g.half_in = sl_dtype_is_half(type) ? sl_half_of(type) : g.half_in;
    g.half_out = sl_half_of(instr->out[0].dtype);
    g.align = 16;
    sl_cuda_gemm_pack(&g);
    return g;
}

static bool to_cast(const sl_instr *instr, const sl_gemm &g, int i) {
    return g.half_in && !sl_dtype_is_half(instr->in[i].dtype);
}

static i64 cast_bytes(const sl_instr *instr, const sl_gemm &g, int i) {
    return to_cast(instr, g, i) ? padded(instr->in[i].numel * 2) : 0;
}

static __global__ void round_to_half(array y, array x, i64 count) {
    GRID_LOOP(i, count) put(y, i, get(x, i));
}

/* Returns input i in the type that the product needs. */
static const void *factor(const sl_cuda_call *call, const sl_gemm &g, int i) {
    if (!to_cast(call->instr, g, i))
        return call->in[i];
    void *at = (char *)call->scratch + (i == 1 ? cast_bytes(call->instr, g, 0) : 0);
    i64 count = call->instr->in[i].numel;
    round_to_half<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        array{at, g.half_in}, in_array(call, i), count);
    return at;
}

/* ---- what the epilogues do, for shapes and dtypes that they do not support ---- */

static __device__ __forceinline__ float bend(float x) {
    return tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x));
}

static __device__ float gelu_of(float x, bool erf) {
    return erf ? 0.5f * x * erfcf(-x * 0.70710678118654752440f) : 0.5f * x * (1 + bend(x));
}

static __device__ float slope_of(float x, bool erf) {
    if (erf)
        return 0.5f * erfcf(-x * 0.70710678118654752440f) +
               x * 0.39894228040143267794f * expf(-0.5f * x * x);
    float t = bend(x), inner = 0.79788456080286535588f * (1 + 3 * 0.044715f * x * x);
    return 0.5f * (1 + t + x * (1 - t * t) * inner);
}

/* The same for 16-bit results: erfc by a polynomial (Abramowitz and Stegun 7.1.26), with an error
 * of at most 1.5e-7. `below` is the standard normal distribution function at x; `bell` is exp(-x^2
 * / 2). */
struct normal {
    float below, bell;
};
static __device__ __forceinline__ normal normal_of(float x) {
    float bell = fast_exp(-0.5f * x * x);
    float t = __fdividef(1, 1 + 0.3275911f * 0.70710678118654752440f * fabsf(x));
    float tail = 0.5f * bell * t *
                 (0.254829592f + t * (-0.284496736f +
                                      t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    return {x > 0 ? 1 - tail : tail, bell};
}
static __device__ __forceinline__ float bend_half(float x) { /* 1 - 2 / (exp(2 u) + 1) */
    float u = 0.79788456080286535588f * (x + 0.044715f * x * x * x);
    return 1 - __fdividef(2, fast_exp(2 * u) + 1);
}
static __device__ __forceinline__ float gelu_half(float x, bool erf) {
    return erf ? x * normal_of(x).below : 0.5f * x * (1 + bend_half(x));
}
static __device__ __forceinline__ float slope_half(float x, bool erf) {
    if (!erf)
        return slope_of(x, false);
    normal n = normal_of(x);
    return n.below + x * 0.39894228040143267794f * n.bell;
}

struct tail_args {
    array y, second, bias, other; /* y holds the product */
    i64 n;                        /* number of columns */
    form f;
    bool erf;
};

/* `v` is the product; `r` is the operand that is added, or at which the derivative is taken.
 * Returns the result and its gelu. */
static __device__ __forceinline__ float finish_one(const tail_args &t, float v, float bias,
                                                   float r) {
    v += bias;
    if (t.f == GELU_DX)
        return v * (t.y.half ? slope_half(r, t.erf) : slope_of(r, t.erf));
    return t.f == ADD ? v + r : v;
}

static __global__ void finish(tail_args t, i64 count) {
    GRID_LOOP(i, count) {
        put(t.y, i,
            finish_one(t, get(t.y, i), t.bias.at ? get(t.bias, i % t.n) : 0,
                       t.other.at ? get(t.other, i) : 0));
        if (t.f == GELU)
            put(t.second, i,
                t.y.half ? gelu_half(get(t.y, i), t.erf) : gelu_of(get(t.y, i), t.erf));
    }
}

/* The same for eight elements. It takes the gelu of the rounded product, as above. */
static __device__ __forceinline__ void finish_eight(const tail_args &t, i64 i, eight v,
                                                    const eight &bias, const eight &r) {
    for (int k = 0; k < 8; k++)
        v.v[k] = finish_one(t, v.v[k], bias.v[k], r.v[k]);
    if (t.bias.at || t.other.at)
        put8(t.y, i, v);
    if (t.f != GELU)
        return;
    for (int k = 0; k < 8; k++) {
        float x = as_stored(t.y, v.v[k]);
        v.v[k] = t.y.half ? gelu_half(x, t.erf) : gelu_of(x, t.erf);
    }
    put8(t.second, i, v);
}

static __global__ void finish8(tail_args t, i64 eights) {
    GRID_LOOP(e, eights) {
        i64 i = 8 * e;
        finish_eight(t, i, get8(t.y, i), t.bias.at ? get8(t.bias, i % t.n) : eight{},
                     t.other.at ? get8(t.other, i) : eight{});
    }
}

/* For operands that all have one 16-bit type, without a bias. Two groups of eight at a time, so
 * that loads overlap. */
template <int HALF, form F, bool ERF> static __global__ void finish_half(tail_args t, i64 eights) {
    t.y.half = t.second.half = t.other.half = HALF;
    t.bias.at = NULL;
    t.erf = ERF;
    t.f = F;
    if (F == GELU)
        t.other.at = NULL;
    i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 e = (i64)blockIdx.x * blockDim.x + threadIdx.x; e < eights; e += 2 * step) {
        i64 next = e + step < eights ? e + step : e;
        eight v = get8(t.y, 8 * e), w = get8(t.y, 8 * next), r = {}, s = {};
        if (F != GELU) {
            r = get8(t.other, 8 * e);
            s = get8(t.other, 8 * next);
        }
        finish_eight(t, 8 * e, v, eight{}, r);
        if (next != e)
            finish_eight(t, 8 * next, w, eight{}, s);
    }
}

template <int HALF> static bool launch_half(const sl_cuda_call *call, const tail_args &t) {
    i64 eights = call->instr->out[0].numel / 8;
    unsigned blocks = blocks_for(eights, THREADS);
    if (t.f == GELU && t.erf)
        finish_half<HALF, GELU, true><<<blocks, THREADS, 0, call->stream>>>(t, eights);
    else if (t.f == GELU)
        finish_half<HALF, GELU, false><<<blocks, THREADS, 0, call->stream>>>(t, eights);
    else if (t.f == GELU_DX && t.erf)
        finish_half<HALF, GELU_DX, true><<<blocks, THREADS, 0, call->stream>>>(t, eights);
    else
        return false;
    return true;
}

static sl_err run_finish(const sl_cuda_call *call, const tail_args &t) {
    i64 count = call->instr->out[0].numel;
    bool wide = t.n % 8 == 0 && fit8(t.y, t.second, t.bias, t.other);
    int half = wide && !t.bias.at ? half_of_all(t.y, t.second, t.other) : SL_HALF_NOT;
    bool done = half == SL_HALF_BF16   ? launch_half<SL_HALF_BF16>(call, t)
                : half == SL_HALF_FP16 ? launch_half<SL_HALF_FP16>(call, t)
                                       : false;
    if (!done && wide)
        finish8<<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(t, count / 8);
    else if (!done)
        finish<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(t, count);
    return launched(call);
}

static sl_gemm_tail tail_of(form f, bool bias, bool erf) {
    if (f == GELU_DX)
        return erf ? SL_GEMM_PLAIN : SL_GEMM_DGELU;
    if (f == GELU && !erf)
        return bias ? SL_GEMM_GELU_BIAS : SL_GEMM_GELU;
    return bias ? SL_GEMM_BIAS : SL_GEMM_PLAIN;
}

/* Returns true if an epilogue can do it. With 16 bits the rows of the library's aux must be
 * multiples of 16 bytes; the library refuses other unsupported shapes. */
static bool fusable(const sl_cuda_call *call, const sl_gemm &g, array bias, array other) {
    bool typed = (!bias.at || bias.half == g.half_out) && (!other.at || other.half == g.half_out);
    return typed && (g.tail == SL_GEMM_PLAIN || g.ldy % 8 == 0) && g.batch == 1 &&
           sl_cuda_gemm_supported(call->device, &g);
}

static sl_err product(const sl_cuda_call *call, form f, bool erf) {
    const sl_instr *instr = call->instr;
    sl_gemm g = gemm_of(instr);
    array y = out_array(call, 0), second = f == GELU ? out_array(call, 1) : array{};
    array bias = f == GELU_DX ? array{} : in_array(call, 2);
    array other = f == GELU_DX ? in_array(call, 2) : f == ADD ? in_array(call, 3) : array{};
    sl_gemm_io io = {factor(call, g, 0),      factor(call, g, 1), NULL, y.at, NULL, NULL,
                     call->add ? 1.0f : 0.0f, call->stream};
    g.tail = tail_of(f, bias.at != NULL, erf);
    bool whole = fusable(call, g, bias, other);
    /* always by the library, because `other` may be y */
    if (f == ADD && other.half == g.half_out) {
        io.c = other.at;
        io.beta = 1;
        f = PLAIN;
    }
    if (!whole) {
        g.tail = SL_GEMM_PLAIN;
        SL_TRY(sl_cuda_gemm_run(call->device, &g, &io));
        if (f == PLAIN && !bias.at)
            return SL_OK;
        return run_finish(call, tail_args{y, second, bias, other, g.n, f, erf});
    }
    io.bias = bias.at;
    if (g.tail >= SL_GEMM_GELU) {
        io.aux = f == GELU ? y.at : other.at; /* out[0] of matmul_gelu is the product */
        io.y = f == GELU ? second.at : y.at;
    }
    SL_TRY(sl_cuda_gemm_run(call->device, &g, &io));
    if ((f != GELU && f != GELU_DX) || !erf)
        return SL_OK;
    /* gelu by erf: the epilogues have only tanh */
    return run_finish(call, tail_args{y, second, array{}, other, g.n, f, erf});
}

static sl_err k_matmul(const sl_cuda_call *call) { return product(call, PLAIN, false); }
static sl_err k_matmul_add(const sl_cuda_call *call) { return product(call, ADD, false); }
static sl_err k_matmul_gelu(const sl_cuda_call *call) { return product(call, GELU, false); }
static sl_err k_matmul_gelu_erf(const sl_cuda_call *call) { return product(call, GELU, true); }
static sl_err k_matmul_gelu_dx(const sl_cuda_call *call) { return product(call, GELU_DX, false); }
static sl_err k_matmul_gelu_erf_dx(const sl_cuda_call *call) {
    return product(call, GELU_DX, true);
}

/* ---- the gradient of a weight together with that of its bias ---- */

/* The type of x is the template parameter HALF, so that loads can overlap. */
template <int HALF> struct load_side {
    array x;
    i64 row, col; /* strides */
    bool wide;
    __device__ __forceinline__ void one(i64 k, i64 j, float &sum) const {
        sum += get(x, k * row + j * col);
    }
    __device__ __forceinline__ void many(i64 k, i64 j, eight &sum) const {
        eight e = get8(array{x.at, HALF}, k * row + j);
        for (int i = 0; i < 8; i++)
            sum.v[i] += e.v[i];
    }
};

static sl_err with_sums(const sl_cuda_call *call, int side) {
    sl_gemm g = gemm_of(call->instr);
    SL_TRY(product(call, PLAIN, false));
    i64 n = side ? g.n : g.m;
    bool turned = side ? g.tb : !g.ta; /* stored as [n, k] */
    char *scratch =
        (char *)call->scratch + cast_bytes(call->instr, g, 0) + cast_bytes(call->instr, g, 1);
    array x = in_array(call, side);
    i64 row = turned ? 1 : n, col = turned ? g.k : 1;
    bool wide = !turned && fit8(x);
    array sums = out_array(call, 1);
    if (x.half == SL_HALF_BF16)
        return sum_columns_in(call, sums, g.k, n, load_side<SL_HALF_BF16>{x, row, col, wide},
                              scratch);
    if (x.half)
        return sum_columns_in(call, sums, g.k, n, load_side<SL_HALF_FP16>{x, row, col, wide},
                              scratch);
    return sum_columns_in(call, sums, g.k, n, load_side<SL_HALF_NOT>{x, row, col, wide}, scratch);
}

static sl_err k_matmul_sum_a(const sl_cuda_call *call) { return with_sums(call, 0); }
static sl_err k_matmul_sum_b(const sl_cuda_call *call) { return with_sums(call, 1); }

static i64 scratch(const sl_instr *instr) {
    sl_gemm g = gemm_of(instr);
    return cast_bytes(instr, g, 0) + cast_bytes(instr, g, 1);
}

static i64 scratch_sums(const sl_instr *instr) {
    sl_gemm g = gemm_of(instr);
    return scratch(instr) + column_scratch(g.k, g.m > g.n ? g.m : g.n);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_products[] = {
    {"matmul", k_matmul, scratch, true},
    {"matmul_add", k_matmul_add, scratch, true},
    {"matmul_gelu", k_matmul_gelu, scratch, true},
    {"matmul_gelu_dx", k_matmul_gelu_dx, scratch, true},
    {"matmul_gelu_erf", k_matmul_gelu_erf, scratch, true},
    {"matmul_gelu_erf_dx", k_matmul_gelu_erf_dx, scratch, true},
    {"matmul_sum_a", k_matmul_sum_a, scratch_sums, true},
    {"matmul_sum_b", k_matmul_sum_b, scratch_sums, true},
    {},
};
/* clang-format on */
