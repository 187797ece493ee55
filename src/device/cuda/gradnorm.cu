/* Squared norms of tensors in the order of optim/norm.h, and muon's step.
 *
 *   1024 elements -> a warp: lane l takes x[l], x[l+32], ...      level 0: blocks
 *   1024 sums     -> a block: adjacent pairs, level by level      levels 1, 2: groups, tensors
 *
 * A group of 1024 sums begins at a multiple of a power of two, so it is a node of the tree.
 */
#include "device/cuda/gemm.h"
#include "device/cuda/kernels.cuh"

extern "C" {
#include "optim/muon.h"
#include "optim/norm.h"
}

#include <cstring>

enum { GROUP = 1024, NORM_WARPS = 8 };

struct tensor {
    const float *x;
    i64 count, first_block, first_group;
    i64 blocks, groups;
};

static __device__ int tensor_of(const tensor *list, int count, i64 at, bool group) {
    int low = 0, high = count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if ((group ? list[middle].first_group : list[middle].first_block) <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static __global__ void norm_blocks(const tensor *list, int count, i64 blocks, double *sums) {
    i64 block = (i64)blockIdx.x * NORM_WARPS + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (block >= blocks)
        return;
    const tensor *t = &list[tensor_of(list, count, block, false)];
    i64 start = (block - t->first_block) * SL_NORM_BLOCK, left = t->count - start;
    const float *x = t->x + start;
    double sum = 0;
    left = left < SL_NORM_BLOCK ? left : SL_NORM_BLOCK;
    if (left == SL_NORM_BLOCK) {
#pragma unroll 8
        for (int i = lane; i < SL_NORM_BLOCK; i += 32)
            sum += (double)x[i] * (double)x[i];
    } else {
        for (int i = lane; i < left; i += 32)
            sum += (double)x[i] * (double)x[i];
    }
    for (int h = 16; h; h /= 2)
        sum += __shfl_down_sync(~0u, sum, h);
    if (lane == 0)
        sums[block] = sum;
}

/* Adds sums[0, n) in adjacent pairs, level by level. If their number is odd, the last one moves up
 * unchanged. n is at most GROUP, the number of threads. */
static __device__ double pairs(double mine, i64 n) {
    __shared__ double s[GROUP];
    i64 i = threadIdx.x;
    s[i] = mine;
    __syncthreads();
    for (i64 length = n; length > 1; length = (length + 1) / 2) {
        double a = 2 * i < length ? s[2 * i] : 0;
        if (2 * i + 1 < length)
            a += s[2 * i + 1];
        __syncthreads();
        if (2 * i < length)
            s[i] = a;
        __syncthreads();
    }
    return s[0];
}

static __global__ void norm_groups(const tensor *list, int count, const double *from, double *to) {
    const tensor *t = &list[tensor_of(list, count, blockIdx.x, true)];
    i64 first = (blockIdx.x - t->first_group) * GROUP, n = t->blocks - first;
    n = n < GROUP ? n : GROUP;
    double sum = pairs(threadIdx.x < n ? from[t->first_block + first + threadIdx.x] : 0, n);
    if (threadIdx.x == 0)
        to[blockIdx.x] = sum;
}

static __global__ void norm_tensors(const tensor *list, const double *from, double *to) {
    const tensor *t = &list[blockIdx.x];
    double sum = pairs(threadIdx.x < t->groups ? from[t->first_group + threadIdx.x] : 0, t->groups);
    if (threadIdx.x == 0)
        to[blockIdx.x] = t->count ? sum : 0;
}

struct layout { /* offsets in scratch */
    i64 blocks, groups, table, block_sums, group_sums, sums, bytes;
};

static layout layout_of(const sl_norm_item *items, int count) {
    layout l = {};
    for (int i = 0; i < count; i++) {
        i64 blocks = sl_optim_norm_block_count(items[i].count);
        l.blocks += blocks;
        l.groups += (blocks + GROUP - 1) / GROUP;
    }
    l.block_sums = ((i64)sizeof(tensor) * count + 255) / 256 * 256;
    l.group_sums = l.block_sums + 8 * l.blocks;
    l.sums = l.group_sums + 8 * l.groups;
    l.bytes = l.sums + 8 * count;
    return l;
}

static sl_err fill_table(const sl_norm_item *items, int count, tensor *table) {
    i64 block = 0, group = 0;
    for (int i = 0; i < count; i++) {
        i64 blocks = sl_optim_norm_block_count(items[i].count),
            groups = (blocks + GROUP - 1) / GROUP;
        if (groups > GROUP)
            return sl_fail(SL_ERR_REFUSED,
                           "a tensor of %lld elements is too large for the norm on GPUs",
                           (long long)items[i].count);
        table[i] = tensor{items[i].x, items[i].count, block, group, blocks, groups};
        block += blocks;
        group += groups;
    }
    return SL_OK;
}

/* Computes the squared norms; *out points to them in device memory. */
static sl_err norms(sl_cuda_device *cuda, const sl_norm_item *items, int count, double **out) {
    layout l = layout_of(items, count);
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    void *room, *pinned;
    SL_TRY(sl_cuda_room(cuda, l.bytes, &room));
    SL_TRY(sl_cuda_pin(cuda, l.block_sums, stream, &pinned));
    SL_TRY(fill_table(items, count, (tensor *)pinned));
    SL_TRY(SL_CUDA(cudaMemcpyAsync(room, pinned, sizeof(tensor) * (size_t)count,
                                   cudaMemcpyHostToDevice, stream)));
    const tensor *table = (const tensor *)room;
    double *blocks = (double *)((char *)room + l.block_sums);
    double *groups = (double *)((char *)room + l.group_sums);
    *out = (double *)((char *)room + l.sums);
    norm_blocks<<<(unsigned)((l.blocks + NORM_WARPS - 1) / NORM_WARPS), 32 * NORM_WARPS, 0,
                  stream>>>(table, count, l.blocks, blocks);
    norm_groups<<<(unsigned)l.groups, GROUP, 0, stream>>>(table, count, blocks, groups);
    norm_tensors<<<(unsigned)count, GROUP, 0, stream>>>(table, groups, *out);
    return sl_cuda_check(cudaGetLastError(), "gradient norm");
}

extern "C" sl_err sl_cuda_norm_sq(sl_device *device, const sl_norm_item *items, int count) {
    sl_cuda_device *cuda = sl_cuda_of(device);
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    double *sums;
    void *host;
    if (!count)
        return SL_OK;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    SL_TRY(norms(cuda, items, count, &sums));
    SL_TRY(sl_cuda_pin(cuda, 8 * count, stream, &host));
    SL_TRY(SL_CUDA(cudaMemcpyAsync(host, sums, 8 * (size_t)count, cudaMemcpyDeviceToHost, stream)));
    SL_TRY(SL_CUDA(cudaStreamSynchronize(stream)));
    for (int i = 0; i < count; i++)
        *items[i].sum = ((const double *)host)[i];
    return SL_OK;
}

/* ---- muon (optim/muon.c): as device/cpu/muon.c, with cuBLAS for the products ---- */

struct muon {
    const sl_step_item *item;
    float *x, *a, *b, *y;
    i64 k, n;
    cudaStream_t stream;
};

struct matrix { /* one matrix, transposed if it has more rows than columns */
    i64 rows, cols, count;
    __device__ __forceinline__ i64 place(i64 i) const {
        return rows > cols ? i % cols * rows + i / cols : i;
    }
};

static __global__ void momentum(float *x, float *state, const float *g, sl_step_coef c, matrix z) {
    GRID_LOOP(i, z.count) {
        float each = __fmul_rn(g[i], c.scale);
        float m = __fadd_rn(__fmul_rn(c.beta1, state[i]), __fmul_rn(c.rest1, each));
        state[i] = m;
        x[z.place(i)] = __fadd_rn(__fmul_rn(c.beta2, m), __fmul_rn(c.rest2, each));
    }
}

static __global__ void normalise(float *x, const double *sum, i64 count) {
    double norm = sqrt(*sum);
    float fix = (float)(1 / (norm > SL_MUON_EPS ? norm : SL_MUON_EPS));
    GRID_LOOP(i, count) x[i] *= fix;
}

static __global__ void mix(float *out, const float *u, const float *v, float p, float q,
                           i64 count) {
    GRID_LOOP(i, count) out[i] = p * u[i] + q * v[i];
}

static __global__ void apply(float *w, float *delta, const float *x, sl_step_coef c, matrix z) {
    GRID_LOOP(i, z.count) {
        float d = __fmul_rn(c.gain, x[z.place(i)]);
        w[i] = __fsub_rn(__fmul_rn(w[i], c.shrink), __fmul_rn(c.lr, d));
        if (delta)
            delta[i] = d;
    }
}

struct factors { /* y [m,n] = a [m,k] b */
    float *y;
    const float *a, *b;
    i64 m, k, n;
    bool tb;
};

static sl_err multiply(sl_cuda_device *cuda, const muon &m, const factors &f) {
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.m = f.m;
    g.k = f.k;
    g.n = f.n;
    g.tb = f.tb;
    g.batch = 1;
    g.align = 4;
    sl_cuda_gemm_pack(&g);
    sl_gemm_io io = {f.a, f.b, NULL, f.y, NULL, NULL, 0, m.stream};
    return sl_cuda_gemm_run(cuda, &g, &io);
}

static sl_err newton_schulz(sl_cuda_device *cuda, const muon &m) {
    i64 k = m.k, n = m.n;
    SL_TRY(multiply(cuda, m, {m.a, m.x, m.x, k, n, k, true}));
    SL_TRY(multiply(cuda, m, {m.b, m.a, m.a, k, k, k, false}));
    mix<<<blocks_for(k * k, THREADS), THREADS, 0, m.stream>>>(m.b, m.a, m.b, (float)SL_MUON_B,
                                                              (float)SL_MUON_C, k * k);
    SL_TRY(multiply(cuda, m, {m.y, m.b, m.x, k, k, n, false}));
    mix<<<blocks_for(k * n, THREADS), THREADS, 0, m.stream>>>(m.x, m.x, m.y, (float)SL_MUON_A, 1,
                                                              k * n);
    return sl_cuda_check(cudaGetLastError(), "muon");
}

extern "C" sl_err sl_cuda_muon(sl_cuda_device *cuda, const sl_step_item *item) {
    const sl_step_io *io = &item->io;
    muon m = {item, (float *)io->scratch};
    double *sum;
    m.stream = cuda->streams[SL_STREAM_COMPUTE];
    m.k = io->rows < io->cols ? io->rows : io->cols;
    m.n = io->count / m.k;
    m.a = m.x + io->count;
    m.b = m.a + m.k * m.k;
    m.y = m.b + m.k * m.k;
    unsigned blocks = blocks_for(io->count, THREADS);
    matrix z = {io->rows, io->cols, io->count};
    momentum<<<blocks, THREADS, 0, m.stream>>>(m.x, io->state[0], io->g, item->coef, z);
    sl_norm_item norm = {m.x, io->count, NULL};
    SL_TRY(norms(cuda, &norm, 1, &sum));
    normalise<<<blocks, THREADS, 0, m.stream>>>(m.x, sum, io->count);
    for (int i = 0; i < item->coef.rounds; i++)
        SL_TRY(newton_schulz(cuda, m));
    apply<<<blocks, THREADS, 0, m.stream>>>(io->w, io->delta, m.x, item->coef, z);
    return sl_cuda_check(cudaGetLastError(), "muon");
}
