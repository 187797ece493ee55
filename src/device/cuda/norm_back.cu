/* Gradients of layernorm and rmsnorm, separate or fused. Both use the same sequence of operations,
 * so the fused kernel gives the bits of the separate ones, which programs that split I and W use.
 *
 *   dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy w      rmsnorm: without mean(g)
 *   dw = sum over rows of dy xhat                              db = sum over rows of dy
 *
 * With another gradient r of x, dx + r is stored; dx is rounded first, as if it had been stored.
 * With another part e of dy, dy + e is rounded likewise.
 */
#include "device/cuda/norm.cuh"

static __device__ __forceinline__ float hat_of(float x, float mean, float rstd) {
    return __fmul_rn(__fsub_rn(x, mean), rstd);
}

static __device__ __forceinline__ float dx_of(float g, float hat, float sum, float dot,
                                              float rstd) {
    return __fmul_rn(rstd, __fmaf_rn(-hat, dot, __fsub_rn(g, sum)));
}

struct grad_args {
    array dy, x, w, mean, rstd, dx;
    rows z;
    bool add;
    array r, e; /* at may be NULL */
};

static __device__ __forceinline__ float plus(const grad_args &a, float dx, float r) {
    return __fadd_rn(as_stored(a.dx, dx), r);
}

static __global__ void dx_kept(grad_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    eight g[KEPT], hat[KEPT];
    if (row >= a.z.count)
        return;
    float mean = a.mean.at ? get(a.mean, row) : 0, rstd = get(a.rstd, row), sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            g[k] = get8(a.dy, base + at(k, lane));
            hat[k] = get8(a.x, base + at(k, lane));
            eight w = a.w.at ? get8(a.w, at(k, lane)) : ones();
            for (int j = 0; j < 8; j++) {
                g[k].v[j] = __fmul_rn(g[k].v[j], w.v[j]);
                hat[k].v[j] = hat_of(hat[k].v[j], mean, rstd);
                sum = __fadd_rn(sum, g[k].v[j]);
                dot = __fmaf_rn(g[k].v[j], hat[k].v[j], dot);
            }
        }
    sum = a.mean.at ? warp_sum(sum) / (float)n : 0;
    dot = warp_sum(dot) / (float)n;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            eight old = a.add    ? get8(a.dx, base + at(k, lane))
                        : a.r.at ? get8(a.r, base + at(k, lane))
                                 : eight{};
            for (int j = 0; j < 8; j++) {
                float v = dx_of(g[k].v[j], hat[k].v[j], sum, dot, rstd);
                g[k].v[j] = a.add ? old.v[j] + v : a.r.at ? plus(a, v, old.v[j]) : v;
            }
            put8(a.dx, base + at(k, lane), g[k]);
        }
}

static __global__ void dx_long(grad_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    if (row >= a.z.count)
        return;
    float mean = a.mean.at ? get(a.mean, row) : 0, rstd = get(a.rstd, row), sum = 0, dot = 0;
    for (i64 j = lane; j < n; j += 32) {
        float g = get(a.dy, base + j) * (a.w.at ? get(a.w, j) : 1);
        sum += g;
        dot += g * (get(a.x, base + j) - mean) * rstd;
    }
    sum = a.mean.at ? warp_sum(sum) / (float)n : 0;
    dot = warp_sum(dot) / (float)n;
    for (i64 j = lane; j < n; j += 32) {
        float g = get(a.dy, base + j) * (a.w.at ? get(a.w, j) : 1);
        float hat = (get(a.x, base + j) - mean) * rstd, v = rstd * (g - sum - hat * dot);
        put(a.dx, base + j, a.r.at ? plus(a, v, get(a.r, base + j)) : v, a.add);
    }
}

static sl_err run_dx(const sl_cuda_call *call, const grad_args &a) {
    if (fits(a.z.n) && fit8(a.dy, a.x, a.w, a.dx, a.r))
        dx_kept<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    else
        dx_long<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    return launched(call);
}

static sl_err k_layernorm_dx(const sl_cuda_call *call) {
    return run_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                                  in_array(call, 3), in_array(call, 4), out_array(call, 0),
                                  rows_of(call->instr->in[0]), call->add});
}

static sl_err k_rmsnorm_dx(const sl_cuda_call *call) {
    return run_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 3), array{},
                                  in_array(call, 2), out_array(call, 0),
                                  rows_of(call->instr->in[0]), call->add});
}

/* ---- dw ---- */

