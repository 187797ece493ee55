/* Fingerprints: the sum of all 16-bit words, each mixed with its index. Zeros add nothing. */
#include "device/cuda/fingerprint.h"
#include "device/cuda/kernels.cuh"

static __device__ unsigned long long mixed(unsigned long long word, i64 place) {
    unsigned long long x = word * 0x9e3779b97f4a7c15ULL ^ (unsigned long long)place;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 29) * 0x94d049bb133111ebULL;
    return x ^ x >> 32;
}

/* One block per row; if there are more rows, blocks take several. */
static __global__ void add_rows(sl_cuda_rows r, int which, sl_fingerprint *out) {
    unsigned long long sum = 0, nonzero = 0;
    i64 words = r.row_bytes / 2;
    for (i64 row = blockIdx.x; row < r.count * r.batch; row += gridDim.x) {
        const char *from =
            (const char *)r.at + row / r.count * r.stride_bytes + row % r.count * r.ld_bytes;
        for (i64 i = threadIdx.x; i < words; i += blockDim.x) {
            unsigned word = ((const unsigned short *)from)[i];
            sum += word ? mixed(word, 2 * (row * words + i) + which) : 0;
            nonzero += word != 0;
        }
    }
    atomicAdd(&out->sum, sum); /* sums of integers, so the order does not matter */
    atomicAdd(&out->nonzero, nonzero);
}

sl_err sl_cuda_fingerprint_take(sl_fingerprint *place, const sl_cuda_rows *rows, int count,
                                cudaStream_t stream, sl_fingerprint *out) {
    const int blocks = 1024, threads = 256;
    SL_TRY(SL_CUDA(cudaMemsetAsync(place, 0, sizeof *place, stream)));
    for (int i = 0; i < count; i++)
        add_rows<<<blocks, threads, 0, stream>>>(rows[i], i, place);
    SL_TRY(SL_CUDA(cudaGetLastError()));
    SL_TRY(SL_CUDA(cudaMemcpyAsync(out, place, sizeof *out, cudaMemcpyDeviceToHost, stream)));
    return SL_CUDA(cudaStreamSynchronize(stream));
}
