/* attention on tensor cores, backward: one kernel for dq and one for dk and dv, each of which makes
 * the scores anew. Nothing is added to by two blocks, so the result is the same every time.
 *
 *   back_q   64 queries a block, walks over keys       s = q k'   dp = dy v'   dq += ds k
 *   back_k   64 keys a block, walks over queries       s' = k q'  dp' = v dy'  dv += p' dy  dk += ds' q
 */
#include "device/cuda/flash.cuh"

/* p and dp become ds, of rows of queries; the factor `scale` is left for the end. */
static __device__ __forceinline__ void to_ds(float s[8][4], const float dp[8][4],
                                             const float lse[2], const float dots[2], float by) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            s[n][k] = exp2f(s[n][k] * by - lse[k / 2]) * (dp[n][k] - dots[k / 2]);
}

static __global__ void __launch_bounds__(FLASH_THREADS) back_q(att z) {
    __shared__ __align__(128) unsigned char tiles[4 * TILE_BYTES];
    uint32_t keys = shared_of(tiles), values = keys + 2 * TILE_BYTES;
    i64 first = (i64)(gridDim.x - 1 - blockIdx.x) * TILE, h = blockIdx.y, b = blockIdx.z;
    const bf16 *k = (const bf16 *)z.k.at + at_k(z, z.k_row, b, 0, h);
    const bf16 *v = (const bf16 *)z.v.at + at_k(z, z.v_row, b, 0, h);
    veil v_ = {z.mask ? z.mask + b * z.s : NULL, z.s, z.s - z.t, z.causal};
    i64 end = z.causal && first + TILE + v_.ahead < z.s ? first + TILE + v_.ahead : z.s;
    int count = end > 0 ? (int)((end + TILE - 1) / TILE) : 0;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    i64 mine = first + warp * 16 + lane / 4;
    uint32_t q[4][4], dy[4][4];
    float dq[8][4] = {}, by = z.scale * log2_e, lse[2], dots[2];
    load_tile(keys, (const bf16 *)z.q.at + at_q(z, z.q_row, b, 0, h), z.q_row, first, z.t);
    load_tile(values, (const bf16 *)z.dy.at + at_q(z, z.hq * z.d, b, 0, h), z.hq * z.d, first, z.t);
    commit();
    for (int half = 0; half < 2; half++) {
        i64 t = mine + 8 * half, at = (b * z.hq + h) * z.t + t;
        lse[half] = t < z.t ? ((const float *)z.lse.at)[at] * log2_e : 0;
        dots[half] = t < z.t ? z.dots[at] : 0;
    }
    wait<0>();
    __syncthreads();
    read_rows(q, keys, warp * 16);
    read_rows(dy, values, warp * 16);
    __syncthreads();
    load_tile(keys, k, z.k_row, 0, z.s);
    load_tile(values, v, z.v_row, 0, z.s);
    commit();
    wait<0>();
    __syncthreads();
    for (int i = 0; i < count; i++) {
        uint32_t now = (i & 1) * TILE_BYTES, next = TILE_BYTES - now;
        if (i + 1 < count) {
            load_tile(keys + next, k, z.k_row, (i64)(i + 1) * TILE, z.s);
            load_tile(values + next, v, z.v_row, (i64)(i + 1) * TILE, z.s);
        }
        commit();
        float s[8][4] = {}, dp[8][4] = {};
        times_turned(s, q, keys + now);
        times_turned(dp, dy, values + now);
        i64 j = (i64)i * TILE;
        if (z.mask || j + TILE > z.s || (z.causal && j + TILE - 1 > first + v_.ahead)) {
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (v_.hides(mine + (e / 2) * 8, j + n * 8 + 2 * (lane % 4) + (e & 1)))
                        s[n][e] = -INFINITY;
        }
        to_ds(s, dp, lse, dots, by);
        times(dq, s, keys + now);
        wait<0>();
        __syncthreads();
    }
    store_rows((bf16 *)z.dq.at + at_q(z, z.dq_row, b, 0, h), z.dq_row, first + warp * 16, z.t, dq,
               z.scale, z.scale);
}

/* ---- keys ---- */

struct query_tiles { /* two of each, one behind the other */
    uint32_t q, dy;
    float *lse, *dots; /* [2][TILE] */
};

