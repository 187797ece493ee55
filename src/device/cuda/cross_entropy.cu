/* cross_entropy and its gradient, separate or fused (pass/fused.h). A block handles one row of
 * logits of any float type:
 *
 *   row -> shared memory, with running maximum and sum -> loss, lse
 *                        -> dx = (p - target) dloss / count, which may overwrite the logits
 *
 * The fused kernel reads and writes the logits once. Both ways use the same arithmetic and give
 * the same bits. A row that does not fit into shared memory is read twice.
 */
#include "device/cuda/sums.cuh"

enum {
    CE_THREADS = 512, /* threads of a block for the longest rows: two blocks fit a multiprocessor */
    CE_SHARED = 220 * 1024, /* largest number of bytes of a row in shared memory */
    AT_ONCE = 4,            /* groups of eight that a thread loads before it uses the first */
};

struct online { /* running maximum and sum of exponentials */
    float max, sum;
};
static __device__ __forceinline__ void see(online &o, float x) {
    if (x > o.max) {
        o.sum = o.sum * fast_exp(o.max - x) + 1;
        o.max = x;
    } else {
        o.sum += x == -INFINITY ? 0 : fast_exp(x - o.max);
    }
}
static __device__ __forceinline__ void see(online &o, const eight &e) {
    float max = o.max, sum = 0;
#pragma unroll
    for (int k = 0; k < 8; k++)
        max = fmaxf(max, e.v[k]);
    if (max == -INFINITY)
        return;
    if (max > o.max) {
        o.sum *= fast_exp(o.max - max);
        o.max = max;
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum += fast_exp(e.v[k] - max);
    o.sum += sum;
}

static __device__ __forceinline__ float sum_of(const eight &e) {
    float sum = 0;
    for (int k = 0; k < 8; k++)
        sum += e.v[k];
    return sum;
}

/* ---- rows ---- */

/* A row of n elements from `base` on, in three parts: the elements before the first multiple of 8,
 * groups of eight, the rest. */
struct stretch {
    i64 head, eights, singles;
    /* Returns the j-th element that is in no group of eight. */
    __device__ __forceinline__ i64 single(i64 j) const { return j < head ? j : j + 8 * eights; }
};
static __device__ __forceinline__ stretch stretch_of(i64 base, i64 n, bool wide) {
    i64 head = (8 - base % 8) % 8;
    if (!wide || head > n)
        return {n, 0, n};
    i64 eights = (n - head) / 8;
    return {head, eights, n - 8 * eights};
}

extern __shared__ uint4 ce_kept[];

/* The groups of eight of a row. With KEPT, a thread copies its own groups to shared memory and
 * reads them there. */
template <int HALF, bool KEPT> struct row_eights {
    enum { PIECES = HALF ? 1 : 2 }; /* pieces of 16 bytes in a group of eight */
    const uint4 *from;
    __device__ __forceinline__ void ask(i64 eights) const {
        for (i64 j = threadIdx.x; KEPT && j < eights; j += blockDim.x)
            for (int i = 0; i < PIECES; i++)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                                 (unsigned)__cvta_generic_to_shared(&ce_kept[PIECES * j + i])),
                             "l"(&from[PIECES * j + i])
                             : "memory");
    }
    __device__ __forceinline__ void wait() const {
        if (KEPT)
            asm volatile("cp.async.wait_all;" ::: "memory");
    }
    __device__ __forceinline__ eight get(i64 j) const {
        return get8(array{(void *)(KEPT ? ce_kept : from), HALF}, 8 * j);
    }
};

struct ce {
    array x, lse;
    const int32_t *target;
    i64 n;
    int64_t ignore;
    float smoothing;
};

struct ce_down { /* operands of the gradient; if dx.at is NULL, only the loss is computed */
    array dx, dloss;
    const float *count; /* number of targets that are not ignored */
};

struct slopes {                     /* the values that the gradients of a row depend on */
    float lse, spread, scale, peak; /* peak is the additional gradient of the target */
    i64 target;
    __device__ __forceinline__ float of(float x, bool wanted) const {
        float v = scale * (fast_exp(x - lse) - spread);
        return wanted ? v - scale * peak : v;
    }
};

static __device__ __forceinline__ slopes slopes_of(const ce &c, const ce_down &d, int32_t target,
                                                   float lse) {
    float each = *d.count > 0 ? get(d.dloss, 0) / *d.count : 0;
    return {lse, c.smoothing / (float)c.n, target == c.ignore ? 0 : each, 1 - c.smoothing, target};
}

