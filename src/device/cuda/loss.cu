/* Losses: bce_with_logits, mse, the losses of op/losses.c, and their gradients. cross_entropy.cu
 * has cross_entropy. */
#include "device/cuda/sums.cuh"

/* ---- sums of many terms: partial sums of blocks, then one block; in double ---- */

enum { PARTS = 1024 };

struct mse_term {
    array x, t;
    __device__ double operator()(i64 i) const {
        double off = (double)get(x, i) - (double)get(t, i);
        return off * off;
    }
};

static __device__ float softplus_of_minus(float x) {
    return log1pf(expf(-fabsf(x))) + (x < 0 ? -x : 0);
}

struct bce_term {
    array x, t;
    float weight;
    __device__ double operator()(i64 i) const {
        float v = get(x, i), target = get(t, i), u = 1 + (weight - 1) * target;
        return (double)((1 - target) * v + u * softplus_of_minus(v));
    }
};

template <class F> static __global__ void sum_parts(double *part, i64 count, F f) {
    double sum = 0;
    GRID_LOOP(i, count) sum += f(i);
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static __global__ void sum_end(array y, const double *part, int parts, double divisor, bool add) {
    double sum = 0;
    for (int i = threadIdx.x; i < parts; i += blockDim.x)
        sum += part[i];
    sum = block_sum_double(sum);
    if (threadIdx.x == 0)
        put(y, 0, (float)(sum / divisor), add);
}

template <class F> static sl_err mean_of(const sl_cuda_call *call, i64 count, F f) {
    unsigned blocks = blocks_for(count, THREADS * 4);
    blocks = blocks < PARTS ? blocks : (unsigned)PARTS;
    double *part = (double *)call->scratch;
    sum_parts<<<blocks, THREADS, 0, call->stream>>>(part, count, f);
    sum_end<<<1, THREADS, 0, call->stream>>>(out_array(call, 0), part, (int)blocks, (double)count,
                                             call->add);
    return launched(call);
}

static sl_err k_mse(const sl_cuda_call *call) {
    return mean_of(call, call->instr->in[0].numel, mse_term{in_array(call, 0), in_array(call, 1)});
}

static sl_err k_bce(const sl_cuda_call *call) {
    return mean_of(call, call->instr->in[0].numel,
                   bce_term{in_array(call, 0), in_array(call, 1), (float)call->instr->attr[0].f});
}

static __global__ void mse_dx(array dx, array dloss, array x, array t, i64 count, bool add) {
    float factor = 2 * get(dloss, 0) / (float)count;
    GRID_LOOP(i, count) put(dx, i, factor * (get(x, i) - get(t, i)), add);
}

static sl_err k_mse_dx(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    mse_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), in_array(call, 2), count,
        call->add);
    return launched(call);
}

/* Computes the gradient of the logits, or, if of.t.at is NULL, of the targets. */
static __global__ void bce_d(array d, array dloss, bce_term of, i64 count, bool add) {
    float each = get(dloss, 0) / (float)count, weight = of.weight;
    GRID_LOOP(i, count) {
        float v = get(of.x, i), target = of.t.at ? get(of.t, i) : 0, u = 1 + (weight - 1) * target;
        float slope =
            of.t.at ? (1 - target) - u / (1 + expf(v)) : (weight - 1) * softplus_of_minus(v) - v;
        put(d, i, each * slope, add);
    }
}

static sl_err k_bce_d(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    bce_d<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0),
        bce_term{in_array(call, 1), in_array(call, 2), (float)call->instr->attr[0].f}, count,
        call->add);
    return launched(call);
}

static i64 mean_scratch(const sl_instr *instr) {
    (void)instr;
    return PARTS * (i64)sizeof(double);
}

/* ---- op/losses.c ---- */

static __device__ __forceinline__ float sigmoid_of(float x) { return 1 / (1 + expf(-x)); }
static __device__ __forceinline__ float focal_share(float z, float gamma) {
    return expf(-gamma * softplus_of_minus(-z));
}
static __device__ __forceinline__ float focal_of(float z, float gamma) {
    return focal_share(z, gamma) * softplus_of_minus(z);
}
static __device__ __forceinline__ float focal_slope(float z, float gamma) {
    return -focal_share(z, gamma) * (gamma * sigmoid_of(z) * softplus_of_minus(z) + sigmoid_of(-z));
}
static __device__ __forceinline__ float focal_mix(float t, float alpha, float yes, float no) {
    float a = alpha < 0 ? 1 : alpha, b = alpha < 0 ? 1 : 1 - alpha;
    return t * a * yes + (1 - t) * b * no;
}
static __device__ __forceinline__ float huber_of(float d, float delta) {
    return fabsf(d) <= delta ? 0.5f * d * d : delta * (fabsf(d) - 0.5f * delta);
}

/* k0 and k1 are the attributes. */
#define LOSS(name, term, slope)                                                                    \
    struct name {                                                                                  \
        static __device__ float of(float x, float t, float k0, float k1) {                         \
            (void)k0;                                                                              \
            (void)k1;                                                                              \
            return term;                                                                           \
        }                                                                                          \
        static __device__ float d(float x, float t, float k0, float k1) {                          \
            (void)x;                                                                               \
            (void)k0;                                                                              \
            (void)k1;                                                                              \
            return slope;                                                                          \
        }                                                                                          \
    };

