/* All gradients of a layernorm (dx, dw, db) or an rmsnorm (dx, dw) in one pass over dy and x.
 *
 * A block handles a chunk of rows, column_rows(n) rows at a time, as in columns.cuh. Template
 * parameters: K: groups of eight per lane; W: warps per row; HALF: type of dy, x, dx, r and e;
 * CENTRED: layernorm.
 */
#include "device/cuda/norm_back.cuh"

struct parts {
    float *w, *b; /* [chunks][n]; b is for layernorm only */
    i64 each;     /* number of rows per chunk */
};

static constexpr int TABLE =
    32 * 8 * (int)KEPT * (int)COLUMN_ROWS; /* floats of all rows that are handled at a time */

/* Adds the sums of the rows that are handled at a time, in order, to part[chunk][col]. */
template <int K, int W>
static __device__ __forceinline__ void put_part(float *part, const eight sum[K], i64 n,
                                                float *all) {
    constexpr i64 width = 32 * 8 * KEPT * W;
    i64 group = threadIdx.x / (32 * W);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < K; k++)
        for (int j = 0; j < 8; j++)
            all[group * width + at<W>(k) + j] = sum[k].v[j];
    __syncthreads();
    for (i64 col = threadIdx.x; col < n; col += blockDim.x) {
        float s = 0;
        for (int r = 0; r < COLUMN_ROWS / W; r++)
            s += all[r * width + col];
        part[blockIdx.x * n + col] = s;
    }
}

/* Returns dy + e, rounded as if it had been stored. */
static __device__ __forceinline__ eight both_parts(array dy, eight a, const eight &b) {
    for (int j = 0; j < 8; j++)
        a.v[j] = as_stored(dy, __fadd_rn(a.v[j], b.v[j]));
    return a;
}

/* The row that a warp works on. g is dy or dy + e; `hat` is x at first, then normalised x. If
 * `live` is false, the row is behind the last one: it holds zeros, and nothing is stored. */
template <int K> struct row_at_work {
    i64 row;
    bool live;
    float mean, rstd;
    eight g[K], hat[K];
};
template <int K> struct column_sums { eight w[K], b[K]; };

/* others(k) returns the k-th group of eight of r. */
template <int K, int W, bool CENTRED, class R>
static __device__ __forceinline__ void grad_row(const grad_args &a, row_at_work<K> &z,
                                                column_sums<K> &sums, R others) {
    i64 n = a.z.n;
    float sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (at<W>(k) < n) {
            eight w = CENTRED || a.w.at ? get8(a.w, at<W>(k)) : ones();
            for (int j = 0; j < 8; j++) {
                z.hat[k].v[j] = hat_of(z.hat[k].v[j], z.mean, z.rstd);
                sums.w[k].v[j] = __fmaf_rn(z.g[k].v[j], z.hat[k].v[j], sums.w[k].v[j]);
                if (CENTRED)
                    sums.b[k].v[j] = __fadd_rn(sums.b[k].v[j], z.g[k].v[j]);
                z.g[k].v[j] = __fmul_rn(z.g[k].v[j], w.v[j]);
                sum = __fadd_rn(sum, z.g[k].v[j]);
                dot = __fmaf_rn(z.g[k].v[j], z.hat[k].v[j], dot);
            }
        }
    float2 both = row_sums<W>(sum, dot);
    sum = CENTRED ? both.x / (float)n : 0;
    dot = both.y / (float)n;
#pragma unroll
    for (int k = 0; k < K; k++)
        if (at<W>(k) < n && (W == 1 || z.live)) {
            eight other = a.r.at ? others(k) : eight{};
            for (int j = 0; j < 8; j++) {
                float v = dx_of(z.g[k].v[j], z.hat[k].v[j], sum, dot, z.rstd);
                z.g[k].v[j] = a.r.at ? plus(a, v, other.v[j]) : v;
            }
            put8(a.dx, z.row * n + at<W>(k), z.g[k]);
        }
}

template <int K, int W, bool CENTRED>
static __device__ __forceinline__ void put_sums(const parts &p, const column_sums<K> &sums, i64 n,
                                                float *all) {
    put_part<K, W>(p.w, sums.w, n, all);
    if (CENTRED)
        put_part<K, W>(p.b, sums.b, n, all);
}

