/* embed and embed_bag, and the gradients of their tables.
 *
 * dtable: a stable sort orders the positions by the row they name. Then one block per row that
 * occurs adds its positions in order. There are no atomics on floats, so the result is
 * deterministic.
 *
 *   indices  7 3 7 3 3      keys 3 3 3 7 7      dw[3] = dy[1] + dy[3] + dy[4]
 *                           from 1 3 4 0 2      dw[7] = dy[0] + dy[2]
 *
 * A table of few rows has long runs of one key. The sorted positions are therefore cut into
 * pieces. If a piece begins within a run, a separate block adds that part into scratch. */
#include "device/cuda/kernels.cuh"

#include <cub/device/device_radix_sort.cuh>

static __global__ void gather(array y, array table, const int32_t *index, i64 count, i64 n,
                              bool add) {
    for (i64 i = (i64)blockIdx.x * blockDim.y + threadIdx.y; i < count;
         i += (i64)gridDim.x * blockDim.y) {
        i64 row = index[i];
        for (i64 j = threadIdx.x; j < n; j += blockDim.x)
            put(y, i * n + j, get(table, row * n + j), add);
    }
}

static sl_err k_embed(const sl_cuda_call *call) {
    i64 n = call->instr->in[0].shape.dim[1], count = call->instr->in[1].numel;
    gather<<<blocks_for(count, 4), dim3(64, 4), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], count, n, call->add);
    return launched(call);
}

struct bags { /* `count` bags of `bag` indices, whose rows of n are multiplied by `factor` */
    i64 count, bag, n;
    float factor;
};

static __global__ void gather_bags(array y, array table, const int32_t *index, bags z, bool add) {
    GRID_LOOP(i, z.count * z.n) {
        i64 at = i / z.n, j = i % z.n;
        float sum = 0;
        for (i64 k = 0; k < z.bag; k++)
            sum += get(table, index[at * z.bag + k] * z.n + j);
        put(y, i, z.factor * sum, add);
    }
}

enum { SUM, MEAN, CONCAT };

static sl_err k_embed_bag(const sl_cuda_call *call) {
    i64 n = call->instr->in[0].shape.dim[1];
    rows all = rows_of(call->instr->in[1]);
    int64_t mode = call->instr->attr[0].i;
    if (mode == CONCAT)
        return k_embed(call);
    bags z = {all.count, all.n, n, mode == MEAN ? 1.0f / (float)all.n : 1};
    gather_bags<<<blocks_for(all.count * n, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), (const int32_t *)call->in[1], z, call->add);
    return launched(call);
}

/* ---- gradients ---- */

static __global__ void number(int32_t *out, i64 count) { GRID_LOOP(i, count) out[i] = (int32_t)i; }

enum { PIECE = 64 };

struct sorted {
    const int32_t *key, *from;
    float *part; /* [pieces][n] */
};

/* Column j of the sum over sorted positions [first, last). z.bag positions share a row of dy. */
static __device__ __forceinline__ float sum_run(array dy, const sorted &s, const bags &z, i64 first,
                                                i64 last, i64 j) {
    float sum = 0;
#pragma unroll 4
    for (i64 i = first; i < last; i++)
        sum += get(dy, s.from[i] / z.bag * z.n + j);
    return sum;
}

/* Returns the end of the run that contains `first`, or the end of the piece if that comes first. */
static __device__ __forceinline__ i64 run_end(const sorted &s, i64 first, i64 count) {
    i64 end = (first / PIECE + 1) * PIECE, i = first + 1;
    end = end < count ? end : count;
    while (i < end && s.key[i] == s.key[first])
        i++;
    return i;
}

/* One block per piece: it adds the part of a run that began before the piece. */
static __global__ void scatter_parts(array dy, sorted s, bags z) {
    i64 first = (i64)blockIdx.x * PIECE;
    if (first == 0 || s.key[first - 1] != s.key[first])
        return;
    i64 last = run_end(s, first, z.count);
    for (i64 j = threadIdx.x; j < z.n; j += blockDim.x)
        s.part[blockIdx.x * z.n + j] = sum_run(dy, s, z, first, last, j);
}

/* One block per sorted position: if the position is the first one of its row, the block adds the
 * whole row. The row `padding` gets nothing. */
