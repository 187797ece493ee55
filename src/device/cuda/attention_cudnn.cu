/* attention by cuDNN, 16 bits (attention_dnn.h): the batch in parts, masks, and grouped heads.
 *
 * cuDNN's deterministic backward pass stores the gradients of scores, so the batch is split into
 * parts whose scores fit; if those of one sample do not fit, other kernels compute the shape.
 * For heads that share keys, each gets a copy of its keys and values; the gradients of the
 * copies are added in order.
 *
 *   scratch   [dots of the batch] [counts] [k] [v] [dk] [dv] of a part, copied, [workspace] */
#include "device/cuda/attention.cuh"
#include "device/cuda/attention_dnn.h"

enum { WARPS = 4 };

static unsigned warps_for(i64 rows_) { return (unsigned)((rows_ + WARPS - 1) / WARPS); }
static __device__ i64 warp_number() { return (i64)blockIdx.x * WARPS + threadIdx.x / 32; }

/* Largest number of bytes for the gradients of scores, in one part of the batch, in a backward
 * pass. */
static const i64 max_scores = (i64)7 << 28;

static bool plain_half(const sl_operand &o) {
    return sl_dtype_is_half(o.dtype) && o.offset % 16 == 0 && row_of(o) % 8 == 0;
}

/* `q` is the index of the first of the inputs q, k, v. */
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
    if (key->heads != in[1].shape.dim[2]) { /* the rows are those of the copies */
        key->k_row = key->v_row = key->heads * key->width;
        key->dk_row = key->dv_row = q ? key->k_row : 0;
    }
    return halves && key->width % 8 == 0 && key->width >= 32 && key->width <= 128 &&
           (!q || key->heads * key->queries * key->keys * 2 <= max_scores) &&
           !(key->masked && key->causal) && (!key->causal || key->queries == key->keys);
}

/* Returns the size of the largest part of the batch whose scores fit. */
static i64 part_of(const sl_dnn_attention &key) {
    i64 each = key.heads * key.queries * key.keys * 2, part = key.batch;
    while (part > 1 && (key.batch % part || part * each > max_scores))
        part--;
    return part;
}

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

static i64 dots_of(const att &z, const sl_dnn_attention &key) {
    return key.backward ? padded(z.b * z.hq * z.t * (i64)sizeof(float)) : 0;
}

/* For a mask: how many queries and keys of each sample are not padding, and which samples cuDNN
 * cannot compute. The counts of a part of the batch begin at a multiple of 16 bytes. */
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

/* Returns true if cuDNN supports this call. The key is then that of a part of the batch. */
static bool dnn_fits(sl_cuda_device *cuda, const sl_instr *instr, int q, sl_dnn_attention *key,
                     i64 *workspace) {
    if (!dnn_key(instr, q, key))
        return false;
    i64 batch = key->batch;
    if (key->backward)
        key->batch = part_of(*key);
    /* the operands of every part must begin aligned */
    if (key->batch < batch && (key->queries % 8 || key->keys % 8))
        return false;
    *workspace = sl_cuda_dnn_attention_bytes(cuda, key);
    return *workspace >= 0;
}

/* ---- masks ----
 *
 * cuDNN knows padding: of a sample, the first so many keys count. A mask may be anything, and only
 * the GPU knows what it is. So cuDNN gets the lengths of the samples whose mask is padding at
 * the end only. The kernels of attention.cu compute the samples whose mask has holes or no key
 * at all. Both are launched every time. */

/* A block counts for one sample. If the mask of the sample has holes, cuDNN's result is
 * overwritten. */
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

/* Sets the gradients of padding to 0, because cuDNN does not write them. A warp handles one key. */
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

/* ---- grouped heads ---- */

struct copies { /* copies of a part, in scratch; NULL: every head of queries has its own keys */
    char *k, *v, *dk, *dv;
};

static i64 copy_of(const att &z, const sl_dnn_attention &key) {
    return z.hq == z.hk ? 0 : padded(key.batch * z.s * z.hq * z.d * 2);
}

static copies copies_at(const att &z, const sl_dnn_attention &key, void *scratch) {
    char *at = (char *)scratch + dots_of(z, key) + counts_of(z, key);
    i64 each = copy_of(z, key);
    if (!each)
        return {};
    return {at, at + each, at + 2 * each, at + 3 * each};
}

/* One thread handles eight features of a head of keys; `eights` counts these. */
struct spreading {
    i64 row, heads, group, d;
};

template <int HALF>
static __global__ void spread_heads(array to, array from, spreading z, i64 eights) {
    to.half = from.half = HALF;
    i64 each = z.d / 8;
    GRID_LOOP(i, eights) {
        i64 c = i % each * 8, h = i / each % z.heads, at = i / each / z.heads;
        eight e = get8(from, at * z.row + h * z.d + c);
        for (i64 g = 0; g < z.group; g++)
            put8(to, ((at * z.heads + h) * z.group + g) * z.d + c, e);
    }
}

