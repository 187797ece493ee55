/* attention as products with stored scores, for what neither cuDNN nor flash*.cu supports: fp32,
 * and heads of any size.
 *
 *   gather   q, k, v, dy of a part of the heads, contiguous: [pairs][rows][width]
 *   scores   s = q k'      p = softmax(scale s)           y = p v
 *            p = exp(scale s - lse)   dp = dy v'   ds = p (dp - sum p dp) scale
 *            dv += p' dy    dk += ds' q    dq = ds k
 *   scatter  y or dq, dk, dv
 *
 * A pair is a sample and a head of keys; its rows are the queries of all heads that read these keys.
 * Pairs, and queries if one pair is too large, are handled in parts of limited size. The parts depend
 * on the shape only, and add to dk and dv in order: the result is deterministic.
 */
#include "device/cuda/attention.cuh"
#include "device/cuda/gemm.h"

static const i64 max_bytes = (i64)1 << 30; /* largest number of bytes for the scores of a part */

struct parts {
    /* pairs and queries at a time; a causal mask leaves the first queries fewer keys */
    i64 pairs, queries;
    i64 width, keys; /* with padding: features of a head, columns of scores */
    i64 group;       /* heads of queries per head of keys */
    bool back;
    int half;
};

static i64 up_to_8(i64 n) { return (n + 7) / 8 * 8; }

static parts parts_of(const att &z, bool back) {
    parts p = {z.b * z.hk, z.t, up_to_8(z.d), up_to_8(z.s), z.hq / z.hk, back, z.q.half};
    i64 row = p.group * p.keys * (i64)sizeof(float) * (back ? 2 : 1);
    if (z.causal && z.t >= 256)
        p.queries = up_to_8((z.t + 3) / 4);
    while (p.queries > 64 && p.queries * row > max_bytes)
        p.queries = up_to_8((p.queries + 1) / 2);
    i64 fit = max_bytes / (p.queries * row);
    p.pairs = fit < 1 ? 1 : fit < p.pairs ? fit : p.pairs;
    return p;
}

/* ---- scratch ---- */

struct room {
    array q, k, v, dy;  /* have the type of the operands */
    array p, ds;        /* have it too; for fp32 they take the place of s and dp */
    float *s, *dp;      /* scores and their gradients */
    float *y, *dk, *dv; /* results; y also serves as dq */
    i64 bytes;
};

static char *take(room &r, char *base, i64 size_bytes) {
    char *at = base + r.bytes;
    r.bytes += (size_bytes + 255) / 256 * 256;
    return at;
}

static room room_of(const att &z, const parts &p, void *scratch) {
    room r = {};
    char *base = (char *)scratch;
    i64 each = p.half ? 2 : 4, rows_ = p.pairs * p.group * p.queries, keys = p.pairs * z.s;
    r.q = {take(r, base, rows_ * p.width * each), p.half};
    r.k = {take(r, base, keys * p.width * each), p.half};
    r.v = {take(r, base, keys * p.width * each), p.half};
    r.s = (float *)take(r, base, rows_ * p.keys * 4);
    r.p = p.half ? array{take(r, base, rows_ * p.keys * each), p.half} : array{r.s, p.half};
    r.y = (float *)take(r, base, rows_ * p.width * 4);
    if (!p.back)
        return r;
    r.dy = {take(r, base, rows_ * p.width * each), p.half};
    r.dp = (float *)take(r, base, rows_ * p.keys * 4);
    r.ds = p.half ? array{take(r, base, rows_ * p.keys * each), p.half} : array{r.dp, p.half};
    r.dk = (float *)take(r, base, keys * p.width * 4);
    r.dv = (float *)take(r, base, keys * p.width * 4);
    return r;
}

/* ---- between [B,T,H,D] and [pair][row][width] ---- */

struct rows_at { /* the rows of an operand, and those of a part of it */
    array wide;
    i64 row, heads, t; /* elements from one position to the next; heads per pair; positions */
    i64 first_pair, pairs, first, count; /* the part: its pairs and its positions */
    i64 all_pairs_of_sample, d, width;
};

static __device__ __forceinline__ i64 wide_at(const rows_at &z, i64 pair, i64 g, i64 t) {
    i64 b = pair / z.all_pairs_of_sample, h = pair % z.all_pairs_of_sample * z.heads + g;
    return (b * z.t + t) * z.row + h * z.d;
}

static __global__ void gather(array to, rows_at z, i64 total) {
    GRID_LOOP(i, total) {
        i64 c = i % z.width, r = i / z.width, t = r % z.count, g = r / z.count % z.heads;
        i64 pair = r / z.count / z.heads;
        put(to, i, c < z.d ? get(z.wide, wide_at(z, z.first_pair + pair, g, z.first + t) + c) : 0);
    }
}

