/* Losses: cross_entropy, bce_with_logits, mse, and their gradients.
 *
 * cross_entropy reads a row of logits once for its maximum and sum (kept together while it reads),
 * in whatever type they have, and keeps only the row's lse; the gradient may lie on the logits. */
#include "device/cuda/kernels.cuh"

/* ---- sums of many terms: partial sums of blocks, then one block; in double ---- */

enum { PARTS = 1024 };

static __device__ double block_sum_double(double v) {
    __shared__ double part[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    if (lane == 0)
        part[warp] = v;
    __syncthreads();
    v = lane < warps ? part[lane] : 0;
    for (int h = 16; h; h /= 2)
        v += __shfl_xor_sync(~0u, v, h);
    __syncthreads();
    return v;
}

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

/* of the logits, or (of.t.at is NULL) of the targets */
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

/* ---- cross entropy ---- */

struct online { /* maximum and sum of exponentials of what was read so far */
    float most, sum;
};
static __device__ __forceinline__ void see(online &o, float x) {
    if (x > o.most) {
        o.sum = o.sum * fast_exp(o.most - x) + 1;
        o.most = x;
    } else {
        o.sum += fast_exp(x - o.most);
    }
}
static __device__ __forceinline__ void see(online &o, const eight &e) {
    float most = o.most;
    for (int k = 0; k < 8; k++)
        most = fmaxf(most, e.v[k]);
    if (most > o.most) {
        o.sum *= fast_exp(o.most - most);
        o.most = most;
    }
    for (int k = 0; k < 8; k++)
        o.sum += most == -INFINITY ? 0 : fast_exp(e.v[k] - most);
}

struct ce {
    array x, lse;
    const int32_t *target;
    i64 n;
    int64_t ignore;
    float smoothing;
};

enum { AT_ONCE = 4 }; /* eights that a thread asks for before it works on the first */

static __device__ __forceinline__ float sum_of(const eight &e) {
    float sum = 0;
    for (int k = 0; k < 8; k++)
        sum += e.v[k];
    return sum;
}

/* A row of n elements from `base` on: those before the first multiple of 8, eights, the rest. */
struct stretch {
    i64 head, eights, singles;
    /* The j-th of those that are in no eight. */
    __device__ __forceinline__ i64 single(i64 j) const { return j < head ? j : j + 8 * eights; }
};
static __device__ __forceinline__ stretch stretch_of(i64 base, i64 n, bool wide) {
    i64 head = (8 - base % 8) % 8;
    if (!wide || head > n)
        return {n, 0, n};
    i64 eights = (n - head) / 8;
    return {head, eights, n - 8 * eights};
}

/* AT_ONCE eights of a row, from the thread's j-th on. */
static __device__ __forceinline__ void get_eights(eight e[AT_ONCE], const array &x, i64 base,
                                                  const stretch &s, i64 j) {
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++)
        if (j + u * blockDim.x < s.eights)
            e[u] = get8(x, base + s.head + 8 * (j + u * blockDim.x));
}

/* A row's loss goes to `loss`; 0 where the target does not count. HALF: logits are bf16; known
 * here, loads need not wait for each other. */
template <bool HALF> static __global__ void ce_rows(ce c, float *loss, bool wide) {
    c.x.half = HALF;
    i64 row = blockIdx.x, base = row * c.n;
    online o = {-INFINITY, 0};
    float all = 0;
    stretch s = stretch_of(base, c.n, wide);
    for (i64 j = threadIdx.x; j < s.eights; j += AT_ONCE * blockDim.x) {
        eight e[AT_ONCE];
        get_eights(e, c.x, base, s, j);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (j + u * blockDim.x < s.eights) {
                see(o, e[u]);
                all += c.smoothing > 0 ? sum_of(e[u]) : 0;
            }
    }
    for (i64 j = threadIdx.x; j < s.singles; j += blockDim.x) {
        float v = get(c.x, base + s.single(j));
        see(o, v);
        all += v;
    }
    float most = block_max(o.most);
    float sum = block_sum(o.most == -INFINITY ? 0 : o.sum * expf(o.most - most));
    float lse = most + logf(sum);
    if (c.smoothing > 0)
        all = block_sum(all);
    if (threadIdx.x == 0) {
        int32_t t = c.target[row];
        float each = c.smoothing / (float)c.n;
        put(c.lse, row, lse);
        loss[row] = t == c.ignore ? 0
                                  : (1 - c.smoothing) * (lse - get(c.x, base + t)) +
                                        (c.smoothing > 0 ? each * ((float)c.n * lse - all) : 0);
    }
}

/* One block, since rows are few: the mean of the losses, or (loss is NULL) how many count. */
static __global__ void ce_end(ce c, array y, const float *loss, i64 rows, float *count, bool add) {
    double sum = 0, valid = 0;
    for (i64 i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += loss ? (double)loss[i] : 0;
        valid += c.target[i] != c.ignore;
    }
    sum = block_sum_double(sum);
    valid = block_sum_double(valid);
    if (threadIdx.x != 0)
        return;
    if (loss)
        put(y, 0, valid > 0 ? (float)(sum / valid) : 0, add);
    else
        *count = (float)valid;
}