struct load_dw {
    array dy, x, mean, rstd;
    i64 n;
    bool wide;
    __device__ __forceinline__ void one(i64 row, i64 col, float &sum) const {
        float m = mean.at ? get(mean, row) : 0;
        sum = __fmaf_rn(get(dy, row * n + col), hat_of(get(x, row * n + col), m, get(rstd, row)),
                        sum);
    }
    __device__ __forceinline__ void many(i64 row, i64 col, eight &sum) const {
        float m = mean.at ? get(mean, row) : 0, r = get(rstd, row);
        eight d = get8(dy, row * n + col), v = get8(x, row * n + col);
        for (int k = 0; k < 8; k++)
            sum.v[k] = __fmaf_rn(d.v[k], hat_of(v.v[k], m, r), sum.v[k]);
    }
};

static sl_err k_layernorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                               in_array(call, 3), z.n, fit8(in_array(call, 0), in_array(call, 1))});
}

static sl_err k_rmsnorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), array{}, in_array(call, 2),
                               z.n, fit8(in_array(call, 0), in_array(call, 1))});
}

static i64 dw_scratch(const sl_instr *instr) {
    rows z = rows_of(instr->in[0]);
    return column_scratch(z.count, z.n);
}

/* ---- all of layernorm's in one pass over dy and x ---- */

struct parts {
    float *w, *b; /* [chunks][n] */
    i64 each;     /* rows per chunk */
};

/* Adds the sums of the eight warps, in order, to part[chunk][col]. */
template <int K>
static __device__ __forceinline__ void put_part(float *part, const eight sum[K], i64 n,
                                                float (*all)[32 * 8 * KEPT]) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < 8; j++)
            all[warp][at(k, lane) + j] = sum[k].v[j];
    __syncthreads();
    for (i64 col = threadIdx.x; col < n; col += blockDim.x) {
        float s = 0;
        for (int r = 0; r < COLUMN_ROWS; r++)
            s += all[r][col];
        part[blockIdx.x * n + col] = s;
    }
}

/* dy + e, rounded as if it had been stored. */
static __device__ __forceinline__ eight both_parts(array dy, eight a, const eight &b) {
    for (int j = 0; j < 8; j++)
        a.v[j] = as_stored(dy, __fadd_rn(a.v[j], b.v[j]));
    return a;
}

/* The current row of a warp: g is dy or dy + e; `hat` initially is x, then normalised x. */
template <int K> struct row_at_work {
    i64 row;
    float mean, rstd;
    eight g[K], hat[K];
};
template <int K> struct column_sums { eight w[K], b[K]; };

/* others(k): the k-th group of eight of r */
template <int K, bool SUM, class R>
static __device__ __forceinline__ void grad_row(const grad_args &a, row_at_work<K> &z,
                                                column_sums<K> &sums, R others) {
    int lane = threadIdx.x % 32;
    i64 n = a.z.n;
    float sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (at(k, lane) < n) {
            eight w = get8(a.w, at(k, lane));
            for (int j = 0; j < 8; j++) {
                z.hat[k].v[j] = hat_of(z.hat[k].v[j], z.mean, z.rstd);
                sums.w[k].v[j] = __fmaf_rn(z.g[k].v[j], z.hat[k].v[j], sums.w[k].v[j]);
                sums.b[k].v[j] = __fadd_rn(sums.b[k].v[j], z.g[k].v[j]);
                z.g[k].v[j] = __fmul_rn(z.g[k].v[j], w.v[j]);
                sum = __fadd_rn(sum, z.g[k].v[j]);
                dot = __fmaf_rn(z.g[k].v[j], z.hat[k].v[j], dot);
            }
        }
    sum = warp_sum(sum) / (float)n;
    dot = warp_sum(dot) / (float)n;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (at(k, lane) < n) {
            eight other = SUM ? others(k) : eight{};
            for (int j = 0; j < 8; j++) {
                float v = dx_of(z.g[k].v[j], z.hat[k].v[j], sum, dot, z.rstd);
                z.g[k].v[j] = SUM ? plus(a, v, other.v[j]) : v;
            }
            put8(a.dx, z.row * n + at(k, lane), z.g[k]);
        }
}

/* A block handles a chunk of rows; its eight warps take eight rows at a time, as in columns.cuh.
 * HALF: type of dy, x, dx, r and e. SUM: there is an r; there may be an e. */
template <int K, int HALF, bool SUM>
static __global__ void __launch_bounds__(32 * COLUMN_ROWS) norm_grad(grad_args a, parts p) {
    __shared__ float all[COLUMN_ROWS][32 * 8 * KEPT];
    if (HALF)
        a.dy.half = a.x.half = a.dx.half = a.r.half = a.e.half = HALF;
    int lane = threadIdx.x % 32;
    i64 n = a.z.n, first = blockIdx.x * p.each;
    i64 last = first + p.each < a.z.count ? first + p.each : a.z.count;
    column_sums<K> sums = {};
    for (i64 row = first + threadIdx.x / 32; row < last; row += COLUMN_ROWS) {
        row_at_work<K> z = {row, get(a.mean, row), get(a.rstd, row)};
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at(k, lane) < n) {
                z.g[k] = get8(a.dy, row * n + at(k, lane));
                z.hat[k] = get8(a.x, row * n + at(k, lane));
                if (a.e.at)
                    z.g[k] = both_parts(a.dy, z.g[k], get8(a.e, row * n + at(k, lane)));
            }
        grad_row<K, SUM>(a, z, sums, [&](int k) { return get8(a.r, row * n + at(k, lane)); });
    }
    put_part<K>(p.w, sums.w, n, all);
    put_part<K>(p.b, sums.b, n, all);
}

