/* attention and its gradients. 16-bit operands use cuDNN where it supports them
 * (attention_cudnn.cu), other heads of 64 use flash*.cu. The rest uses products
 * (attention_products.cu). The kernels of this file compute shapes with few queries or keys, and
 * samples whose mask has holes. A warp computes one query (forward, dq) or one key (dk, dv). Its
 * lanes divide the keys or queries when they compute scores, and the features when they compute
 * sums. Scores are not stored.
 *
 *   y = softmax(scale q k') v     lse is kept;   D_t = sum over features of dy_t y_t
 *   p = exp(scale q k' - lse)     ds = p (dy v' - D) scale      dq = ds k   dk = ds' q   dv = p'
 * dy */
#include "device/cuda/attention.cuh"

enum { WARPS = 4, MAX_D = 256, PER_LANE = MAX_D / 32 };

/* Returns true if query t attends to key j. */
static __device__ __forceinline__ bool meets(const att &z, i64 b, i64 t, i64 j) {
    if (j >= z.s || (z.causal && j > t + z.s - z.t))
        return false;
    return !z.mask || z.mask[b * z.s + j] != 0;
}

static __device__ __forceinline__ float dot_rows(const float *a, array k, i64 at, i64 d) {
    float sum = 0;
    for (i64 i = 0; i < d; i++)
        sum += a[i] * get(k, at + i);
    return sum;
}

/* acc += factor * row, for the features of this lane. */
static __device__ __forceinline__ void add_row(float *acc, float factor, array a, i64 at, i64 d) {
    int lane = threadIdx.x % 32;
    for (int i = 0; i < PER_LANE; i++)
        if (i * 32 + lane < d)
            acc[i] += factor * get(a, at + i * 32 + lane);
}

static __device__ i64 warp_number() { return (i64)blockIdx.x * WARPS + threadIdx.x / 32; }

static __global__ void forward(att z) {
    __shared__ float query[WARPS][MAX_D];
    i64 row = warp_number(), t = row % z.t, h = row / z.t % z.hq, b = row / z.t / z.hq;
    int lane = threadIdx.x % 32;
    float *q = query[threadIdx.x / 32];
    if (row >= z.b * z.hq * z.t || !is_mine(z, b))
        return;
    for (i64 i = lane; i < z.d; i += 32)
        q[i] = get(z.q, at_q(z, z.q_row, b, t, h) + i) * z.scale;
    __syncwarp();
    float acc[PER_LANE] = {}, max = -INFINITY, sum = 0;
    i64 last = z.causal ? t + z.s - z.t + 1 : z.s;
    for (i64 j0 = 0; j0 < last; j0 += 32) {
        i64 j = j0 + lane;
        float s = meets(z, b, t, j) ? dot_rows(q, z.k, at_k(z, z.k_row, b, j, h), z.d) : -INFINITY;
        float peak = fmaxf(max, warp_max(s));
        if (peak == -INFINITY)
            continue;
        float shrink = expf(max - peak), p = s == -INFINITY ? 0 : expf(s - peak);
        sum = sum * shrink + warp_sum(p);
        max = peak;
        for (int i = 0; i < PER_LANE; i++)
            acc[i] *= shrink;
        for (int k = 0; k < 32 && j0 + k < last; k++) {
            float pk = __shfl_sync(~0u, p, k);
            add_row(acc, pk, z.v, at_k(z, z.v_row, b, j0 + k, h), z.d);
        }
    }
    for (int i = 0; i < PER_LANE; i++)
        if (i * 32 + lane < z.d)
            put(z.y, at_q(z, z.hq * z.d, b, t, h) + i * 32 + lane, sum > 0 ? acc[i] / sum : 0);
    if (lane == 0)
        put(z.lse, row, sum > 0 ? max + logf(sum) : 0);
}

/* Computes D_t, indexed like lse. One thread adds in the order of dot_rows, so that ds is exactly 0
 * for a query that attends to one key. */
