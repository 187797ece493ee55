/* Tiles of 64 x 64 bf16 for the tensor cores: loading, fragments, products.
 *
 * A tile has 64 rows of 128 bytes in shared memory; the 16-byte piece c of row r lies at place
 * c xor (r mod 8), so that eight rows of one column lie in different banks.
 *
 * mma m16n8k16, of lane l, g = l / 4, t = l % 4:
 *   A [16,16]   {g, 2t}  {g+8, 2t}  {g, 2t+8}  {g+8, 2t+8}     two neighbours each
 *   B [16,8]    {2t, g}  {2t+8, g}                             two rows each
 *   C [16,8]    {g, 2t} {g, 2t+1} {g+8, 2t} {g+8, 2t+1}
 * A result C, rounded, is two halves of an A: products are chained without leaving registers.
 */
#ifndef SL_DEVICE_CUDA_FLASH_CUH
#define SL_DEVICE_CUDA_FLASH_CUH

#include "device/cuda/attention.cuh"

typedef __nv_bfloat16 bf16;

enum { TILE = 64, FLASH_THREADS = 128, TILE_BYTES = TILE * 128 };

static const float log2_e = 1.4426950408889634f;

static __device__ __forceinline__ uint32_t shared_of(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ uint32_t piece_at(uint32_t tile, int row, int piece) {
    return tile + row * 128 + ((piece ^ (row & 7)) << 4);
}

/* Rows [first, first + 64) of a matrix; rows from `rows_` on are zero. */
static __device__ __forceinline__ void load_tile(uint32_t tile, const bf16 *from, i64 stride,
                                                 i64 first, i64 rows_) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int n = threadIdx.x + i * FLASH_THREADS, row = n / 8, piece = n % 8;
        bool there = first + row < rows_;
        const bf16 *source = from + (there ? (first + row) * stride : 0) + piece * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                         piece_at(tile, row, piece)),
                     "l"(source), "r"(there ? 16 : 0));
    }
}

static __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n"); }
template <int groups> static __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groups));
}

static __device__ __forceinline__ void read4(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
static __device__ __forceinline__ void read4_turned(uint32_t r[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

static __device__ __forceinline__ void multiply(float c[4], const uint32_t a[4], uint32_t b0,
                                                uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t pack(float low, float high) {
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&two;
}

/* The A fragments of 16 rows from `row` on: four of 16 columns each. */
static __device__ __forceinline__ void read_rows(uint32_t a[4][4], uint32_t tile, int row) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; k++)
        read4(a[k], piece_at(tile, row + lane % 16, 2 * k + lane / 16));
}

/* c [16,64] += a [16,64] tile' (tile's rows are c's columns) */
static __device__ __forceinline__ void times_turned(float c[8][4], const uint32_t a[4][4],
                                                    uint32_t tile) {
    int lane = threadIdx.x % 32, row = (lane & 7) + ((lane >> 4) & 1) * 8, half = (lane >> 3) & 1;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            read4(b, piece_at(tile, n * 16 + row, 2 * k + half));
            multiply(c[2 * n], a[k], b[0], b[1]);
            multiply(c[2 * n + 1], a[k], b[2], b[3]);
        }
}

/* c [16,64] += p [16,64] tile (tile's rows are p's columns); p is rounded to bf16 */
static __device__ __forceinline__ void times(float c[8][4], const float p[8][4], uint32_t tile) {
    int lane = threadIdx.x % 32, row = (lane & 7) + ((lane >> 3) & 1) * 8, half = (lane >> 4) & 1;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t a[4] = {pack(p[2 * k][0], p[2 * k][1]), pack(p[2 * k][2], p[2 * k][3]),
                         pack(p[2 * k + 1][0], p[2 * k + 1][1]),
                         pack(p[2 * k + 1][2], p[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            read4_turned(b, piece_at(tile, k * 16 + row, 2 * n + half));
            multiply(c[2 * n], a, b[0], b[1]);
            multiply(c[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/* c [16,64] times `by`, to rows from `first` on that are below `rows_`. */
static __device__ __forceinline__ void store_rows(bf16 *to, i64 stride, i64 first, i64 rows_,
                                                  const float c[8][4], float by0, float by1) {
    int lane = threadIdx.x % 32;
    i64 top = first + lane / 4, bottom = top + 8;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        int col = n * 8 + 2 * (lane % 4);
        if (top < rows_)
            *(uint32_t *)(to + top * stride + col) = pack(c[n][0] * by0, c[n][1] * by0);
        if (bottom < rows_)
            *(uint32_t *)(to + bottom * stride + col) = pack(c[n][2] * by1, c[n][3] * by1);
    }
}

/* Over the four lanes that share a row of C. */
static __device__ __forceinline__ float quad_sum(float v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}
static __device__ __forceinline__ float quad_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

/* Hide what query t may not see among the keys of a tile: key j stays if j < last, j <= t + ahead
 * (causal) and mask[j]. */
struct veil {
    const int32_t *mask;
    i64 last, ahead;
    bool causal;
    __device__ __forceinline__ bool hides(i64 t, i64 j) const {
        return j >= last || (causal && j > t + ahead) || (mask && mask[j] == 0);
    }
};

#endif
