/* Tiles of 64 x 64 bf16 or fp16 (HALF: enum sl_half) for Hopper's tensor cores (wgmma): loading,
 * fragments, products.
 *
 * A tile has 64 rows of 128 bytes in shared memory, aligned to 1024 bytes. The 16-byte piece c of
 * row r is stored at place c xor (r mod 8). This is the 128-byte swizzled layout of wgmma; it
 * serves as right operand as it is and transposed.
 *
 * Of the 16 rows of a warp, lane l holds, with g = l / 4, t = l % 4:
 *   A [16,16]   {g, 2t}  {g+8, 2t}  {g, 2t+8}  {g+8, 2t+8}     two neighbours each
 *   C [16,8]    {g, 2t} {g, 2t+1} {g+8, 2t} {g+8, 2t+1}        times 8 for 64 columns
 * Two neighbouring C, rounded, are an A: the result of one product is the left operand of the next
 * without leaving registers.
 */
#ifndef SL_DEVICE_CUDA_FLASH_CUH
#define SL_DEVICE_CUDA_FLASH_CUH

#include "device/cuda/attention.cuh"

typedef uint16_t half16;

enum { TILE = 64, GROUPS = 2, FLASH_THREADS = 128 * GROUPS, TILE_BYTES = TILE * 128 };
enum { BLOCK = TILE * GROUPS }; /* rows of a block: 64 per warpgroup */

static const float log2_e = 1.4426950408889634f;

static __device__ __forceinline__ uint32_t shared_of(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ uint32_t piece_at(uint32_t tile, int row, int piece) {
    return tile + row * 128 + ((piece ^ (row & 7)) << 4);
}

/* All threads of the block load rows [first, first + 64) of a matrix. Rows from `rows_` on become
 * 0. */
static __device__ __forceinline__ void load_tile(uint32_t tile, const half16 *from, int stride,
                                                 int first, int rows_) {
    enum { AT_ONCE = FLASH_THREADS / 8 };
    int row = threadIdx.x / 8, piece = threadIdx.x % 8;
    const half16 *source = from + (i64)(first + row) * stride + piece * 8;
    uint32_t to = piece_at(tile, row, piece);
#pragma unroll
    for (int i = 0; i < TILE / AT_ONCE; i++) {
        bool there = first + row + i * AT_ONCE < rows_;
        asm volatile(
            "cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to + i * AT_ONCE * 128),
            "l"(there ? source + (i64)i * AT_ONCE * stride : from), "r"(there ? 16 : 0));
    }
}

/* Waits for all loads of this block and makes them visible to the tensor cores. */
static __device__ __forceinline__ void arrive() {
    asm volatile("cp.async.wait_all;\nfence.proxy.async.shared::cta;\n" ::: "memory");
    __syncthreads();
}

template <int HALF> static __device__ __forceinline__ uint32_t pack(float low, float high) {
    if (HALF == SL_HALF_FP16) {
        __half2 two = __floats2half2_rn(low, high);
        return *(uint32_t *)&two;
    }
    __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
    return *(uint32_t *)&two;
}

/* ---- products of a warpgroup ----
 *
 * The four warps of the group take part, each with 16 rows of c. Products are asynchronous:
 * between start() and finish() no thread touches c, a or the tiles. */

/* Returns the wgmma descriptor of a tile: groups of eight rows, 1024 bytes apart, 128-byte
 * swizzle. */
static __device__ __forceinline__ uint64_t describe(uint32_t tile) {
    return (uint64_t)((tile & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

static __device__ __forceinline__ void start() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
static __device__ __forceinline__ void send() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
/* Waits until at most `left` of the submitted products are still running. */
template <int left> static __device__ __forceinline__ void finish() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(left) : "memory");
}

#define EACH_OF_C                                                                                  \
    "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]),      \
        "+f"(c[1][2]), "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]),  \
        "+f"(c[3][0]), "+f"(c[3][1]), "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]),  \
        "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]), "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]),  \
        "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]), "+f"(c[7][0]), "+f"(c[7][1]),  \
        "+f"(c[7][2]), "+f"(c[7][3])

#define PRODUCT_OF(type_)                                                                          \
    "wgmma.mma_async.sync.aligned.m64n64k16.f32." type_ "." type_                                  \
    " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "           \
    "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "

/* c [64,64] = or += a b' for 16 columns of a and b, both in shared memory. */
#define MULTIPLY_SHARED(type_)                                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n" PRODUCT_OF(                          \
                     type_) "%32, %33, p, 1, 1, 0, 0;\n}\n"                                        \
                 : EACH_OF_C                                                                       \
                 : "l"(a), "l"(b), "r"(add))