static __global__ void scatter(rows_at z, array from, i64 total) {
    GRID_LOOP(i, total) {
        i64 c = i % z.d, r = i / z.d, t = r % z.count, g = r / z.count % z.heads;
        i64 pair = r / z.count / z.heads;
        put(z.wide, wide_at(z, z.first_pair + pair, g, z.first + t) + c,
            get(from, r * z.width + c));
    }
}

/* The same for eight features of heads in eights, between the operand and `own`. */
template <bool IN> static __global__ void move_eights(array own, rows_at z, unsigned count) {
    unsigned each = (unsigned)z.d / 8, rows_ = (unsigned)z.count, heads = (unsigned)z.heads;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += gridDim.x * blockDim.x) {
        unsigned c = i % each * 8, r = i / each, t = r % rows_, pair = r / rows_, g = pair % heads;
        i64 at = wide_at(z, z.first_pair + pair / heads, g, z.first + t) + c;
        if (IN)
            put8(own, (i64)8 * i, get8(z.wide, at));
        else
            put8(z.wide, at, get8(own, (i64)8 * i));
    }
}

static bool in_eights(const rows_at &z) {
    return z.d % 8 == 0 && z.row % 8 == 0 && fit8(z.wide) &&
           z.pairs * z.heads * z.count * z.d < (i64)1 << 32;
}

struct part { /* of the pairs and of the queries, and the keys that these see */
    i64 first_pair, pairs, first, count, keys;
};

static rows_at queries_at(const att &z, const parts &p, const part &now, array wide, i64 row) {
    return {wide,      row,       p.group, z.t, now.first_pair, now.pairs,
            now.first, now.count, z.hk,    z.d, p.width};
}
static rows_at keys_at(const att &z, const parts &p, const part &now, array wide, i64 row) {
    return {wide, row, 1, z.s, now.first_pair, now.pairs, 0, z.s, z.hk, z.d, p.width};
}

static void bring(const sl_cuda_call *call, array to, const rows_at &z) {
    i64 total = z.pairs * z.heads * z.count * z.width;
    if (in_eights(z))
        move_eights<true><<<blocks_for(total / 8, THREADS), THREADS, 0, call->stream>>>(
            to, z, (unsigned)(total / 8));
    else
        gather<<<blocks_for(total, THREADS), THREADS, 0, call->stream>>>(to, z, total);
}
static void send(const sl_cuda_call *call, const rows_at &z, float *from) {
    i64 total = z.pairs * z.heads * z.count * z.d;
    array own = {from, SL_HALF_NOT};
    if (in_eights(z))
        move_eights<false><<<blocks_for(total / 8, THREADS), THREADS, 0, call->stream>>>(
            own, z, (unsigned)(total / 8));
    else
        scatter<<<blocks_for(total, THREADS), THREADS, 0, call->stream>>>(z, own, total);
}

/* ---- rows of scores: a warp per row ---- */

enum { SCORE_WARPS = 4 };

struct score_rows {
    float *s, *dp;
    array p, ds, lse;
    const int32_t *mask;
    part now;
    i64 group, hk, hq, t, keys, stride; /* stride counts padded keys */
    float scale;
    bool causal;
};

/* The row of a warp. Keys from `last` on are hidden from its query. */
struct score_row {
    i64 row, stat, last;
    const int32_t *mask;
};

static __device__ __forceinline__ score_row row_here(const score_rows &z) {
    i64 row = (i64)blockIdx.x * SCORE_WARPS + threadIdx.x / 32;
    i64 t = z.now.first + row % z.now.count, g = row / z.now.count % z.group;
    i64 pair = z.now.first_pair + row / z.now.count / z.group, b = pair / z.hk;
    i64 h = pair % z.hk * z.group + g, last = z.causal ? t + z.keys - z.t + 1 : z.keys;
    last = last < 0 ? 0 : last > z.keys ? z.keys : last;
    return {row, (b * z.hq + h) * z.t + t, last, z.mask ? z.mask + b * z.keys : NULL};
}

static __device__ __forceinline__ bool sees(const score_row &r, i64 j) {
    return j < r.last && (!r.mask || r.mask[j] != 0);
}

