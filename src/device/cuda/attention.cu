/* attention and its gradients for any head size and dtype. A warp serves one query (forward, dq)
 * or one key (dk, dv); its lanes share the keys or queries of the scores and the features of the
 * sums. The score matrix is never stored. 16-bit operands use cuDNN where it supports them
 * (attention_dnn.c), other heads of 64 use flash*.cu.
 *
 *   y = softmax(scale q k') v     lse is kept;   D_t = sum over features of dy_t y_t
 *   p = exp(scale q k' - lse)     ds = p (dy v' - D) scale      dq = ds k   dk = ds' q   dv = p' dy
 */
#include "device/cuda/attention.cuh"
#include "device/cuda/attention_dnn.h"

enum { WARPS = 4, MAX_D = 256, PER_LANE = MAX_D / 32 };

/* Does query t attend to key j? */
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

/* acc += factor * row, over the features of this lane. */
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

/* D_t, indexed like lse. One thread adds in the order of dot_rows, so that ds is exactly 0 for a
 * query that attends to one key. */
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

/* The same by a warp. Fast; enough for the tensor cores, which round anyway. */
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

/* p and ds of one query and one key. The rows of one side are in registers, those of the other in
 * memory. */
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

/* One key: all queries of all heads that read it. */
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

/* ---- by cuDNN ---- */

/* Maximum bytes of the gradients of scores of one part of the batch, in a backward pass. */
static const i64 max_scores = (i64)7 << 28;

static bool plain_half(const sl_operand &o) {
    return sl_dtype_is_half(o.dtype) && o.offset % 16 == 0 && row_of(o) % 8 == 0;
}

/* q: index of the first of the inputs q, k, v. */
static bool dnn_key(const sl_instr *instr, int q, sl_dnn_attention *key) {
    const sl_operand *in = instr->in + q, *out = instr->out;
    int mask = q ? 6 : 3;
    memset(key, 0, sizeof *key);
    key->backward = q != 0;
    key->half = sl_half_of(in[0].dtype);
    key->causal = instr->attr[0].i != 0;
    key->batch = in[0].shape.dim[0];
    key->queries = in[0].shape.dim[1];
    key->heads = in[0].shape.dim[2];
    key->width = in[0].shape.dim[3];
    key->keys = in[1].shape.dim[1];
    key->q_row = row_of(in[0]);
    key->k_row = row_of(in[1]);
    key->v_row = row_of(in[2]);
    bool halves = plain_half(in[0]) && plain_half(in[1]) && plain_half(in[2]) &&
                  plain_half(q ? instr->in[4] : out[0]) && (!q || plain_half(instr->in[0]));
    if (q) {
        key->dq_row = row_of(out[0]);
        key->dk_row = row_of(out[1]);
        key->dv_row = row_of(out[2]);
        halves = halves && plain_half(out[0]) && plain_half(out[1]) && plain_half(out[2]);
    }
    key->masked = instr->in_count > mask && instr->in[mask].space != SL_SPACE_NONE;
    return halves && key->heads == in[1].shape.dim[2] && key->width % 8 == 0 && key->width >= 32 &&
           key->width <= 128 && !(key->masked && key->causal) &&
           (!key->causal || key->queries == key->keys);
}

/* The largest part of the batch whose scores fit. */
static i64 part_of(const sl_dnn_attention &key) {
    i64 each = key.heads * key.queries * key.keys * 2, part = key.batch;
    while (part > 1 && (key.batch % part || part * each > max_scores))
        part--;
    return part;
}

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

/* Scratch is [dots of the whole batch] [counts] [workspace of one part]. Bytes of the dots: */
static i64 dots_of(const att &z, const sl_dnn_attention &key) {
    return key.backward ? padded(z.b * z.hq * z.t * (i64)sizeof(float)) : 0;
}

/* For a mask: how many queries and keys of each sample are not padding, and which samples cuDNN
 * cannot do. The counts of a part of the batch begin at a multiple of 16 bytes. */
