/* attention on tensor cores, forward: a block has 64 queries of one head, each of its four warps 16
 * of them, and walks over the keys 64 at a time (Dao 2023, FlashAttention-2). */
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

struct running { /* of the two rows of a lane: maximum and sum of exponentials so far */
    float most[2], sum[2];
};

/* Scores become probabilities relative to the maximum so far; o is brought to that maximum. */
static __device__ __forceinline__ void softmax_step(float s[8][4], float o[8][4], running &r,
                                                    float by) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float most = r.most[half];
#pragma unroll
        for (int n = 0; n < 8; n++)
            most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
        most = quad_max(most);
        float base = most == -INFINITY ? 0 : most * by, sum = 0;
        float shrink = power_of_2(r.most[half] * by - base);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int k = 2 * half; k < 2 * half + 2; k++) {
                s[n][k] = power_of_2(s[n][k] * by - base);
                sum += s[n][k];
                o[n][k] *= shrink;
            }
        r.sum[half] = r.sum[half] * shrink + sum;
        r.most[half] = most;
    }
}

static __device__ __forceinline__ void hide(float s[8][4], const veil &v, i64 t, i64 j) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (v.hides(t + (k / 2) * 8, j + n * 8 + (k & 1)))
                s[n][k] = -INFINITY;
}

static __device__ void finish_rows(const att &z, i64 b, i64 h, i64 first, const float o[8][4],
                                   running &r) {
    int lane = threadIdx.x % 32;
    float by[2];
    for (int half = 0; half < 2; half++) {
        i64 t = first + lane / 4 + 8 * half;
        float sum = quad_sum(r.sum[half]);
        by[half] = sum > 0 ? 1 / sum : 0;
        if (t < z.t && lane % 4 == 0)
            ((float *)z.lse.at)[(b * z.hq + h) * z.t + t] =
                sum > 0 ? r.most[half] * z.scale + logf(sum) : 0;
    }
    store_rows((bf16 *)z.y.at + at_q(z, z.hq * z.d, b, 0, h), z.hq * z.d, first, z.t, o, by[0],
               by[1]);
}

static __global__ void __launch_bounds__(FLASH_THREADS, 3) forward(att z) {
    __shared__ __align__(1024) unsigned char tiles[5 * TILE_BYTES];
    uint32_t query = shared_of(tiles), keys = query + TILE_BYTES, values = keys + 2 * TILE_BYTES;
    /* late queries see more keys: they go first */
    i64 first = (i64)(gridDim.x - 1 - blockIdx.x) * TILE, h = blockIdx.y, b = blockIdx.z;
    const bf16 *k = (const bf16 *)z.k.at + at_k(z, z.k_row, b, 0, h);
    const bf16 *v = (const bf16 *)z.v.at + at_k(z, z.v_row, b, 0, h);
    veil over = veil_of(z, b);
    int count = key_tiles(z, first), warp = threadIdx.x / 32;
    i64 mine = first + warp * 16 + threadIdx.x % 32 / 4; /* and 8 below */
    uint32_t a[4][4], p[4][4];
    float o[8][4] = {}, by = z.scale * log2_e;
    running r = {{-INFINITY, -INFINITY}, {0, 0}};
    load_tile(query, (const bf16 *)z.q.at + at_q(z, z.q_row, b, 0, h), z.q_row, first, z.t);
    load_tile(keys, k, z.k_row, 0, z.s);
    load_tile(values, v, z.v_row, 0, z.s);
    arrive();
    read_rows(a, query, warp * 16);
    for (int i = 0; i < count; i++) {
        uint32_t now = (i & 1) * TILE_BYTES, next = TILE_BYTES - now;
        i64 j = (i64)i * TILE;
        float s[8][4];
        start();
        times_turned(s, a, keys + now);
        send();
        if (i + 1 < count) {
            load_tile(keys + next, k, z.k_row, j + TILE, z.s);
            load_tile(values + next, v, z.v_row, j + TILE, z.s);
        }
        finish<0>();
        if (over.touches(first, j))
            hide(s, over, mine, j + 2 * (threadIdx.x % 4));
        softmax_step(s, o, r, by);
        round_rows(p, s);
        start();
        times(o, p, values + now);
        send();
        finish<0>();
        arrive();
    }
    finish_rows(z, b, h, first + warp * 16, o, r);
}

sl_err flash_forward(const sl_cuda_call *call, const att &z) {
    dim3 grid((unsigned)((z.t + TILE - 1) / TILE), (unsigned)z.hq, (unsigned)z.b);
    forward<<<grid, FLASH_THREADS, 0, call->stream>>>(z);
    return launched(call);
}