/* Returns the gradients of the eight logits from column `col` on. */
static __device__ __forceinline__ eight slopes_at(const slopes &g, eight e, i64 col) {
    if (g.target >= col && g.target < col + 8) {
#pragma unroll
        for (int k = 0; k < 8; k++)
            e.v[k] = g.of(e.v[k], col + k == g.target);
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            e.v[k] = g.of(e.v[k], false);
    }
    return e;
}

/* Writes the loss of each row to `loss`; 0 for an ignored target. The type of logits and dx is the
 * template parameter HALF, so that loads can overlap. */
template <int HALF, bool KEPT>
static __global__ void __launch_bounds__(CE_THREADS, 2)
    ce_rows(ce c, ce_down d, float *loss, bool wide) {
    c.x.half = d.dx.half = HALF;
    i64 row = blockIdx.x, base = row * c.n;
    stretch s = stretch_of(base, c.n, wide);
    row_eights<HALF, KEPT> eights = {
        (const uint4 *)((const char *)c.x.at + (base + s.head) * (HALF ? 2 : 4))};
    eights.ask(s.eights);
    int32_t t = c.target[row];
    /* read it before dx is written, because dx may overwrite it */
    float at_target = t == c.ignore ? 0 : get(c.x, base + t);
    online o = {-INFINITY, 0};
    float all = 0;
    eights.wait();
#pragma unroll 4
    for (i64 j = threadIdx.x; j < s.eights; j += blockDim.x) {
        eight e = eights.get(j);
        see(o, e);
        all += c.smoothing > 0 ? sum_of(e) : 0;
    }
    for (i64 j = threadIdx.x; j < s.singles; j += blockDim.x) {
        float v = get(c.x, base + s.single(j));
        see(o, v);
        all += v;
    }
    float max = block_max(o.max);
    float sum = block_sum(o.max == -INFINITY ? 0 : o.sum * expf(o.max - max));
    float lse = max + logf(sum);
    if (c.smoothing > 0)
        all = block_sum(all);
    if (threadIdx.x == 0) {
        float each = c.smoothing / (float)c.n;
        put(c.lse, row, lse);
        loss[row] = t == c.ignore ? 0
                                  : (1 - c.smoothing) * (lse - at_target) +
                                        (c.smoothing > 0 ? each * ((float)c.n * lse - all) : 0);
    }
    if (!d.dx.at)
        return;
    slopes g = slopes_of(c, d, t, lse);
#pragma unroll 4
    for (i64 j = threadIdx.x; j < s.eights; j += blockDim.x)
        put8(d.dx, base + s.head + 8 * j, slopes_at(g, eights.get(j), s.head + 8 * j));
    for (i64 i = threadIdx.x; i < s.singles; i += blockDim.x) {
        i64 j = s.single(i);
        put(d.dx, base + j, g.of(get(c.x, base + j), j == t));
    }
}

/* Computes the mean of the losses; if `loss` is NULL, the number of targets that are not ignored.
 * One block is enough, because there are few rows. */