LOSS(contrastive, t *x *x + (1 - t) * fmaxf(k0 - x, 0) * fmaxf(k0 - x, 0),
     2 * t * x - 2 * (1 - t) * fmaxf(k0 - x, 0))
LOSS(focal, focal_mix(t, k0, focal_of(x, k1), focal_of(-x, k1)),
     focal_mix(t, k0, focal_slope(x, k1), -focal_slope(-x, k1)))
LOSS(huber, huber_of(x - t, k0), fminf(fmaxf(x - t, -k0), k0))
LOSS(kl, t > 0 ? t * (logf(t) - x) : 0, -t)
LOSS(l1, fabsf(x - t), x > t ? 1.0f : x < t ? -1.0f : 0.0f)

struct pair {
    array x, t;
    float k0, k1;
    double terms; /* number that the sum is divided by */
};

/* x is input `first`. For kl with batchmean the sum is divided by the first size. */
static pair pair_of(const sl_cuda_call *call, int first) {
    const sl_attr_desc *desc = call->instr->op->attrs;
    const union sl_attr *attr = call->instr->attr;
    const sl_operand *x = &call->instr->in[first];
    pair p = {in_array(call, first), in_array(call, first + 1), 0, 0, (double)x->numel};
    bool flag = desc && desc[0].kind == SL_ATTR_BOOL;
    if (flag && attr[0].i && x->shape.rank)
        p.terms = (double)x->shape.dim[0];
    if (desc && !flag) {
        p.k0 = (float)attr[0].f;
        p.k1 = desc[1].name ? (float)attr[1].f : 0;
    }
    return p;
}

template <class F> struct term {
    pair p;
    __device__ double operator()(i64 i) const {
        return (double)F::of(get(p.x, i), get(p.t, i), p.k0, p.k1);
    }
};

template <class F> static sl_err k_loss(const sl_cuda_call *call) {
    pair p = pair_of(call, 0);
    i64 count = call->instr->in[0].numel;
    unsigned blocks = blocks_for(count, THREADS * 4);
    blocks = blocks < PARTS ? blocks : (unsigned)PARTS;
    double *part = (double *)call->scratch;
    sum_parts<<<blocks, THREADS, 0, call->stream>>>(part, count, term<F>{p});
    sum_end<<<1, THREADS, 0, call->stream>>>(out_array(call, 0), part, (int)blocks, p.terms,
                                             call->add);
    return launched(call);
}

template <class F>
static __global__ void loss_dx(array dx, array dloss, pair p, i64 count, bool add) {
    float each = (float)((double)get(dloss, 0) / p.terms);
    GRID_LOOP(i, count) put(dx, i, each * F::d(get(p.x, i), get(p.t, i), p.k0, p.k1), add);
}

template <class F> static sl_err k_loss_dx(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    loss_dx<F><<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), pair_of(call, 1), count, call->add);
    return launched(call);
}

/* One block counts the targets that are valid, then sums. */
static __global__ void nll(array y, array x, const int32_t *target, rows z, int64_t ignore,
                           bool add) {
    double sum = 0, valid = 0;
    for (i64 r = threadIdx.x; r < z.count; r += blockDim.x)
        if (target[r] != ignore) {
            sum -= (double)get(x, r * z.n + target[r]);
            valid += 1;
        }
    sum = block_sum_double(sum);
    valid = block_sum_double(valid);
    if (threadIdx.x == 0)
        put(y, 0, valid > 0 ? (float)(sum / valid) : 0, add);
}

static sl_err k_nll(const sl_cuda_call *call) {
    nll<<<1, 1024, 0, call->stream>>>(out_array(call, 0), in_array(call, 0),
                                      (const int32_t *)call->in[1], rows_of(call->instr->in[0]),
                                      call->instr->attr[0].i, call->add);
    return launched(call);
}

/* Every block counts the valid targets anew, since there are few rows. */
static __global__ void nll_dx(array dx, array dloss, const int32_t *target, rows z, int64_t ignore,
                              bool add) {
    double valid = 0;
    for (i64 r = threadIdx.x; r < z.count; r += blockDim.x)
        valid += target[r] != ignore;
    valid = block_sum_double(valid);
    float each = valid > 0 ? (float)((double)get(dloss, 0) / valid) : 0;
    GRID_LOOP(i, z.count * z.n) {
        int32_t named = target[i / z.n];
        put(dx, i, named != ignore && named == i % z.n ? -each : 0, add);
    }
}

static sl_err k_nll_dx(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->out[0]);
    nll_dx<<<blocks_for(z.count * z.n, THREADS * 4), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], z,
        call->instr->attr[0].i, call->add);
    return launched(call);
}

#define LOSS_ROWS(name)                                                                            \
    {#name, k_loss<name>, mean_scratch}, { #name "_dx", k_loss_dx < name> }

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_losses[] = {
    {"bce_with_logits", k_bce, mean_scratch},
    {"bce_with_logits_dt", k_bce_d},
    {"bce_with_logits_dx", k_bce_d},
    {"mse", k_mse, mean_scratch},
    {"mse_dx", k_mse_dx},
    {"nll", k_nll},
    {"nll_dx", k_nll_dx},
    LOSS_ROWS(contrastive), LOSS_ROWS(focal), LOSS_ROWS(huber), LOSS_ROWS(kl), LOSS_ROWS(l1),
    {},
};
/* clang-format on */