static __global__ void softmax_rows(score_rows z, i64 count) {
    score_row r = row_here(z);
    int lane = threadIdx.x % 32;
    if (r.row >= count)
        return;
    const float *s = z.s + r.row * z.stride;
    float max = -INFINITY, sum = 0;
    for (i64 j = lane; j < r.last; j += 32)
        if (sees(r, j))
            max = fmaxf(max, s[j] * z.scale);
    max = warp_max(max);
    for (i64 j = lane; j < r.last; j += 32)
        if (sees(r, j))
            sum += expf(s[j] * z.scale - max);
    sum = warp_sum(sum);
    for (i64 j = lane; j < z.now.keys; j += 32)
        put(z.p, r.row * z.stride + j, sees(r, j) ? expf(s[j] * z.scale - max) / sum : 0);
    if (lane == 0)
        put(z.lse, r.stat, sum > 0 ? max + logf(sum) : 0);
}

/* Uses the sum of p dp instead of that of dy y, so that ds is exactly 0 for a query that attends to
 * one key. */
static __global__ void softmax_rows_back(score_rows z, i64 count) {
    score_row r = row_here(z);
    int lane = threadIdx.x % 32;
    if (r.row >= count)
        return;
    i64 at = r.row * z.stride;
    float lse = get(z.lse, r.stat), dot = 0;
    for (i64 j = lane; j < r.last; j += 32)
        if (sees(r, j))
            dot += expf(z.s[at + j] * z.scale - lse) * z.dp[at + j];
    dot = warp_sum(dot);
    for (i64 j = lane; j < z.now.keys; j += 32) {
        float p = sees(r, j) ? expf(z.s[at + j] * z.scale - lse) : 0;
        float ds = sees(r, j) ? p * (z.dp[at + j] - dot) * z.scale : 0;
        put(z.p, at + j, p);
        put(z.ds, at + j, ds);
    }
}

/* ---- products ---- */

/* y [m,n] = a b for every pair. ta and tb say that a and b are stored transposed. */
struct shape {
    i64 m, n, k, lda, ldb, ldy, stride_a, stride_b, stride_y;
    bool ta, tb;
};

static sl_gemm gemm_of(const parts &p, i64 pairs, const shape &s) {
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.m = s.m;
    g.n = s.n;
    g.k = s.k;
    g.lda = s.lda;
    g.ldb = s.ldb;
    g.ldy = s.ldy;
    g.ta = s.ta;
    g.tb = s.tb;
    g.batch = pairs;
    if (pairs > 1) {
        g.stride_a = s.stride_a;
        g.stride_b = s.stride_b;
        g.stride_y = s.stride_y;
    }
    g.half_in = p.half;
    g.align = 16;
    return g;
}

struct shapes {
    shape scores, of_values, of_keys; /* q k' and dy v'; p v and ds k; p' dy and ds' q */
};

static shapes shapes_of(const att &z, const parts &p, i64 queries, i64 keys) {
    i64 m = p.group * queries, w = p.width, wide = m * w, all = m * p.keys, other = z.s * w;
    return {{m, keys, w, w, w, p.keys, wide, other, all, false, true},
            {m, w, keys, p.keys, w, w, all, other, wide, false, false},
            {keys, w, m, p.keys, w, w, all, wide, other, true, false}};
}

static sl_err multiply(const sl_cuda_call *call, const sl_gemm &g, const void *a, const void *b,
                       float *y, bool add) {
    sl_gemm_io io = {a, b, NULL, y, NULL, NULL, add ? 1.0f : 0.0f, call->stream};
    return sl_cuda_gemm_run(call->device, &g, &io);
}

static score_rows score_rows_of(const att &z, const parts &p, const part &now, const room &r) {
    score_rows s = {r.s, r.dp, r.p, r.ds, z.lse, z.mask, now};
    s.group = p.group;
    s.hk = z.hk;
    s.hq = z.hq;
    s.t = z.t;
    s.keys = z.s;
    s.stride = p.keys;
    s.scale = z.scale;
    s.causal = z.causal;
    return s;
}

static unsigned score_blocks(i64 rows_) {
    return (unsigned)((rows_ + SCORE_WARPS - 1) / SCORE_WARPS);
}

static sl_err forward_part(const sl_cuda_call *call, const att &z, const parts &p, const part &now,
                           const room &r) {
    shapes s = shapes_of(z, p, now.count, now.keys);
    i64 rows_ = now.pairs * p.group * now.count;
    bring(call, r.q, queries_at(z, p, now, z.q, z.q_row));
    SL_TRY(multiply(call, gemm_of(p, now.pairs, s.scores), r.q.at, r.k.at, r.s, false));
    softmax_rows<<<score_blocks(rows_), 32 * SCORE_WARPS, 0, call->stream>>>(
        score_rows_of(z, p, now, r), rows_);
    SL_TRY(multiply(call, gemm_of(p, now.pairs, s.of_values), r.p.at, r.v.at, r.y, false));
    send(call, queries_at(z, p, now, z.y, z.hq * z.d), r.y);
    return launched(call);
}