static __global__ void ce_end(ce c, array y, const float *loss, i64 rows, float *count, bool add) {
    double sum = 0, valid = 0;
#pragma unroll 8
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

/* With SAME, logits and dx have the type HALF. */
template <bool SAME, int HALF>
static __global__ void __launch_bounds__(CE_THREADS, 2)
    ce_dx(ce c, ce_down d, bool wide, bool add) {
    if (SAME)
        c.x.half = d.dx.half = HALF;
    i64 row = blockIdx.x, base = row * c.n;
    slopes g = slopes_of(c, d, c.target[row], get(c.lse, row));
    stretch s = stretch_of(base, c.n, wide);
    for (i64 j = threadIdx.x; j < s.eights; j += AT_ONCE * blockDim.x) {
        eight e[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (j + u * blockDim.x < s.eights)
                e[u] = get8(c.x, base + s.head + 8 * (j + u * blockDim.x));
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            if (j + u * blockDim.x < s.eights) {
                i64 at = s.head + 8 * (j + u * blockDim.x);
                eight v = slopes_at(g, e[u], at), old = add ? get8(d.dx, base + at) : eight{};
                for (int k = 0; k < 8 && add; k++)
                    v.v[k] += old.v[k];
                put8(d.dx, base + at, v);
            }
    }
    for (i64 i = threadIdx.x; i < s.singles; i += blockDim.x) {
        i64 j = s.single(i);
        put(d.dx, base + j, g.of(get(c.x, base + j), j == g.target), add);
    }
}

/* ---- kernels ---- */

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

static unsigned ce_threads(i64 n) { return n < 512 ? 64 : n < 8192 ? 256 : (unsigned)CE_THREADS; }

template <int HALF, bool KEPT>
static sl_err launch_rows(const sl_cuda_call *call, const ce &c, const ce_down &d, i64 rows,
                          i64 kept_bytes) {
    if (kept_bytes > 48 * 1024)
        SL_TRY(SL_CUDA(cudaFuncSetAttribute(
            ce_rows<HALF, KEPT>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)kept_bytes)));
    ce_rows<HALF, KEPT><<<(unsigned)rows, ce_threads(c.n), (size_t)kept_bytes, call->stream>>>(
        c, d, (float *)call->scratch, fit8(c.x, d.dx));
    return launched(call);
}

template <int HALF>
static sl_err launch_some(const sl_cuda_call *call, const ce &c, const ce_down &d, i64 rows,
                          i64 bytes) {
    return bytes <= CE_SHARED ? launch_rows<HALF, true>(call, c, d, rows, bytes)
                              : launch_rows<HALF, false>(call, c, d, rows, 0);
}

static sl_err run_rows(const sl_cuda_call *call, const ce &c, const ce_down &d, array loss,
                       bool add) {
    i64 rows = call->instr->in[0].numel / c.n, bytes = c.n / 8 * (c.x.half ? 16 : 32);
    SL_TRY(c.x.half == SL_HALF_BF16 ? launch_some<SL_HALF_BF16>(call, c, d, rows, bytes)
           : c.x.half               ? launch_some<SL_HALF_FP16>(call, c, d, rows, bytes)
                                    : launch_some<SL_HALF_NOT>(call, c, d, rows, bytes));
    ce_end<<<1, 1024, 0, call->stream>>>(c, loss, (float *)call->scratch, rows, NULL, add);
    return launched(call);
}

static sl_err run_dx(const sl_cuda_call *call, const ce &c, const ce_down &d, i64 rows, bool add) {
    unsigned threads = ce_threads(c.n);
    bool wide = fit8(c.x, d.dx);
    int half = half_of_all(c.x, d.dx);
    if (half == SL_HALF_BF16)
        ce_dx<true, SL_HALF_BF16><<<(unsigned)rows, threads, 0, call->stream>>>(c, d, wide, add);
    else if (half == SL_HALF_FP16)
        ce_dx<true, SL_HALF_FP16><<<(unsigned)rows, threads, 0, call->stream>>>(c, d, wide, add);
    else
        ce_dx<false, SL_HALF_NOT><<<(unsigned)rows, threads, 0, call->stream>>>(c, d, wide, add);
    return launched(call);
}

/* Counts the targets that are not ignored. The result lies in scratch behind the losses of the
 * rows. */
static const float *count_targets(const sl_cuda_call *call, const ce &c, i64 rows) {
    float *count = (float *)call->scratch + rows;
    ce_end<<<1, 1024, 0, call->stream>>>(c, array{}, NULL, rows, count, false);
    return count;
}

static sl_err k_cross_entropy(const sl_cuda_call *call) {
    ce c = ce_of(call, 0);
    c.lse = out_array(call, 1);
    return run_rows(call, c, ce_down{}, out_array(call, 0), call->add);
}

static sl_err k_cross_entropy_dx(const sl_cuda_call *call) {
    ce c = ce_of(call, 1);
    i64 rows = call->instr->in[1].numel / c.n;
    c.lse = in_array(call, 3);
    ce_down d = {out_array(call, 0), in_array(call, 0), count_targets(call, c, rows)};
    return run_dx(call, c, d, rows, call->add);
}

static sl_err k_cross_entropy_grad(const sl_cuda_call *call) {
    ce c = ce_of(call, 0);
    i64 rows = call->instr->in[0].numel / c.n;
    c.lse = out_array(call, 2);
    ce_down d = {out_array(call, 0), in_array(call, 2), count_targets(call, c, rows)};
    bool together = d.dx.half == c.x.half;
    SL_TRY(run_rows(call, c, together ? d : ce_down{}, out_array(call, 1), false));
    return together ? SL_OK : run_dx(call, c, d, rows, false);
}

static i64 ce_scratch(const sl_instr *instr) {
    int logits = instr->out_count > 1 ? 0 : 1;
    return (rows_of(instr->in[logits]).count + 64) * (i64)sizeof(float);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_entropies[] = {
    {"cross_entropy", k_cross_entropy, ce_scratch},
    {"cross_entropy_dx", k_cross_entropy_dx, ce_scratch},
    {"cross_entropy_grad", k_cross_entropy_grad, ce_scratch},
    {},
};
/* clang-format on */