/* The rows of a block. Warps [W g, W g + W) handle the rows first + g, first + g + step, ... */
struct rows_of_block {
    i64 first, last, row;
};
template <int W> static __device__ __forceinline__ rows_of_block block_rows(i64 count, i64 each) {
    rows_of_block r = {blockIdx.x * each, blockIdx.x * each + each, 0};
    r.last = r.last < count ? r.last : count;
    r.row = r.first + threadIdx.x / (32 * W);
    return r;
}
/* All warps of a block iterate equally often if they wait for each other. */
template <int W> static __device__ __forceinline__ bool more_rows(const rows_of_block &r) {
    return (W == 1 ? r.row : r.row - threadIdx.x / (32 * W)) < r.last;
}

template <int K, int W, int HALF, bool CENTRED>
static __global__ void __launch_bounds__(32 * COLUMN_ROWS) norm_grad(grad_args a, parts p) {
    __shared__ float all[TABLE];
    constexpr int step = COLUMN_ROWS / W;
    if (HALF)
        a.dy.half = a.x.half = a.dx.half = a.r.half = a.e.half = HALF;
    i64 n = a.z.n;
    rows_of_block r = block_rows<W>(a.z.count, p.each);
    column_sums<K> sums = {};
    for (; more_rows<W>(r); r.row += step) {
        row_at_work<K> z = {r.row, r.row < r.last};
        if (z.live) {
            z.mean = CENTRED ? get(a.mean, r.row) : 0;
            z.rstd = get(a.rstd, r.row);
        }
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at<W>(k) < n && (W == 1 || z.live)) {
                z.g[k] = get8(a.dy, r.row * n + at<W>(k));
                z.hat[k] = get8(a.x, r.row * n + at<W>(k));
                if (a.e.at)
                    z.g[k] = both_parts(a.dy, z.g[k], get8(a.e, r.row * n + at<W>(k)));
            }
        grad_row<K, W, CENTRED>(a, z, sums, [&](int k) { return get8(a.r, r.row * n + at<W>(k)); });
    }
    put_sums<K, W, CENTRED>(p, sums, n, all);
}

/* The same for long 16-bit rows. They need so many registers that a multiprocessor runs one block
 * or two, so each lane prefetches its part of the next rows to shared memory. */
enum { AHEAD = 2, RING = AHEAD + 1 };

template <int groups> static __device__ __forceinline__ void wait_for_all_but() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups) : "memory");
}

template <int K, int W> struct row_ring {
    uint4 *mine; /* the pieces of this lane: [RING][count][K], 32 apart */
    int count;   /* number of arrays */
    __device__ __forceinline__ uint4 *piece(int turn, int t, int k) const {
        return mine + ((turn * count + t) * K + k) * 32;
    }
    __device__ __forceinline__ void ask(int turn, int t, array from, i64 row, i64 n) const {
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at<W>(k) < n)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(
                                 (uint32_t)__cvta_generic_to_shared(piece(turn, t, k))),
                             "l"((const uint16_t *)from.at + row * n + at<W>(k)));
    }
};

static inline __host__ __device__ int arrays_of(const grad_args &a) {
    return 2 + (a.r.at != NULL) + (a.e.at != NULL);
}