struct counts {
    int32_t *queries, *keys, *left;
    i64 part, stride;
    __host__ __device__ i64 at(i64 b) const { return b / part * stride + b % part; }
};

static counts counts_at(const att &z, const sl_dnn_attention &key, char *scratch) {
    i64 stride = (key.batch + 3) / 4 * 4, all = z.b / key.batch * stride;
    int32_t *first = (int32_t *)(scratch + dots_of(z, key));
    return {first, first + all, first + 2 * all, key.batch, stride};
}

static i64 counts_of(const att &z, const sl_dnn_attention &key) {
    counts c = counts_at(z, key, NULL);
    return key.masked ? padded((2 * (c.keys - c.queries) + z.b) * (i64)sizeof(int32_t)) : 0;
}

/* Does cuDNN support this call? The key is then that of a part of the batch. */
static bool dnn_fits(sl_cuda_device *cuda, const sl_instr *instr, int q, sl_dnn_attention *key,
                     i64 *workspace) {
    if (!dnn_key(instr, q, key))
        return false;
    i64 batch = key->batch;
    if (key->backward)
        key->batch = part_of(*key);
    /* every part must begin aligned */
    if (key->batch < batch && (key->queries % 8 || key->keys % 8))
        return false;
    *workspace = sl_cuda_dnn_attention_bytes(cuda, key);
    return *workspace >= 0;
}

/* ---- masks ----
 *
 * cuDNN knows padding: of a sample, the first so many keys count. A mask may be anything, and only
 * the GPU knows what it is. So cuDNN is told the lengths of those samples that end in padding, and
 * the own kernels serve those with holes, or without any key; both are launched every time.
 */

/* A block per sample. cuDNN's result is overwritten for a sample whose mask has holes. */
static __global__ void count_keys(const int32_t *mask, i64 queries, i64 keys, counts c) {
    i64 b = blockIdx.x;
    int seen = 0, holes = 0;
    for (i64 j = threadIdx.x; j < keys; j += blockDim.x) {
        bool sees = mask[b * keys + j] != 0;
        seen += sees;
        holes |= sees && j > 0 && mask[b * keys + j - 1] == 0;
    }
    holes = __syncthreads_or(holes);
    __shared__ int sums[THREADS / 32];
    seen = __reduce_add_sync(~0u, seen);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = seen;
    __syncthreads();
    if (threadIdx.x)
        return;
    for (int i = 1; i < THREADS / 32; i++)
        seen += sums[i];
    bool left = holes || seen == 0;
    c.queries[c.at(b)] = (int32_t)queries;
    c.keys[c.at(b)] = left ? 1 : seen;
    c.left[b] = left;
}

/* Sets the gradients of padding to 0, which cuDNN does not write. A warp per key. */
static __global__ void clear_padding(att z) {
    i64 row = warp_number(), b = row / z.s, j = row % z.s;
    if (b >= z.b || is_mine(z, b) || z.mask[row])
        return;
    eight zeros = {};
    for (i64 i = 8 * (threadIdx.x % 32); i < z.hk * z.d; i += 8 * 32) {
        put8(z.dk, at_k(z, z.dk_row, b, j, 0) + i, zeros);
        put8(z.dv, at_k(z, z.dv_row, b, j, 0) + i, zeros);
    }
}