template <int HALF>
static __global__ void sum_heads(array to, array from, spreading z, i64 eights) {
    to.half = from.half = HALF;
    i64 each = z.d / 8;
    GRID_LOOP(i, eights) {
        i64 c = i % each * 8, h = i / each % z.heads, at = i / each / z.heads;
        eight sum = {};
        for (i64 g = 0; g < z.group; g++) {
            eight e = get8(from, ((at * z.heads + h) * z.group + g) * z.d + c);
            for (int k = 0; k < 8; k++)
                sum.v[k] += e.v[k];
        }
        put8(to, at * z.row + h * z.d + c, sum);
    }
}

static spreading spreading_of(const att &z, i64 row) { return {row, z.hk, z.hq / z.hk, z.d}; }

static void spread(const sl_cuda_call *call, const att &z, char *to, array from, i64 row,
                   i64 samples) {
    i64 eights = samples * z.s * z.hk * z.d / 8;
    unsigned blocks = blocks_for(eights, THREADS);
    array y = {to, from.half};
    if (from.half == SL_HALF_BF16)
        spread_heads<SL_HALF_BF16>
            <<<blocks, THREADS, 0, call->stream>>>(y, from, spreading_of(z, row), eights);
    else
        spread_heads<SL_HALF_FP16>
            <<<blocks, THREADS, 0, call->stream>>>(y, from, spreading_of(z, row), eights);
}

static void sum_up(const sl_cuda_call *call, const att &z, array to, i64 row, char *from,
                   i64 samples) {
    i64 eights = samples * z.s * z.hk * z.d / 8;
    unsigned blocks = blocks_for(eights, THREADS);
    array x = {from, to.half};
    if (to.half == SL_HALF_BF16)
        sum_heads<SL_HALF_BF16>
            <<<blocks, THREADS, 0, call->stream>>>(to, x, spreading_of(z, row), eights);
    else
        sum_heads<SL_HALF_FP16>
            <<<blocks, THREADS, 0, call->stream>>>(to, x, spreading_of(z, row), eights);
}

/* Runs one part of the batch, from sample b on. */
static sl_err dnn_part(const sl_cuda_call *call, const att &z, const sl_dnn_attention &key, i64 b) {
    /* bytes of a row per unit of its step */
    i64 t = b * z.t * 2, s = b * z.s * 2, y_row = z.hq * z.d;
    counts c = counts_at(z, key, (char *)call->scratch);
    copies own = copies_at(z, key, call->scratch);
    array k = {(char *)z.k.at + s * z.k_row, z.k.half};
    array v = {(char *)z.v.at + s * z.v_row, z.v.half};
    array dk = {(char *)z.dk.at + s * z.dk_row, z.k.half};
    array dv = {(char *)z.dv.at + s * z.dv_row, z.k.half};
    if (own.k) {
        spread(call, z, own.k, k, z.k_row, key.batch);
        spread(call, z, own.v, v, z.v_row, key.batch);
    }
    sl_dnn_attention_io io = {};
    io.q = (char *)z.q.at + t * z.q_row;
    io.k = own.k ? own.k : k.at;
    io.v = own.k ? own.v : v.at;
    io.y = (char *)z.y.at + t * y_row;
    io.lse = (float *)z.lse.at + b * z.hq * z.t;
    if (key.backward) {
        io.dy = (char *)z.dy.at + t * y_row;
        io.dq = (char *)z.dq.at + t * z.dq_row;
        io.dk = own.k ? own.dk : dk.at;
        io.dv = own.k ? own.dv : dv.at;
        io.dots = (float *)call->scratch + b * z.hq * z.t;
    }
    io.query_counts = c.queries + c.at(b);
    io.key_counts = c.keys + c.at(b);
    io.workspace = (char *)call->scratch + dots_of(z, key) + counts_of(z, key) +
                   (key.backward ? 4 : 2) * copy_of(z, key);
    io.scale = z.scale;
    io.stream = call->stream;
    SL_TRY(sl_cuda_dnn_attention_run(call->device, &key, &io));
    if (own.k && key.backward) {
        sum_up(call, z, dk, z.dk_row, own.dk, key.batch);
        sum_up(call, z, dv, z.dv_row, own.dv, key.batch);
    }
    return launched(call);
}

/* Runs cuDNN. With a mask, z.only then names the samples that remain for the other kernels. */
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

sl_err attention_cudnn(const sl_cuda_call *call, att &z, bool back, bool *done) {
    sl_dnn_attention key;
    i64 workspace;
    *done = false;
    if (!dnn_fits(call->device, call->instr, back, &key, &workspace))
        return SL_OK;
    SL_TRY(dnn_run(call, z, key));
    *done = z.only == NULL;
    return SL_OK;
}

i64 attention_cudnn_bytes(const sl_cuda_call *call, const att &z, bool back) {
    sl_dnn_attention key;
    i64 workspace;
    if (!dnn_fits(call->device, call->instr, back, &key, &workspace))
        return -1;
    return dots_of(z, key) + counts_of(z, key) + (back ? 4 : 2) * copy_of(z, key) + workspace;
}