static __global__ void row_dots_exact(att z) {
    GRID_LOOP(row, z.b * z.hq * z.t) {
        i64 t = row % z.t, h = row / z.t % z.hq, b = row / z.t / z.hq;
        i64 at = at_q(z, z.hq * z.d, b, t, h);
        float sum = 0;
        if (!is_mine(z, b))
            continue;
        for (i64 i = 0; i < z.d; i++)
            sum += get(z.dy, at + i) * get(z.y, at + i);
        z.dots[row] = sum;
    }
}

/* The same, computed by a warp: faster, and exact enough for the tensor cores, which round
 * anyway. */
static __global__ void row_dots(att z) {
    i64 row = warp_number(), t = row % z.t, h = row / z.t % z.hq, b = row / z.t / z.hq;
    float sum = 0;
    if (row >= z.b * z.hq * z.t)
        return;
    for (i64 i = threadIdx.x % 32; i < z.d; i += 32) {
        i64 at = at_q(z, z.hq * z.d, b, t, h) + i;
        sum += get(z.y, at) * get(z.dy, at);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        z.dots[row] = sum;
}

/* Computes p and ds of one query and one key. The rows of one are in registers, those of the other
 * in memory. */
struct side {
    const float *a, *b; /* rows q and dy of a query, or k and v of a key */
    float lse, dots;    /* of the query */
};
static __device__ __forceinline__ float2 pair_of(const att &z, const side &s, array a, i64 at_a,
                                                 array b, i64 at_b) {
    float p = expf(dot_rows(s.a, a, at_a, z.d) * z.scale - s.lse);
    return {p, p * (dot_rows(s.b, b, at_b, z.d) - s.dots) * z.scale};
}

static __global__ void back_q(att z) {
    __shared__ float rows_[WARPS][2][MAX_D];
    i64 row = warp_number(), t = row % z.t, h = row / z.t % z.hq, b = row / z.t / z.hq;
    int lane = threadIdx.x % 32;
    float *q = rows_[threadIdx.x / 32][0], *dy = rows_[threadIdx.x / 32][1], acc[PER_LANE] = {};
    if (row >= z.b * z.hq * z.t || !is_mine(z, b))
        return;
    for (i64 i = lane; i < z.d; i += 32) {
        q[i] = get(z.q, at_q(z, z.q_row, b, t, h) + i);
        dy[i] = get(z.dy, at_q(z, z.hq * z.d, b, t, h) + i);
    }
    __syncwarp();
    side s = {q, dy, get(z.lse, row), z.dots[row]};
    i64 last = z.causal ? t + z.s - z.t + 1 : z.s;
    for (i64 j0 = 0; j0 < last; j0 += 32) {
        i64 j = j0 + lane;
        float ds = 0;
        if (meets(z, b, t, j))
            ds = pair_of(z, s, z.k, at_k(z, z.k_row, b, j, h), z.v, at_k(z, z.v_row, b, j, h)).y;
        for (int k = 0; k < 32 && j0 + k < last; k++)
            add_row(acc, __shfl_sync(~0u, ds, k), z.k, at_k(z, z.k_row, b, j0 + k, h), z.d);
    }
    for (int i = 0; i < PER_LANE; i++)
        if (i * 32 + lane < z.d)
            put(z.dq, at_q(z, z.dq_row, b, t, h) + i * 32 + lane, acc[i]);
}

/* Computes one key from all queries of all heads that read it. */
static __global__ void back_k(att z) {
    i64 row = warp_number(), j = row % z.s, hk = row / z.s % z.hk, b = row / z.s / z.hk;
    int lane = threadIdx.x % 32;
    __shared__ float rows_[WARPS][2][MAX_D];
    float *kr = rows_[threadIdx.x / 32][0], *vr = rows_[threadIdx.x / 32][1];
    float dk[PER_LANE] = {}, dv[PER_LANE] = {};
    i64 group = z.hq / z.hk, first_head = hk * group;
    if (row >= z.b * z.hk * z.s || !is_mine(z, b))
        return;
    for (i64 i = lane; i < z.d; i += 32) {
        kr[i] = get(z.k, at_k(z, z.k_row, b, j, first_head) + i);
        vr[i] = get(z.v, at_k(z, z.v_row, b, j, first_head) + i);
    }
    __syncwarp();
    for (i64 h = first_head; h < first_head + group; h++)
        for (i64 t0 = 0; t0 < z.t; t0 += 32) {
            i64 t = t0 + lane;
            float2 pair = {0, 0};
            if (t < z.t && meets(z, b, t, j)) {
                i64 stat = (b * z.hq + h) * z.t + t;
                side s = {kr, vr, get(z.lse, stat), z.dots[stat]};
                pair = pair_of(z, s, z.q, at_q(z, z.q_row, b, t, h), z.dy,
                               at_q(z, z.hq * z.d, b, t, h));
            }
            for (int k = 0; k < 32 && t0 + k < z.t; k++) {
                float pk = __shfl_sync(~0u, pair.x, k), dsk = __shfl_sync(~0u, pair.y, k);
                add_row(dk, dsk, z.q, at_q(z, z.q_row, b, t0 + k, h), z.d);
                add_row(dv, pk, z.dy, at_q(z, z.hq * z.d, b, t0 + k, h), z.d);
            }
        }
    for (int i = 0; i < PER_LANE; i++)
        if (i * 32 + lane < z.d) {
            put(z.dk, at_k(z, z.dk_row, b, j, first_head) + i * 32 + lane, dk[i]);
            put(z.dv, at_k(z, z.dv_row, b, j, first_head) + i * 32 + lane, dv[i]);
        }
}

static unsigned warps_for(i64 rows_) { return (unsigned)((rows_ + WARPS - 1) / WARPS); }

static sl_err check_size(const att &z) {
    return z.d <= MAX_D
               ? SL_OK
               : sl_fail(SL_ERR_REFUSED, "attention on a GPU takes heads of up to %d, not %d",
                         MAX_D, (int)z.d);
}

/* ---- kernels ---- */

/* Returns true if products compute the call: they do for what flash*.cu never supports, at any
 * address. */
static bool by_products(const sl_cuda_call *call, const att &z, bool back) {
    bool flash = z.q.half && z.d == 64 && z.scale > 0;
    return !flash && attention_products_fit(call->device, z, back);
}

static i64 scratch_of(const sl_cuda_call *call) {
    bool back = call->instr->out_count > 2;
    att z = back ? att_backward(call) : att_forward(call);
    i64 bytes = attention_cudnn_bytes(call, z, back);
    return bytes < 0 && by_products(call, z, back) ? attention_products_bytes(z, back) : bytes;
}

static sl_err k_attention(const sl_cuda_call *call) {
    att z = att_forward(call);
    bool done = false;
    SL_TRY(attention_cudnn(call, z, false, &done));
    if (done)
        return SL_OK;
    if (flash_fits(z))
        return flash_forward(call, z);
    if (!z.only && by_products(call, z, false))
        return attention_products(call, z, false);
    SL_TRY(check_size(z));
    forward<<<warps_for(z.b * z.hq * z.t), 32 * WARPS, 0, call->stream>>>(z);
    return launched(call);
}

static sl_err k_attention_dqkv(const sl_cuda_call *call) {
    att z = att_backward(call);
    i64 queries = z.b * z.hq * z.t;
    bool done = false;
    SL_TRY(attention_cudnn(call, z, true, &done));
    if (done)
        return SL_OK;
    if (flash_fits(z)) {
        if (!z.only) /* otherwise cuDNN has computed the dots of all samples */
            row_dots<<<warps_for(queries), 32 * WARPS, 0, call->stream>>>(z);
        return flash_backward(call, z);
    }
    if (!z.only && by_products(call, z, true))
        return attention_products(call, z, true);
    SL_TRY(check_size(z));
    row_dots_exact<<<blocks_for(queries, THREADS), THREADS, 0, call->stream>>>(z);
    back_q<<<warps_for(z.b * z.hq * z.t), 32 * WARPS, 0, call->stream>>>(z);
    back_k<<<warps_for(z.b * z.hk * z.s), 32 * WARPS, 0, call->stream>>>(z);
    return launched(call);
}

static i64 dots_bytes(const sl_instr *instr) { return instr->in[5].numel * (i64)sizeof(float); }

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_attentions[] = {
    {"attention", k_attention, NULL, false, scratch_of},
    {"attention_dqkv", k_attention_dqkv, dots_bytes, false, scratch_of},
    {},
};
/* clang-format on */