/* The same for long 16-bit rows. They need so many registers that a multiprocessor runs one block
 * only, so each lane prefetches its part of the next rows to shared memory. */
enum { AHEAD = 2, RING = AHEAD + 1 };

template <int groups> static __device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups) : "memory");
}

template <int K, int T> struct row_ring {
    uint4 *mine; /* of this lane: [RING][T][K], 32 apart */
    __device__ __forceinline__ uint4 *piece(int turn, int t, int k) const {
        return mine + ((turn * T + t) * K + k) * 32;
    }
    __device__ __forceinline__ void ask(int turn, int t, array from, i64 row, i64 n) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at(k, lane) < n)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(
                                 (uint32_t)__cvta_generic_to_shared(piece(turn, t, k))),
                             "l"((const uint16_t *)from.at + row * n + at(k, lane)));
    }
};

template <int K, int HALF, bool SUM, bool PARTS>
static __global__ void __launch_bounds__(32 * COLUMN_ROWS) norm_grad_long(grad_args a, parts p) {
    extern __shared__ uint4 rows_ahead[];
    constexpr int T = 2 + SUM + PARTS, OF_R = 2, OF_E = 2 + SUM;
    a.dy.half = a.dx.half = HALF;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, turn = 0;
    i64 n = a.z.n, first = blockIdx.x * p.each;
    i64 last = first + p.each < a.z.count ? first + p.each : a.z.count;
    row_ring<K, T> ring = {rows_ahead + warp * RING * T * K * 32 + lane};
    auto ask = [&](i64 row, int to) {
        if (row < last) {
            ring.ask(to, 0, a.dy, row, n);
            ring.ask(to, 1, a.x, row, n);
            if (SUM)
                ring.ask(to, OF_R, a.r, row, n);
            if (PARTS)
                ring.ask(to, OF_E, a.e, row, n);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    };
    auto read = [&](int t, int k) { return get8(array{ring.piece(turn, t, k), HALF}, 0); };
    column_sums<K> sums = {};
    i64 row = first + warp;
    float mean = row < last ? get(a.mean, row) : 0, rstd = row < last ? get(a.rstd, row) : 0;
    for (int i = 0; i < AHEAD; i++)
        ask(row + i * COLUMN_ROWS, i);
    for (; row < last; row += COLUMN_ROWS, turn = (turn + 1) % RING) {
        i64 next = row + COLUMN_ROWS < last ? row + COLUMN_ROWS : row;
        float next_mean = get(a.mean, next), next_rstd = get(a.rstd, next);
        row_at_work<K> z = {row, mean, rstd};
        ask(row + AHEAD * COLUMN_ROWS, (turn + AHEAD) % RING);
        wait_for_all_but<AHEAD>();
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at(k, lane) < n) {
                z.g[k] = read(0, k);
                z.hat[k] = read(1, k);
                if (PARTS)
                    z.g[k] = both_parts(a.dy, z.g[k], read(OF_E, k));
            }
        grad_row<K, SUM>(a, z, sums, [&](int k) { return read(OF_R, k); });
        mean = next_mean;
        rstd = next_rstd;
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");
    put_part<K>(p.w, sums.w, n, (float(*)[32 * 8 * KEPT]) rows_ahead);
    put_part<K>(p.b, sums.b, n, (float(*)[32 * 8 * KEPT]) rows_ahead);
}

template <int K, int HALF, bool SUM, bool PARTS>
static sl_err launch_long(const sl_cuda_call *call, const grad_args &a, parts p, i64 chunks) {
    auto kernel = norm_grad_long<K, HALF, SUM, PARTS>;
    int ring = COLUMN_ROWS * RING * (2 + SUM + PARTS) * K * 32 * (int)sizeof(uint4);
    int sums = COLUMN_ROWS * 32 * 8 * KEPT * (int)sizeof(float), bytes = ring > sums ? ring : sums;
    SL_TRY(
        SL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)));
    kernel<<<(unsigned)chunks, 32 * COLUMN_ROWS, bytes, call->stream>>>(a, p);
    return SL_OK;
}