template <int K, int W, int HALF, bool CENTRED>
static __global__ void __launch_bounds__(32 * COLUMN_ROWS) norm_grad_long(grad_args a, parts p) {
    extern __shared__ uint4 rows_ahead[];
    constexpr int step = COLUMN_ROWS / W;
    a.dy.half = a.dx.half = HALF;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, turn = 0, count = arrays_of(a);
    int of_e = count - 1;
    i64 n = a.z.n;
    rows_of_block r = block_rows<W>(a.z.count, p.each);
    row_ring<K, W> ring = {rows_ahead + warp * RING * count * K * 32 + lane, count};
    auto ask = [&](i64 row, int to) {
        if (row < r.last) {
            ring.ask(to, 0, a.dy, row, n);
            ring.ask(to, 1, a.x, row, n);
            if (a.r.at)
                ring.ask(to, 2, a.r, row, n);
            if (a.e.at)
                ring.ask(to, of_e, a.e, row, n);
        }
        asm volatile("cp.async.commit_group;\n" ::: "memory");
    };
    auto read = [&](int t, int k) { return get8(array{ring.piece(turn, t, k), HALF}, 0); };
    column_sums<K> sums = {};
    auto stat = [&](array of, i64 row) { return row < r.last ? get(of, row) : 0; };
    float mean = CENTRED ? stat(a.mean, r.row) : 0, rstd = stat(a.rstd, r.row);
    for (int i = 0; i < AHEAD; i++)
        ask(r.row + i * step, i);
    for (; more_rows<W>(r); r.row += step, turn = (turn + 1) % RING) {
        float next_mean = CENTRED ? stat(a.mean, r.row + step) : 0;
        float next_rstd = stat(a.rstd, r.row + step);
        row_at_work<K> z = {r.row, r.row < r.last, mean, rstd};
        ask(r.row + AHEAD * step, (turn + AHEAD) % RING);
        wait_for_all_but<AHEAD>();
#pragma unroll
        for (int k = 0; k < K; k++)
            if (at<W>(k) < n && (W == 1 || z.live)) {
                z.g[k] = read(0, k);
                z.hat[k] = read(1, k);
                if (a.e.at)
                    z.g[k] = both_parts(a.dy, z.g[k], read(of_e, k));
            }
        grad_row<K, W, CENTRED>(a, z, sums, [&](int k) { return read(2, k); });
        mean = next_mean;
        rstd = next_rstd;
    }
    asm volatile("cp.async.wait_all;\n" ::: "memory");
    put_sums<K, W, CENTRED>(p, sums, n, (float *)rows_ahead);
}

/* ---- launching ---- */

struct grad_call {
    const sl_cuda_call *call;
    grad_args a;
    parts p;
    i64 chunks;
};

template <int K, int W, int HALF, bool CENTRED> static sl_err launch_long(const grad_call &g) {
    auto kernel = norm_grad_long<K, W, HALF, CENTRED>;
    int ring = COLUMN_ROWS * RING * arrays_of(g.a) * K * 32 * (int)sizeof(uint4);
    int sums = TABLE * (int)sizeof(float), bytes = ring > sums ? ring : sums;
    SL_TRY(
        SL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)));
    kernel<<<(unsigned)g.chunks, 32 * COLUMN_ROWS, bytes, g.call->stream>>>(g.a, g.p);
    return SL_OK;
}

template <int K, int W, int HALF, bool CENTRED> static sl_err launch_short(const grad_call &g) {
    norm_grad<K, W, HALF, CENTRED>
        <<<(unsigned)g.chunks, 32 * COLUMN_ROWS, 0, g.call->stream>>>(g.a, g.p);
    return SL_OK;
}

template <int W, int HALF, bool CENTRED> static sl_err launch_wide(const grad_call &g) {
    bool shorter = g.a.z.n <= 768 * W;
    if constexpr (HALF == SL_HALF_NOT)
        return shorter ? launch_short<3, W, HALF, CENTRED>(g)
                       : launch_short<4, W, HALF, CENTRED>(g);
    else
        return shorter ? launch_long<3, W, HALF, CENTRED>(g) : launch_long<4, W, HALF, CENTRED>(g);
}

template <int HALF, bool CENTRED> static sl_err launch_grad(const grad_call &g) {
    int warps = warps_of(g.a.z.n);
    if (g.a.z.n <= 256)
        return launch_short<1, 1, HALF, CENTRED>(g);
    if (g.a.z.n <= 512)
        return launch_short<2, 1, HALF, CENTRED>(g);
    return warps == 1   ? launch_wide<1, HALF, CENTRED>(g)
           : warps == 2 ? launch_wide<2, HALF, CENTRED>(g)
           : warps == 4 ? launch_wide<4, HALF, CENTRED>(g)
                        : launch_wide<8, HALF, CENTRED>(g);
}