static __global__ void scatter(array dw, array dy, sorted s, bags z, i64 padding) {
    i64 first = blockIdx.x, next = (first / PIECE + 1) * PIECE, end = next;
    int32_t row = s.key[first];
    if (row == padding || (first > 0 && s.key[first - 1] == row))
        return;
    i64 last = run_end(s, first, z.count);
    while (last == next && end < z.count && s.key[end] == row)
        end += PIECE;
    for (i64 j = threadIdx.x; j < z.n; j += blockDim.x) {
        float sum = sum_run(dy, s, z, first, last, j);
        for (i64 p = next; p < end; p += PIECE)
            sum += s.part[p / PIECE * z.n + j];
        put(dw, row * z.n + j, z.factor * sum, true);
    }
}

struct sort_room { /* offsets in scratch */
    int32_t *keys, *order, *from;
    float *part;
    void *temp;
    size_t temp_bytes;
    i64 bytes;
};

static int bits_of(i64 rows) {
    int bits = 1;
    while (((i64)1 << bits) < rows)
        bits++;
    return bits;
}

static sort_room sort_layout(void *scratch, i64 count, i64 rows, i64 n) {
    i64 each = (count * 4 + 255) / 256 * 256;
    i64 parts = ((count + PIECE - 1) / PIECE * n * 4 + 255) / 256 * 256;
    char *at = (char *)scratch;
    sort_room r = {(int32_t *)at, (int32_t *)(at + each), (int32_t *)(at + 2 * each),
                   (float *)(at + 3 * each), at + 3 * each + parts};
    cub::DeviceRadixSort::SortPairs(NULL, r.temp_bytes, r.keys, r.keys, r.order, r.from, (int)count,
                                    0, bits_of(rows));
    r.bytes = 3 * each + parts + (i64)r.temp_bytes;
    return r;
}

static sl_err scatter_rows(const sl_cuda_call *call, i64 bag, float factor, i64 padding) {
    i64 rows_ = call->instr->out[0].shape.dim[0], n = call->instr->out[0].shape.dim[1];
    i64 count = call->instr->in[1].numel;
    const int32_t *index = (const int32_t *)call->in[1];
    array dw = out_array(call, 0);
    sort_room r = sort_layout(call->scratch, count, rows_, n);
    if (!call->add)
        SL_TRY(SL_CUDA(
            cudaMemsetAsync(dw.at, 0, (size_t)(rows_ * n * (dw.half ? 2 : 4)), call->stream)));
    number<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(r.order, count);
    SL_TRY(SL_CUDA(cub::DeviceRadixSort::SortPairs(r.temp, r.temp_bytes, index, r.keys, r.order,
                                                   r.from, (int)count, 0, bits_of(rows_),
                                                   call->stream)));
    unsigned threads = n < 128 ? 64 : 256, pieces = (unsigned)((count + PIECE - 1) / PIECE);
    sorted s = {r.keys, r.from, r.part};
    bags z = {count, bag, n, factor};
    scatter_parts<<<pieces, threads, 0, call->stream>>>(in_array(call, 0), s, z);
    scatter<<<(unsigned)count, threads, 0, call->stream>>>(dw, in_array(call, 0), s, z, padding);
    return launched(call);
}

static sl_err k_embed_dw(const sl_cuda_call *call) {
    return scatter_rows(call, 1, 1, call->instr->attr[1].i);
}

static sl_err k_embed_bag_dw(const sl_cuda_call *call) {
    i64 bag = rows_of(call->instr->in[1]).n;
    int64_t mode = call->instr->attr[1].i;
    return scatter_rows(call, mode == CONCAT ? 1 : bag, mode == MEAN ? 1.0f / (float)bag : 1, -1);
}

static i64 scatter_scratch(const sl_instr *instr) {
    return sort_layout(NULL, instr->in[1].numel, instr->out[0].shape.dim[0],
                       instr->out[0].shape.dim[1])
        .bytes;
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_embeddings[] = {
    {"embed", k_embed},
    {"embed_bag", k_embed_bag},
    {"embed_bag_dw", k_embed_bag_dw, scatter_scratch},
    {"embed_dw", k_embed_dw, scatter_scratch},
    {},
};
/* clang-format on */