template <int HALF, bool SUM>
static sl_err launch_grad(const sl_cuda_call *call, const grad_args &a, parts p, i64 chunks) {
    unsigned blocks = (unsigned)chunks, threads = 32 * COLUMN_ROWS;
    bool shorter = a.z.n <= 768;
    if (a.z.n <= 256)
        norm_grad<1, HALF, SUM><<<blocks, threads, 0, call->stream>>>(a, p);
    else if (a.z.n <= 512)
        norm_grad<2, HALF, SUM><<<blocks, threads, 0, call->stream>>>(a, p);
    else if constexpr (HALF != SL_HALF_NOT)
        return shorter && a.e.at ? launch_long<3, HALF, SUM, true>(call, a, p, chunks)
               : shorter         ? launch_long<3, HALF, SUM, false>(call, a, p, chunks)
               : a.e.at          ? launch_long<4, HALF, SUM, true>(call, a, p, chunks)
                                 : launch_long<4, HALF, SUM, false>(call, a, p, chunks);
    else if (shorter)
        norm_grad<3, HALF, SUM><<<blocks, threads, 0, call->stream>>>(a, p);
    else
        norm_grad<4, HALF, SUM><<<blocks, threads, 0, call->stream>>>(a, p);
    return SL_OK;
}

template <int HALF>
static sl_err launch_sum(const sl_cuda_call *call, const grad_args &a, parts p, i64 chunks) {
    return a.r.at ? launch_grad<HALF, true>(call, a, p, chunks)
                  : launch_grad<HALF, false>(call, a, p, chunks);
}

/* dx may overwrite dy, x, r or e: the same warp reads a row before it writes it. */
static sl_err run_grad(const sl_cuda_call *call, const grad_args &a, parts p, i64 chunks) {
    int half = half_of_all(a.dy, a.x, a.dx, a.r, a.e);
    if (half == SL_HALF_BF16)
        SL_TRY(launch_sum<SL_HALF_BF16>(call, a, p, chunks));
    else if (half == SL_HALF_FP16)
        SL_TRY(launch_sum<SL_HALF_FP16>(call, a, p, chunks));
    else
        SL_TRY(launch_sum<SL_HALF_NOT>(call, a, p, chunks));
    end_columns(call, out_array(call, 1), p.w, chunks, a.z.n);
    end_columns(call, out_array(call, 2), p.b, chunks, a.z.n);
    return launched(call);
}

static __global__ void add_parts(array sum, array dy, array e, i64 count) {
    GRID_LOOP(i, count)
    put(sum, i, __fadd_rn(get(dy, i), get(e, i)));
}

/* dx may overwrite dy, x, r or e, so without the fused kernel it comes last. */
static sl_err k_layernorm_grad(const sl_cuda_call *call) {
    grad_args a = {
        in_array(call, 0), in_array(call, 1),  in_array(call, 2),           in_array(call, 3),
        in_array(call, 4), out_array(call, 0), rows_of(call->instr->in[0]), false,
        in_array(call, 5), in_array(call, 6)};
    i64 chunks = column_chunks(a.z.count), bytes = column_scratch(a.z.count, a.z.n);
    bool wide = fit8(a.dy, a.x);
    float *second = (float *)((char *)call->scratch + bytes);
    if (fits(a.z.n) && fit8(a.dy, a.x, a.w, a.dx, a.r, a.e))
        return run_grad(call, a,
                        parts{(float *)call->scratch, second, (a.z.count + chunks - 1) / chunks},
                        chunks);
    if (a.e.at) {
        array sum = {(char *)call->scratch + 2 * bytes, a.dy.half};
        i64 count = a.z.count * a.z.n;
        add_parts<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(sum, a.dy, a.e, count);
        a.dy = sum;
        wide = fit8(a.dy, a.x);
    }
    SL_TRY(sum_columns(call, out_array(call, 1), a.z.count, a.z.n,
                       load_dw{a.dy, a.x, a.mean, a.rstd, a.z.n, wide}));
    SL_TRY(sum_columns(call, out_array(call, 2), a.z.count, a.z.n, load_plain{a.dy, a.z.n, wide}));
    return run_dx(call, a);
}

/* dy + e is stored in scratch only if the fused kernel does not support the rows. */
static i64 grad_scratch(const sl_instr *instr) {
    bool whole = fits(rows_of(instr->in[0]).n) && instr->out[0].offset % 16 == 0;
    for (int i = 0; i < instr->in_count; i++)
        whole = whole && instr->in[i].offset % 16 == 0;
    bool stores = instr->in_count > 6 && !whole;
    return 2 * dw_scratch(instr) + (stores ? instr->in[0].numel * (i64)sizeof(float) : 0);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_norms_back[] = {
    {"layernorm_dw", k_layernorm_dw, dw_scratch},
    {"layernorm_dx", k_layernorm_dx},
    {"layernorm_grad", k_layernorm_grad, grad_scratch},
    {"rmsnorm_dw", k_rmsnorm_dw, dw_scratch},
    {"rmsnorm_dx", k_rmsnorm_dx},
    {},
};
/* clang-format on */