template <int HALF>
static __device__ __forceinline__ void multiply(float c[8][4], uint64_t a, uint64_t b, int add) {
    if (HALF == SL_HALF_FP16)
        MULTIPLY_SHARED("f16");
    else
        MULTIPLY_SHARED("bf16");
}

/* c [64,64] += a b, with a [64,16] in registers and b [16,64] in shared memory. */
#define MULTIPLY_KEPT(type_)                                                                       \
    asm volatile(PRODUCT_OF(type_) "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"                      \
                 : EACH_OF_C                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
template <int HALF>
static __device__ __forceinline__ void multiply(float c[8][4], const uint32_t a[4], uint64_t b) {
    if (HALF == SL_HALF_FP16)
        MULTIPLY_KEPT("f16");
    else
        MULTIPLY_KEPT("bf16");
}

/* c [64,64] = a b'; a and b are tiles. */
template <int HALF>
static __device__ __forceinline__ void times_turned(float c[8][4], uint32_t a, uint32_t b) {
#pragma unroll
    for (int k = 0; k < 4; k++)
        multiply<HALF>(c, describe(a + 32 * k), describe(b + 32 * k), k > 0);
}

/* c [64,64] += a b; b is a tile. */
template <int HALF>
static __device__ __forceinline__ void times(float c[8][4], const uint32_t a[4][4], uint32_t b) {
#pragma unroll
    for (int k = 0; k < 4; k++)
        multiply<HALF>(c, a[k], describe(b + 16 * 128 * k));
}

/* Converts a result to the left operand of the next product. */
template <int HALF>
static __device__ __forceinline__ void round_rows(uint32_t a[4][4], const float p[8][4]) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        a[k][0] = pack<HALF>(p[2 * k][0], p[2 * k][1]);
        a[k][1] = pack<HALF>(p[2 * k][2], p[2 * k][3]);
        a[k][2] = pack<HALF>(p[2 * k + 1][0], p[2 * k + 1][1]);
        a[k][3] = pack<HALF>(p[2 * k + 1][2], p[2 * k + 1][3]);
    }
}

/* Stores c [16,64], times by0 or by1, to the rows from `first` on that are below `rows_`. */
template <int HALF>
static __device__ __forceinline__ void store_rows(half16 *to, i64 stride, int first, int rows_,
                                                  const float c[8][4], float by0, float by1) {
    int lane = threadIdx.x % 32;
    int top = first + lane / 4, bottom = top + 8;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        int col = n * 8 + 2 * (lane % 4);
        if (top < rows_)
            *(uint32_t *)(to + top * stride + col) = pack<HALF>(c[n][0] * by0, c[n][1] * by0);
        if (bottom < rows_)
            *(uint32_t *)(to + bottom * stride + col) = pack<HALF>(c[n][2] * by1, c[n][3] * by1);
    }
}

/* Returns the sum over the four lanes that share a row of C. */
static __device__ __forceinline__ float quad_sum(float v) {
    v += __shfl_xor_sync(~0u, v, 1);
    return v + __shfl_xor_sync(~0u, v, 2);
}
static __device__ __forceinline__ float quad_max(float v) {
    v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
    return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}

/* Tells which keys of a tile are hidden from query t: key j is visible if j < last, j <= t + ahead
 * (causal) and mask[j]. */
struct veil {
    const int32_t *mask;
    int last, ahead;
    bool causal;
    /* Returns true if a key of the tile from j on is hidden from a query of the tile from t on. */
    __device__ __forceinline__ bool touches(int t, int j) const {
        return mask || j + TILE > last || (causal && j + TILE - 1 > t + ahead);
    }
    __device__ __forceinline__ bool hides(int t, int j) const {
        return j >= last || (causal && j > t + ahead) || (mask && mask[j] == 0);
    }
};

static __device__ __forceinline__ veil veil_of(const att &z, i64 b) {
    return {z.mask ? z.mask + b * z.s : NULL, (int)z.s, (int)(z.s - z.t), z.causal};
}

/* Returns the number of tiles of keys that the queries [first, first + 64) attend to. */
static __device__ __forceinline__ int key_tiles(const att &z, int first) {
    int end = first + TILE + (int)(z.s - z.t);
    end = z.causal && end < z.s ? end : (int)z.s;
    return end > 0 ? (end + TILE - 1) / TILE : 0;
}

/* Launches a kernel with shared memory for `tiles` tiles and four rows of floats. This is more than
 * the default limit. */
template <class K>
static sl_err flash_launch(const sl_cuda_call *call, K kernel, dim3 grid, int tiles, const att &z) {
    int bytes = tiles * TILE_BYTES + 4 * TILE * (int)sizeof(float);
    SL_TRY(
        SL_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)));
    kernel<<<grid, FLASH_THREADS, bytes, call->stream>>>(z);
    return launched(call);
}

#endif
