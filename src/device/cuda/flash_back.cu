/* attention on tensor cores, backward: a kernel for dq and a kernel for dk and dv; both recompute
 * the scores. No two blocks add to the same result, so it is deterministic.
 *
 *   back_q   64 queries a block, iterates over keys      s = q k'   dp = dy v'   dq += ds k
 *   back_k   64 keys a block, iterates over queries      s' = k q'  dp' = v dy'  dv += p' dy
 *                                                        dk += ds' q
 */
#include "device/cuda/flash.cuh"

static __device__ __forceinline__ void hide_keys(float s[8][4], const veil &over, int t, int j) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (over.hides(t + (e / 2) * 8, j + n * 8 + (e & 1)))
                s[n][e] = -INFINITY;
}

static __device__ __forceinline__ void to_p(float s[8][4], const float lse[2], float by) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = power_of_2(s[n][e] * by - lse[e / 2]);
}

/* Replaces p in s by ds, but without the factor `scale`, which is applied at the end. */
static __device__ __forceinline__ void to_ds(float s[8][4], const float dp[8][4],
                                             const float dots[2]) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] *= dp[n][e] - dots[e / 2];
}

/* Reads lse (times log2 e) and dots of the lane's two rows. */
static __device__ __forceinline__ void read_stats(const att &z, i64 b, i64 h, i64 t, float lse[2],
                                                  float dots[2]) {
    for (int half = 0; half < 2; half++) {
        i64 row = t + 8 * half, at = (b * z.hq + h) * z.t + row;
        lse[half] = row < z.t ? ((const float *)z.lse.at)[at] * log2_e : 0;
        dots[half] = row < z.t ? z.dots[at] : 0;
    }
}

template <int HALF> static __global__ void __launch_bounds__(FLASH_THREADS, 2) back_q(att z) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    uint32_t q = shared_of(tiles), dy = q + 2 * TILE_BYTES, keys = q + 4 * TILE_BYTES;
    uint32_t values = q + 6 * TILE_BYTES;
    int first = (int)(gridDim.x - 1 - blockIdx.x) * BLOCK, mine = first + group * TILE;
    int count = key_tiles(z, first + TILE), my_count = key_tiles(z, mine),
        y_row = (int)(z.hq * z.d);
    i64 h = blockIdx.y, b = blockIdx.z;
    if (!is_mine(z, b))
        return;
    const half16 *k = (const half16 *)z.k.at + at_k(z, z.k_row, b, 0, h);
    const half16 *v = (const half16 *)z.v.at + at_k(z, z.v_row, b, 0, h);
    veil over = veil_of(z, b);
    float dq[8][4] = {}, by = z.scale * log2_e, lse[2], dots[2];
    for (int i = 0; i < GROUPS; i++) {
        load_tile(q + i * TILE_BYTES, (const half16 *)z.q.at + at_q(z, z.q_row, b, 0, h),
                  (int)z.q_row, first + i * TILE, (int)z.t);
        load_tile(dy + i * TILE_BYTES, (const half16 *)z.dy.at + at_q(z, y_row, b, 0, h), y_row,
                  first + i * TILE, (int)z.t);
    }
    load_tile(keys, k, (int)z.k_row, 0, (int)z.s);
    load_tile(values, v, (int)z.v_row, 0, (int)z.s);
    read_stats(z, b, h, mine + warp * 16 + lane / 4, lse, dots);
    q += group * TILE_BYTES;
    dy += group * TILE_BYTES;
    arrive();
    for (int i = 0; i < count; i++) {
        uint32_t now = (i & 1) * TILE_BYTES, next = TILE_BYTES - now, a[4][4];
        int j = i * TILE;
        if (i + 1 < count) {
            load_tile(keys + next, k, (int)z.k_row, j + TILE, (int)z.s);
            load_tile(values + next, v, (int)z.v_row, j + TILE, (int)z.s);
        }
        if (i < my_count) {
            float s[8][4], dp[8][4];
            start();
            times_turned<HALF>(s, q, keys + now);
            send();
            times_turned<HALF>(dp, dy, values + now);
            send();
            finish<1>();
            if (over.touches(mine, j))
                hide_keys(s, over, mine + warp * 16 + lane / 4, j + 2 * (lane % 4));
            to_p(s, lse, by);
            finish<0>();
            to_ds(s, dp, dots);
            round_rows<HALF>(a, s);
            start();
            times<HALF>(dq, a, keys + now);
            send();
            finish<0>();
        }
        arrive();
    }
    store_rows<HALF>((half16 *)z.dq.at + at_q(z, z.dq_row, b, 0, h), z.dq_row, mine + warp * 16,
                     (int)z.t, dq, z.scale, z.scale);
}

/* ---- keys ---- */

struct query_tiles { /* two tiles of each operand, contiguous */
    uint32_t q, dy;
    float *lse, *dots; /* [2][TILE] */
};

/* Loads the queries [t, t + 64) of head h. Behind the last query lse is infinite, so that p is
 * 0. */
static __device__ __forceinline__ void load_queries(const att &z, const query_tiles &s, int which,
                                                    i64 b, i64 h, int t) {
    int y_row = (int)(z.hq * z.d);
    load_tile(s.q + which * TILE_BYTES, (const half16 *)z.q.at + at_q(z, z.q_row, b, 0, h),
              (int)z.q_row, t, (int)z.t);
    load_tile(s.dy + which * TILE_BYTES, (const half16 *)z.dy.at + at_q(z, y_row, b, 0, h), y_row,
              t, (int)z.t);
    if (threadIdx.x < TILE) {
        i64 row = t + (int)threadIdx.x, at = (b * z.hq + h) * z.t + row;
        s.lse[which * TILE + threadIdx.x] =
            row < z.t ? ((const float *)z.lse.at)[at] * log2_e : INFINITY;
        s.dots[which * TILE + threadIdx.x] = row < z.t ? z.dots[at] : 0;
    }
}