/* The queries [t, t + 64) of head h; beyond the last, lse is infinite and p hence 0. */
static __device__ __forceinline__ void load_queries(const att &z, const query_tiles &s, int which,
                                                    i64 b, i64 h, i64 t) {
    load_tile(s.q + which * TILE_BYTES, (const bf16 *)z.q.at + at_q(z, z.q_row, b, 0, h), z.q_row,
              t, z.t);
    load_tile(s.dy + which * TILE_BYTES, (const bf16 *)z.dy.at + at_q(z, z.hq * z.d, b, 0, h),
              z.hq * z.d, t, z.t);
    if (threadIdx.x < TILE) {
        i64 row = t + threadIdx.x, at = (b * z.hq + h) * z.t + row;
        s.lse[which * TILE + threadIdx.x] =
            row < z.t ? ((const float *)z.lse.at)[at] * log2_e : INFINITY;
        s.dots[which * TILE + threadIdx.x] = row < z.t ? z.dots[at] : 0;
    }
}

/* s becomes p, dp becomes ds; columns are queries. */
static __device__ __forceinline__ void to_p_ds(float s[8][4], float dp[8][4], const float *lse,
                                               const float *dots, float by) {
    int col = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int t = n * 8 + col + (e & 1);
            s[n][e] = exp2f(s[n][e] * by - lse[t]);
            dp[n][e] = s[n][e] * (dp[n][e] - dots[t]);
        }
}

static __global__ void __launch_bounds__(FLASH_THREADS) back_k(att z) {
    __shared__ __align__(128) unsigned char tiles[4 * TILE_BYTES];
    __shared__ float stats[4 * TILE];
    query_tiles in = {shared_of(tiles), shared_of(tiles) + 2 * TILE_BYTES, stats,
                      stats + 2 * TILE};
    i64 first = (i64)blockIdx.x * TILE, hk = blockIdx.y, b = blockIdx.z, group = z.hq / z.hk;
    veil v_ = {z.mask ? z.mask + b * z.s : NULL, z.s, z.s - z.t, z.causal};
    i64 start = z.causal && first > v_.ahead ? (first - v_.ahead) / TILE * TILE : 0;
    int each = start < z.t ? (int)((z.t - start + TILE - 1) / TILE) : 0;
    int count = each * (int)group, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t k[4][4], v[4][4];
    float dk[8][4] = {}, dv[8][4] = {}, by = z.scale * log2_e;
    load_tile(in.q, (const bf16 *)z.k.at + at_k(z, z.k_row, b, 0, hk * group), z.k_row, first, z.s);
    load_tile(in.dy, (const bf16 *)z.v.at + at_k(z, z.v_row, b, 0, hk * group), z.v_row, first,
              z.s);
    commit();
    wait<0>();
    __syncthreads();
    read_rows(k, in.q, warp * 16);
    read_rows(v, in.dy, warp * 16);
    __syncthreads();
    if (count)
        load_queries(z, in, 0, b, hk * group, start);
    commit();
    wait<0>();
    __syncthreads();
    for (int i = 0; i < count; i++) {
        int now = i & 1;
        i64 t = start + (i64)(i % each) * TILE, row = first + warp * 16 + lane / 4;
        if (i + 1 < count)
            load_queries(z, in, !now, b, hk * group + (i + 1) / each,
                         start + (i64)((i + 1) % each) * TILE);
        commit();
        float s[8][4] = {}, dp[8][4] = {};
        times_turned(s, k, in.q + now * TILE_BYTES);
        times_turned(dp, v, in.dy + now * TILE_BYTES);
        if (z.mask || (z.causal && first + TILE - 1 > t + v_.ahead)) {
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    i64 j = row + (e / 2) * 8;
                    if (j < z.s && v_.hides(t + n * 8 + 2 * (lane % 4) + (e & 1), j))
                        s[n][e] = -INFINITY;
                }
        }
        to_p_ds(s, dp, in.lse + now * TILE, in.dots + now * TILE, by);
        times(dv, s, in.dy + now * TILE_BYTES);
        times(dk, dp, in.q + now * TILE_BYTES);
        wait<0>();
        __syncthreads();
    }
    store_rows((bf16 *)z.dk.at + at_k(z, z.dk_row, b, 0, hk * group), z.dk_row, first + warp * 16,
               z.s, dk, z.scale, z.scale);
    store_rows((bf16 *)z.dv.at + at_k(z, z.dv_row, b, 0, hk * group), z.dv_row, first + warp * 16,
               z.s, dv, 1, 1);
}

sl_err flash_backward(const sl_cuda_call *call, const att &z) {
    dim3 queries((unsigned)((z.t + TILE - 1) / TILE), (unsigned)z.hq, (unsigned)z.b);
    dim3 keys((unsigned)((z.s + TILE - 1) / TILE), (unsigned)z.hk, (unsigned)z.b);
    back_q<<<queries, FLASH_THREADS, 0, call->stream>>>(z);
    back_k<<<keys, FLASH_THREADS, 0, call->stream>>>(z);
    return launched(call);
}