/* dx may overwrite dy, x, r or e: the same lane reads its part of a row before it writes it. */
template <bool CENTRED> static sl_err run_grad(const grad_call &g) {
    int half = half_of_all(g.a.dy, g.a.x, g.a.dx, g.a.r, g.a.e);
    if (half == SL_HALF_BF16)
        SL_TRY((launch_grad<SL_HALF_BF16, CENTRED>(g)));
    else if (half == SL_HALF_FP16)
        SL_TRY((launch_grad<SL_HALF_FP16, CENTRED>(g)));
    else
        SL_TRY((launch_grad<SL_HALF_NOT, CENTRED>(g)));
    end_columns(g.call, out_array(g.call, 1), g.p.w, g.chunks, g.a.z.n);
    if (CENTRED)
        end_columns(g.call, out_array(g.call, 2), g.p.b, g.chunks, g.a.z.n);
    return launched(g.call);
}

static __global__ void add_parts(array sum, array dy, array e, i64 count) {
    GRID_LOOP(i, count)
    put(sum, i, __fadd_rn(get(dy, i), get(e, i)));
}

/* dx may overwrite dy, x, r or e, so without the fused kernel it comes last. */
template <bool CENTRED> static sl_err all_grads(const sl_cuda_call *call, grad_args a) {
    i64 chunks = column_chunks(a.z.count), bytes = column_scratch(a.z.count, a.z.n);
    bool wide = fit8(a.dy, a.x);
    float *second = (float *)((char *)call->scratch + bytes);
    if (fits(a.z.n) && fit8(a.dy, a.x, a.w, a.dx, a.r, a.e))
        return run_grad<CENTRED>(
            {call, a, {(float *)call->scratch, second, (a.z.count + chunks - 1) / chunks}, chunks});
    if (a.e.at) {
        array sum = {(char *)call->scratch + 2 * bytes, a.dy.half};
        i64 count = a.z.count * a.z.n;
        add_parts<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(sum, a.dy, a.e, count);
        a.dy = sum;
        wide = fit8(a.dy, a.x);
    }
    SL_TRY(sum_columns(call, out_array(call, 1), a.z.count, a.z.n,
                       load_dw{a.dy, a.x, a.mean, a.rstd, a.z.n, wide}));
    if (CENTRED)
        SL_TRY(
            sum_columns(call, out_array(call, 2), a.z.count, a.z.n, load_plain{a.dy, a.z.n, wide}));
    a.e = array{};
    return norm_dx(call, a);
}

static sl_err k_layernorm_grad(const sl_cuda_call *call) {
    return all_grads<true>(call, {in_array(call, 0), in_array(call, 1), in_array(call, 2),
                                  in_array(call, 3), in_array(call, 4), out_array(call, 0),
                                  rows_of(call->instr->in[0]), false, in_array(call, 5),
                                  in_array(call, 6)});
}

static sl_err k_rmsnorm_grad(const sl_cuda_call *call) {
    return all_grads<false>(call,
                            {in_array(call, 0), in_array(call, 1), in_array(call, 3), array{},
                             in_array(call, 2), out_array(call, 0), rows_of(call->instr->in[0]),
                             false, in_array(call, 4), in_array(call, 5)});
}

/* dy + e is stored in scratch only if the fused kernel does not support the rows. `parts`: number
 * of inputs if there is an e. */
static i64 grad_scratch(const sl_instr *instr, int parts) {
    bool whole = fits(rows_of(instr->in[0]).n) && instr->out[0].offset % 16 == 0;
    for (int i = 0; i < instr->in_count; i++)
        whole = whole && instr->in[i].offset % 16 == 0;
    bool stores = instr->in_count >= parts && !whole;
    return 2 * dw_scratch(instr) + (stores ? instr->in[0].numel * (i64)sizeof(float) : 0);
}

static i64 layernorm_scratch(const sl_instr *instr) { return grad_scratch(instr, 7); }
static i64 rmsnorm_scratch(const sl_instr *instr) { return grad_scratch(instr, 6); }

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_norm_grads[] = {
    {"layernorm_grad", k_layernorm_grad, layernorm_scratch},
    {"rmsnorm_grad", k_rmsnorm_grad, rmsnorm_scratch},
    {},
};
/* clang-format on */
