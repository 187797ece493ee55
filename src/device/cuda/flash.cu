/* attention on tensor cores, forward: a block computes 128 queries of one head, 64 for each of
 * its two warpgroups, and iterates over the keys, 64 at a time (Dao 2023, FlashAttention-2).
 *
 *   tiles in shared memory    q q   k k   v v      of keys and values, one tile is in use while
 *     one loads */
#include "device/cuda/flash.cuh"

bool flash_fits(const att &z) {
    const array all[] = {z.q, z.k, z.v, z.y, z.dy, z.dq, z.dk, z.dv};
    const i64 strides[] = {z.q_row, z.k_row, z.v_row, z.dq_row, z.dk_row, z.dv_row};
    for (const array &a : all)
        if (a.at && (!a.half || (uintptr_t)a.at % 16))
            return false;
    for (i64 stride : strides)
        if (stride % 8)
            return false;
    return z.d == 64 && z.scale > 0 && !z.lse.half;
}

struct running { /* running maximum and sum of exponentials, for the two rows of a lane */
    float max[2], sum[2];
};

/* Converts scores to probabilities relative to the running maximum, and rescales o to that
 * maximum. */
static __device__ __forceinline__ void softmax_step(float s[8][4], float o[8][4], running &r,
                                                    float by) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float max = r.max[half];
#pragma unroll
        for (int n = 0; n < 8; n++)
            max = fmaxf(max, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        max = quad_max(max);
        float base = max == -INFINITY ? 0 : max * by, sum = 0;
        float shrink = power_of_2(r.max[half] * by - base);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int k = 2 * half; k < 2 * half + 2; k++) {
                s[n][k] = power_of_2(s[n][k] * by - base);
                sum += s[n][k];
                o[n][k] *= shrink;
            }
        r.sum[half] = r.sum[half] * shrink + sum;
        r.max[half] = max;
    }
}

static __device__ __forceinline__ void hide(float s[8][4], const veil &v, int t, int j) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (v.hides(t + (k / 2) * 8, j + n * 8 + (k & 1)))
                s[n][k] = -INFINITY;
}

template <int HALF>
static __device__ void finish_rows(const att &z, i64 b, i64 h, int first, const float o[8][4],
                                   running &r) {
    int lane = threadIdx.x % 32;
    float by[2];
    for (int half = 0; half < 2; half++) {
        int t = first + lane / 4 + 8 * half;
        float sum = quad_sum(r.sum[half]);
        by[half] = sum > 0 ? 1 / sum : 0;
        if (t < z.t && lane % 4 == 0)
            ((float *)z.lse.at)[(b * z.hq + h) * z.t + t] =
                sum > 0 ? r.max[half] * z.scale + logf(sum) : 0;
    }
    store_rows<HALF>((half16 *)z.y.at + at_q(z, z.hq * z.d, b, 0, h), z.hq * z.d, first, z.t, o,
                     by[0], by[1]);
}

template <int HALF> static __global__ void __launch_bounds__(FLASH_THREADS, 2) forward(att z) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    int group = threadIdx.x / 128, warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    uint32_t query = shared_of(tiles), keys = query + 2 * TILE_BYTES,
             values = keys + 2 * TILE_BYTES;
    /* late queries attend to more keys, so their blocks start first */
    int first = (int)(gridDim.x - 1 - blockIdx.x) * BLOCK, mine = first + group * TILE;
    int count = key_tiles(z, first + TILE), my_count = key_tiles(z, mine), stride = (int)z.k_row;
    i64 h = blockIdx.y, b = blockIdx.z;
    if (!is_mine(z, b))
        return;
    const half16 *q = (const half16 *)z.q.at + at_q(z, z.q_row, b, 0, h);
    const half16 *k = (const half16 *)z.k.at + at_k(z, z.k_row, b, 0, h);
    const half16 *v = (const half16 *)z.v.at + at_k(z, z.v_row, b, 0, h);
    veil over = veil_of(z, b);
    uint32_t p[4][4];
    float o[8][4] = {}, by = z.scale * log2_e;
    running r = {{-INFINITY, -INFINITY}, {0, 0}};
    for (int i = 0; i < GROUPS; i++)
        load_tile(query + i * TILE_BYTES, q, (int)z.q_row, first + i * TILE, (int)z.t);
    load_tile(keys, k, stride, 0, (int)z.s);
    load_tile(values, v, (int)z.v_row, 0, (int)z.s);
    arrive();
    for (int i = 0; i < count; i++) {
        uint32_t now = (i & 1) * TILE_BYTES, next = TILE_BYTES - now;
        int j = i * TILE;
        if (i + 1 < count) {
            load_tile(keys + next, k, stride, j + TILE, (int)z.s);
            load_tile(values + next, v, (int)z.v_row, j + TILE, (int)z.s);
        }
        if (i < my_count) {
            float s[8][4];
            start();
            times_turned<HALF>(s, query + group * TILE_BYTES, keys + now);
            send();
            finish<0>();
            if (over.touches(mine, j))
                hide(s, over, mine + warp * 16 + lane / 4, j + 2 * (lane % 4));
            softmax_step(s, o, r, by);
            round_rows<HALF>(p, s);
            start();
            times<HALF>(o, p, values + now);
            send();
            finish<0>();
        }
        arrive();
    }
    finish_rows<HALF>(z, b, h, mine + warp * 16, o, r);
}

sl_err flash_forward(const sl_cuda_call *call, const att &z) {
    dim3 grid((unsigned)((z.t + BLOCK - 1) / BLOCK), (unsigned)z.hq, (unsigned)z.b);
    return z.q.half == SL_HALF_FP16 ? flash_launch(call, forward<SL_HALF_FP16>, grid, 6, z)
                                    : flash_launch(call, forward<SL_HALF_BF16>, grid, 6, z);
}