static sl_err backward_part(const sl_cuda_call *call, const att &z, const parts &p, const part &now,
                            const room &r) {
    shapes s = shapes_of(z, p, now.count, now.keys);
    sl_gemm scores = gemm_of(p, now.pairs, s.scores), of_keys = gemm_of(p, now.pairs, s.of_keys);
    i64 rows_ = now.pairs * p.group * now.count;
    bring(call, r.q, queries_at(z, p, now, z.q, z.q_row));
    bring(call, r.dy, queries_at(z, p, now, z.dy, z.hq * z.d));
    SL_TRY(multiply(call, scores, r.q.at, r.k.at, r.s, false));
    SL_TRY(multiply(call, scores, r.dy.at, r.v.at, r.dp, false));
    softmax_rows_back<<<score_blocks(rows_), 32 * SCORE_WARPS, 0, call->stream>>>(
        score_rows_of(z, p, now, r), rows_);
    SL_TRY(multiply(call, of_keys, r.p.at, r.dy.at, r.dv, true));
    SL_TRY(multiply(call, of_keys, r.ds.at, r.q.at, r.dk, true));
    SL_TRY(multiply(call, gemm_of(p, now.pairs, s.of_values), r.ds.at, r.k.at, r.y, false));
    send(call, queries_at(z, p, now, z.dq, z.dq_row), r.y);
    return launched(call);
}

/* ---- whole ---- */

/* Returns how many keys the queries [first, first + count) see at most, rounded up to a multiple of
 * 8, but not more than all keys. */
static i64 keys_seen(const att &z, i64 first, i64 count) {
    i64 keys = up_to_8(z.causal ? first + count + z.s - z.t : z.s);
    return keys < 8 ? (z.s < 8 ? z.s : 8) : keys < z.s ? keys : z.s;
}

static part part_at(const att &z, const parts &p, i64 pair, i64 t) {
    i64 all = z.b * z.hk, pairs = all - pair < p.pairs ? all - pair : p.pairs;
    i64 count = z.t - t < p.queries ? z.t - t : p.queries;
    return {pair, pairs, t, count, keys_seen(z, t, count)};
}

static bool supported(sl_cuda_device *cuda, const att &z, const parts &p, const part &now) {
    shapes s = shapes_of(z, p, now.count, now.keys);
    const shape all[] = {s.scores, s.of_values, s.of_keys};
    for (const shape &one : all) {
        sl_gemm g = gemm_of(p, now.pairs, one);
        if (!sl_cuda_gemm_supported(cuda, &g))
            return false;
    }
    return true;
}

bool attention_products_fit(sl_cuda_device *cuda, const att &z, bool back) {
    parts p = parts_of(z, back);
    const int halves[] = {z.k.half, z.v.half, back ? z.dy.half : z.y.half};
    for (int half : halves)
        if (half != z.q.half)
            return false;
    if (z.t < 16 || z.s < 16 || z.lse.half)
        return false;
    for (i64 t = 0; t < z.t; t += p.queries) /* the last part of the pairs may be smaller */
        if (!supported(cuda, z, p, part_at(z, p, 0, t)) ||
            !supported(cuda, z, p, part_at(z, p, (z.b * z.hk - 1) / p.pairs * p.pairs, t)))
            return false;
    return true;
}

i64 attention_products_bytes(const att &z, bool back) {
    return room_of(z, parts_of(z, back), NULL).bytes;
}

sl_err attention_products(const sl_cuda_call *call, const att &z, bool back) {
    parts p = parts_of(z, back);
    room r = room_of(z, p, call->scratch);
    for (i64 pair = 0; pair < z.b * z.hk; pair += p.pairs) {
        part keys = part_at(z, p, pair, 0);
        size_t bytes = sizeof(float) * (size_t)(keys.pairs * z.s * p.width);
        bring(call, r.k, keys_at(z, p, keys, z.k, z.k_row));
        bring(call, r.v, keys_at(z, p, keys, z.v, z.v_row));
        if (back) {
            SL_TRY(SL_CUDA(cudaMemsetAsync(r.dk, 0, bytes, call->stream)));
            SL_TRY(SL_CUDA(cudaMemsetAsync(r.dv, 0, bytes, call->stream)));
        }
        for (i64 t = 0; t < z.t; t += p.queries)
            SL_TRY((back ? backward_part : forward_part)(call, z, p, part_at(z, p, pair, t), r));
        if (!back)
            continue;
        send(call, keys_at(z, p, keys, z.dk, z.dk_row), r.dk);
        send(call, keys_at(z, p, keys, z.dv, z.dv_row), r.dv);
    }
    return launched(call);
}