/* Does what hide_keys, to_p and to_ds do, but rows are keys and columns are queries. */
static __device__ __forceinline__ void hide_queries(float s[8][4], const veil &over, int j, int t) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (over.hides(t + n * 8 + (e & 1), j + (e / 2) * 8))
                s[n][e] = -INFINITY;
}

static __device__ __forceinline__ void to_p_turned(float s[8][4], const float *lse, float by) {
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float2 l = *(const float2 *)(lse + n * 8 + 2 * (threadIdx.x % 4));
#pragma unroll
        for (int e = 0; e < 4; e++)
            s[n][e] = power_of_2(s[n][e] * by - (e & 1 ? l.y : l.x));
    }
}

static __device__ __forceinline__ void to_ds_turned(float dp[8][4], const float p[8][4],
                                                    const float *dots) {
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float2 d = *(const float2 *)(dots + n * 8 + 2 * (threadIdx.x % 4));
#pragma unroll
        for (int e = 0; e < 4; e++)
            dp[n][e] = p[n][e] * (dp[n][e] - (e & 1 ? d.y : d.x));
    }
}

/* The iteration of a block of keys over the queries of all heads that read them. */
struct walk {
    /* first query; number of tiles per head; number of tiles of all heads */
    int start, each, count;
};
static __device__ __forceinline__ walk walk_of(const att &z, const veil &over, int first) {
    walk w = {z.causal && first > over.ahead ? (first - over.ahead) / TILE * TILE : 0};
    w.each = w.start < z.t ? ((int)z.t - w.start + TILE - 1) / TILE : 0;
    w.count = w.each * (int)(z.hq / z.hk);
    return w;
}

template <int HALF> static __global__ void __launch_bounds__(FLASH_THREADS, 1) back_k(att z) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    uint32_t k = shared_of(tiles), v = k + 2 * TILE_BYTES;
    float *stats = (float *)(tiles + 8 * TILE_BYTES);
    query_tiles in = {k + 4 * TILE_BYTES, k + 6 * TILE_BYTES, stats, stats + 2 * TILE};
    int first = (int)blockIdx.x * BLOCK, mine = first + group * TILE;
    i64 h = blockIdx.y * (z.hq / z.hk), b = blockIdx.z;
    if (!is_mine(z, b))
        return;
    veil over = veil_of(z, b);
    walk w = walk_of(z, over, first);
    uint32_t a[4][4], c[4][4];
    float dk[8][4] = {}, dv[8][4] = {}, by = z.scale * log2_e;
    for (int i = 0; i < GROUPS; i++) {
        load_tile(k + i * TILE_BYTES, (const half16 *)z.k.at + at_k(z, z.k_row, b, 0, h),
                  (int)z.k_row, first + i * TILE, (int)z.s);
        load_tile(v + i * TILE_BYTES, (const half16 *)z.v.at + at_k(z, z.v_row, b, 0, h),
                  (int)z.v_row, first + i * TILE, (int)z.s);
    }
    if (w.count)
        load_queries(z, in, 0, b, h, w.start);
    k += group * TILE_BYTES;
    v += group * TILE_BYTES;
    arrive();
    for (int i = 0; i < w.count; i++) {
        int now = i & 1, t = w.start + i % w.each * TILE;
        uint32_t q = in.q + now * TILE_BYTES, dy = in.dy + now * TILE_BYTES;
        if (i + 1 < w.count)
            load_queries(z, in, !now, b, h + (i + 1) / w.each, w.start + (i + 1) % w.each * TILE);
        if (!z.causal || t + TILE - 1 + over.ahead >= mine) { /* else no query attends to a key */
            float s[8][4], dp[8][4];
            start();
            times_turned<HALF>(s, k, q);
            send();
            times_turned<HALF>(dp, v, dy);
            send();
            finish<1>();
            if (over.touches(t, mine))
                hide_queries(s, over, mine + warp * 16 + lane / 4, t + 2 * (lane % 4));
            to_p_turned(s, in.lse + now * TILE, by);
            round_rows<HALF>(a, s);
            finish<0>();
            start();
            times<HALF>(dv, a, dy);
            send();
            to_ds_turned(dp, s, in.dots + now * TILE);
            round_rows<HALF>(c, dp);
            start();
            times<HALF>(dk, c, q);
            send();
            finish<0>();
        }
        arrive();
    }
    store_rows<HALF>((half16 *)z.dk.at + at_k(z, z.dk_row, b, 0, h), z.dk_row, mine + warp * 16,
                     (int)z.s, dk, z.scale, z.scale);
    store_rows<HALF>((half16 *)z.dv.at + at_k(z, z.dv_row, b, 0, h), z.dv_row, mine + warp * 16,
                     (int)z.s, dv, 1, 1);
}

template <int HALF> static sl_err launch_both(const sl_cuda_call *call, const att &z) {
    dim3 queries((unsigned)((z.t + BLOCK - 1) / BLOCK), (unsigned)z.hq, (unsigned)z.b);
    dim3 keys((unsigned)((z.s + BLOCK - 1) / BLOCK), (unsigned)z.hk, (unsigned)z.b);
    SL_TRY(flash_launch(call, back_q<HALF>, queries, 8, z));
    return flash_launch(call, back_k<HALF>, keys, 8, z);
}

sl_err flash_backward(const sl_cuda_call *call, const att &z) {
    return z.q.half == SL_HALF_FP16 ? launch_both<SL_HALF_FP16>(call, z)
                                    : launch_both<SL_HALF_BF16>(call, z);
}