/* Runs one part of the batch, from sample b on. */
static sl_err dnn_part(const sl_cuda_call *call, const att &z, const sl_dnn_attention &key, i64 b) {
    i64 t = b * z.t * 2, s = b * z.s * 2, y_row = z.hq * z.d; /* bytes per element of a row */
    counts c = counts_at(z, key, (char *)call->scratch);
    sl_dnn_attention_io io = {};
    io.q = (char *)z.q.at + t * z.q_row;
    io.k = (char *)z.k.at + s * z.k_row;
    io.v = (char *)z.v.at + s * z.v_row;
    io.y = (char *)z.y.at + t * y_row;
    io.lse = (float *)z.lse.at + b * z.hq * z.t;
    if (key.backward) {
        io.dy = (char *)z.dy.at + t * y_row;
        io.dq = (char *)z.dq.at + t * z.dq_row;
        io.dk = (char *)z.dk.at + s * z.dk_row;
        io.dv = (char *)z.dv.at + s * z.dv_row;
        io.dots = (float *)call->scratch + b * z.hq * z.t;
    }
    io.query_counts = c.queries + c.at(b);
    io.key_counts = c.keys + c.at(b);
    io.workspace = (char *)c.queries + counts_of(z, key);
    io.scale = z.scale;
    io.stream = call->stream;
    return sl_cuda_dnn_attention_run(call->device, &key, &io);
}

/* With a mask, z.only then names the samples that remain for the other kernels. */
static sl_err dnn_run(const sl_cuda_call *call, att &z, const sl_dnn_attention &key) {
    counts c = counts_at(z, key, (char *)call->scratch);
    if (key.masked)
        count_keys<<<(unsigned)z.b, THREADS, 0, call->stream>>>(z.mask, z.t, z.s, c);
    for (i64 b = 0; b < z.b; b += key.batch)
        SL_TRY(dnn_part(call, z, key, b));
    z.only = key.masked ? c.left : NULL;
    if (key.masked && key.backward)
        clear_padding<<<warps_for(z.b * z.s), 32 * WARPS, 0, call->stream>>>(z);
    return launched(call);
}

static i64 dnn_bytes(const sl_cuda_call *call) {
    sl_dnn_attention key;
    i64 workspace;
    bool backward = call->instr->out_count > 2;
    att z = backward ? att_backward(call) : att_forward(call);
    if (!dnn_fits(call->device, call->instr, backward, &key, &workspace))
        return 0;
    return dots_of(z, key) + counts_of(z, key) + workspace;
}

/* ---- kernels ---- */

static sl_err k_attention(const sl_cuda_call *call) {
    att z = att_forward(call);
    sl_dnn_attention key;
    i64 workspace;
    SL_TRY(check_size(z));
    if (dnn_fits(call->device, call->instr, 0, &key, &workspace)) {
        SL_TRY(dnn_run(call, z, key));
        if (!z.only)
            return SL_OK;
    }
    if (flash_fits(z))
        return flash_forward(call, z);
    forward<<<warps_for(z.b * z.hq * z.t), 32 * WARPS, 0, call->stream>>>(z);
    return launched(call);
}

static sl_err k_attention_dqkv(const sl_cuda_call *call) {
    att z = att_backward(call);
    sl_dnn_attention key;
    i64 workspace, queries = z.b * z.hq * z.t;
    SL_TRY(check_size(z));
    if (dnn_fits(call->device, call->instr, 1, &key, &workspace)) {
        SL_TRY(dnn_run(call, z, key));
        if (!z.only)
            return SL_OK;
    }
    if (flash_fits(z)) {
        if (!z.only) /* else cuDNN has computed the dots of all samples */
            row_dots<<<warps_for(queries), 32 * WARPS, 0, call->stream>>>(z);
        return flash_backward(call, z);
    }
    row_dots_exact<<<blocks_for(queries, THREADS), THREADS, 0, call->stream>>>(z);
    back_q<<<warps_for(z.b * z.hq * z.t), 32 * WARPS, 0, call->stream>>>(z);
    back_k<<<warps_for(z.b * z.hk * z.s), 32 * WARPS, 0, call->stream>>>(z);
    return launched(call);
}

static i64 dots_bytes(const sl_instr *instr) { return instr->in[5].numel * (i64)sizeof(float); }

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_attentions[] = {
    {"attention", k_attention, NULL, false, dnn_bytes},
    {"attention_dqkv", k_attention_dqkv, dots_bytes, false, dnn_bytes},
    {},
};
/* clang-format on */