static ce ce_of(const sl_cuda_call *call, int logits) {
    rows z = rows_of(call->instr->in[logits]);
    ce c = {};
    c.x = in_array(call, logits);
    c.target = (const int32_t *)call->in[logits + 1];
    c.n = z.n;
    c.ignore = call->instr->attr[0].i;
    c.smoothing = (float)call->instr->attr[1].f;
    return c;
}

static unsigned ce_threads(i64 n) { return n < 512 ? 64 : n < 8192 ? 256 : 1024; }

static sl_err k_cross_entropy(const sl_cuda_call *call) {
    ce c = ce_of(call, 0);
    i64 count = call->instr->in[0].numel / c.n;
    c.lse = out_array(call, 1);
    float *loss = (float *)call->scratch;
    bool wide = fit8(c.x);
    unsigned threads = ce_threads(c.n);
    if (c.x.half)
        ce_rows<true><<<(unsigned)count, threads, 0, call->stream>>>(c, loss, wide);
    else
        ce_rows<false><<<(unsigned)count, threads, 0, call->stream>>>(c, loss, wide);
    ce_end<<<1, 1024, 0, call->stream>>>(c, out_array(call, 0), loss, count, NULL, call->add);
    return launched(call);
}

struct slopes {                     /* of a row */
    float lse, spread, scale, peak; /* peak: what the target has more than the others */
    i64 target;
    __device__ __forceinline__ float of(float x, i64 j) const {
        return scale * (fast_exp(x - lse) - (spread + (j == target ? peak : 0)));
    }
};

/* Of eight logits from column `col` on, to dx from `at` on. */
static __device__ __forceinline__ void put_slopes(array dx, i64 at, eight e, const slopes &g,
                                                  i64 col, bool add) {
    eight old = add ? get8(dx, at) : eight{};
    for (int k = 0; k < 8; k++) {
        float v = g.of(e.v[k], col + k);
        e.v[k] = add ? old.v[k] + v : v;
    }
    put8(dx, at, e);
}

/* SAME: logits and dx are of the type HALF says. */
template <bool SAME, bool HALF>
static __global__ void ce_dx(ce c, array dx, array dloss, const float *count, bool wide, bool add) {
    if (SAME)
        c.x.half = dx.half = HALF;
    i64 row = blockIdx.x, base = row * c.n;
    float each = *count > 0 ? get(dloss, 0) / *count : 0;
    int32_t t = c.target[row];
    slopes g = {get(c.lse, row), c.smoothing / (float)c.n, t == c.ignore ? 0 : each,
                1 - c.smoothing, t};
    stretch s = stretch_of(base, c.n, wide);
    for (i64 j = threadIdx.x; j < s.eights; j += AT_ONCE * blockDim.x) {
        eight e[AT_ONCE];
        get_eights(e, c.x, base, s, j);
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (j + u * blockDim.x < s.eights) {
                i64 at = s.head + 8 * (j + u * blockDim.x);
                put_slopes(dx, base + at, e[u], g, at, add);
            }
    }
    for (i64 i = threadIdx.x; i < s.singles; i += blockDim.x) {
        i64 j = s.single(i);
        put(dx, base + j, g.of(get(c.x, base + j), j), add);
    }
}

static sl_err k_cross_entropy_dx(const sl_cuda_call *call) {
    ce c = ce_of(call, 1);
    i64 count = call->instr->in[1].numel / c.n;
    c.lse = in_array(call, 3);
    array dx = out_array(call, 0);
    float *valid = (float *)call->scratch;
    bool wide = fit8(c.x, dx);
    ce_end<<<1, 1024, 0, call->stream>>>(c, array{}, NULL, count, valid, false);
    unsigned blocks = (unsigned)count, threads = ce_threads(c.n);
    array dloss = in_array(call, 0);
    if (c.x.half && dx.half)
        ce_dx<true, true>
            <<<blocks, threads, 0, call->stream>>>(c, dx, dloss, valid, wide, call->add);
    else
        ce_dx<false, false>
            <<<blocks, threads, 0, call->stream>>>(c, dx, dloss, valid, wide, call->add);
    return launched(call);
}

static i64 ce_scratch(const sl_instr *instr) {
    int logits = instr->out_count == 2 ? 0 : 1;
    return (rows_of(instr->in[logits]).count + 64) * (i64)sizeof(float);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_losses[] = {
    {"bce_with_logits", k_bce, mean_scratch},
    {"bce_with_logits_dt", k_bce_d},
    {"bce_with_logits_dx", k_bce_d},
    {"cross_entropy", k_cross_entropy, ce_scratch},
    {"cross_entropy_dx", k_cross_entropy_dx, ce_scratch},
    {"mse", k_mse, mean_scratch},
    {"mse_dx", k_mse_dx},
    {},
};
/* clang-format on */
