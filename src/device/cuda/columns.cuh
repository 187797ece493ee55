/* Sums over the rows of [count, n], column by column, of elements that a functor computes.
 *
 *   rows in chunks ->  part[chunk][n] in scratch  ->  sums over chunks, in order
 *
 * A functor F has  one(row, col, sum)  and  many(row, col, sums)  for the eight columns from col
 * on. many is used if n is a multiple of 8 and f.wide is set. Both add to their last argument. Row
 * r of a chunk is added to sum r mod 8; then these sums are added in order, then the chunks, c
 * before c + 8.
 */
#ifndef SL_DEVICE_CUDA_COLUMNS_CUH
#define SL_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/kernels.cuh"

enum { COLUMNS = 32, COLUMN_ROWS = 8 };

/* Adds the sums of the rows of threads of a block, in order. Only the first row gets the result. */
static __device__ float add_rows(float sum) {
    __shared__ float sums[COLUMN_ROWS][COLUMNS + 1];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int r = 1; threadIdx.y == 0 && r < COLUMN_ROWS; r++)
        sum += sums[r][threadIdx.x];
    return sum;
}

/* A block handles 32 columns, 8 rows at a time. */
template <class F>
static __global__ void column_parts(float *part, i64 count, i64 n, i64 each, F f) {
    i64 col = (i64)blockIdx.x * COLUMNS + threadIdx.x, first = blockIdx.y * each;
    i64 last = first + each < count ? first + each : count;
    float sum = 0;
    for (i64 row = first + threadIdx.y; col < n && row < last; row += COLUMN_ROWS)
        f.one(row, col, sum);
    sum = add_rows(sum);
    if (threadIdx.y == 0 && col < n)
        part[blockIdx.y * n + col] = sum;
}

/* The same with eight columns per thread: 256 columns per block. */
template <class F>
static __global__ void column_parts8(float *part, i64 count, i64 n, i64 each, F f) {
    __shared__ float sums[COLUMN_ROWS][8][COLUMNS + 1];
    i64 col = ((i64)blockIdx.x * COLUMNS + threadIdx.x) * 8, first = blockIdx.y * each;
    i64 last = first + each < count ? first + each : count;
    eight sum = {};
    if (col < n) {
#pragma unroll 4
        for (i64 row = first + threadIdx.y; row < last; row += COLUMN_ROWS)
            f.many(row, col, sum);
    }
    for (int k = 0; k < 8; k++)
        sums[threadIdx.y][k][threadIdx.x] = sum.v[k];
    __syncthreads();
    int k = threadIdx.y; /* each row of threads ends one of the eight columns */
    float all = 0;
    for (int r = 0; r < COLUMN_ROWS; r++)
        all += sums[r][k][threadIdx.x];
    if (col < n)
        part[blockIdx.y * n + col + k] = all;
}

static __global__ void column_ends(array y, const float *part, i64 chunks, i64 n, bool add) {
    i64 col = (i64)blockIdx.x * COLUMNS + threadIdx.x;
    float sum = 0;
    if (col < n) {
#pragma unroll 8
        for (i64 c = threadIdx.y; c < chunks; c += COLUMN_ROWS)
            sum += part[c * n + col];
    }
    sum = add_rows(sum);
    if (threadIdx.y == 0 && col < n)
        put(y, col, sum, add);
}

static inline void end_columns(const sl_cuda_call *call, array y, const float *part, i64 chunks,
                               i64 n) {
    column_ends<<<(unsigned)((n + COLUMNS - 1) / COLUMNS), dim3(COLUMNS, COLUMN_ROWS), 0,
                  call->stream>>>(y, part, chunks, n, call->add);
}

/* `scratch` has column_scratch(count, n) bytes. */
template <class F>
static sl_err sum_columns_in(const sl_cuda_call *call, array y, i64 count, i64 n, F f,
                             void *scratch) {
    i64 chunks = column_chunks(count), each = (count + chunks - 1) / chunks;
    bool wide = f.wide && n % 8 == 0;
    i64 width = wide ? COLUMNS * 8 : COLUMNS;
    dim3 grid((unsigned)((n + width - 1) / width), (unsigned)chunks);
    dim3 threads(COLUMNS, COLUMN_ROWS);
    float *part = (float *)scratch;
    if (wide)
        column_parts8<<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    else
        column_parts<<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    end_columns(call, y, part, chunks, n);
    return launched(call);
}

template <class F>
static sl_err sum_columns(const sl_cuda_call *call, array y, i64 count, i64 n, F f) {
    return sum_columns_in(call, y, count, n, f, call->scratch);
}

struct load_plain { /* the elements of x themselves */
    array x;
    i64 n;
    bool wide;
    __device__ __forceinline__ void one(i64 row, i64 col, float &sum) const {
        sum = __fadd_rn(sum, get(x, row * n + col));
    }
    __device__ __forceinline__ void many(i64 row, i64 col, eight &sum) const {
        eight e = get8(x, row * n + col);
        for (int k = 0; k < 8; k++)
            sum.v[k] = __fadd_rn(sum.v[k], e.v[k]);
    }
};

#endif
