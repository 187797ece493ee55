/* Sums over the rows of [count, n], column by column, of elements that a functor computes.
 *
 *   rows in chunks ->  part[chunk][n] in scratch  ->  sums over chunks, in order
 *
 * A functor F has  one(row, col, sum)  and  many(row, col, sums)  for the eight columns from col
 * on. many is used if n is a multiple of 8 and f.wide is set. Both add to their last argument. Row
 * r of a chunk is added to sum r mod R; then these sums are added in order, then the chunks, c
 * before c + 8. R is 8, or column_rows(n) where many is used.
 */
#ifndef SL_DEVICE_CUDA_COLUMNS_CUH
#define SL_DEVICE_CUDA_COLUMNS_CUH

#include "device/cuda/kernels.cuh"

enum { COLUMNS = 32, COLUMN_ROWS = 8 };

/* Returns how many rows a block handles at a time with eight columns per thread. The gradients of
 * norms (norm_grad.cu) keep whole rows in the registers of a block and add in the same order. */
static inline __host__ __device__ int column_rows(i64 n) {
    return n <= 1024 ? 8 : n <= 2048 ? 4 : n <= 4096 ? 2 : n <= 8192 ? 1 : 8;
}

/* Adds the sums that the rows of threads of a block have, in order. Only the first row gets the
 * result. */
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

/* The same with eight columns per thread. A warp handles 256 columns; R warps share columns. */
template <int R, class F>
static __global__ void column_parts8(float *part, i64 count, i64 n, i64 each, F f) {
    constexpr int groups = COLUMN_ROWS / R;
    __shared__ float sums[COLUMN_ROWS][8][COLUMNS + 1];
    i64 left = ((i64)blockIdx.x * groups * COLUMNS + threadIdx.x) * 8;
    i64 col = left + threadIdx.y / R * COLUMNS * 8, first = blockIdx.y * each;
    i64 last = first + each < count ? first + each : count;
    eight sum = {};
    if (col < n) {
#pragma unroll 4
        for (i64 row = first + threadIdx.y % R; row < last; row += R)
            f.many(row, col, sum);
    }
    for (int k = 0; k < 8; k++)
        sums[threadIdx.y][k][threadIdx.x] = sum.v[k];
    __syncthreads();
    for (int i = 0; i < groups; i++) { /* each row of threads adds up one of eight columns */
        int k = threadIdx.y;
        i64 at = left + i * COLUMNS * 8;
        float all = 0;
        for (int r = 0; r < R; r++)
            all += sums[i * R + r][k][threadIdx.x];
        if (at < n)
            part[blockIdx.y * n + at + k] = all;
    }
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
    int rows_ = column_rows(n);
    i64 width = wide ? COLUMNS * 8 * (COLUMN_ROWS / rows_) : COLUMNS;
    dim3 grid((unsigned)((n + width - 1) / width), (unsigned)chunks);
    dim3 threads(COLUMNS, COLUMN_ROWS);
    float *part = (float *)scratch;
    if (wide && rows_ == 8)
        column_parts8<8><<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    else if (wide && rows_ == 4)
        column_parts8<4><<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    else if (wide && rows_ == 2)
        column_parts8<2><<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    else if (wide)
        column_parts8<1><<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    else
        column_parts<<<grid, threads, 0, call->stream>>>(part, count, n, each, f);
    end_columns(call, y, part, chunks, n);
    return launched(call);
}

template <class F>
static sl_err sum_columns(const sl_cuda_call *call, array y, i64 count, i64 n, F f) {
    return sum_columns_in(call, y, count, n, f, call->scratch);
}

struct load_plain { /* loads the elements of x themselves */
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
