/* Fingerprints: every 16-bit word is mixed with its place, and all are added. */
#include "device/cuda/fingerprint.h"
#include "device/cuda/kernels.cuh"

#include <stdlib.h>

struct sl_fingerprint {
    unsigned long long *at; /* device memory */
};

static __device__ unsigned long long mixed(unsigned long long word, i64 place) {
    unsigned long long x = word * 0x9e3779b97f4a7c15ULL ^ (unsigned long long)place;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ULL * word;
    return x ^ x >> 29;
}

/* A block per row, by turns. */
static __global__ void add_rows(sl_rows r, unsigned long long *out) {
    unsigned long long sum = 0;
    for (i64 row = blockIdx.x; row < r.count * r.batch; row += gridDim.x) {
        const char *from =
            (const char *)r.at + row / r.count * r.stride_bytes + row % r.count * r.ld_bytes;
        for (i64 i = threadIdx.x; i < r.row_bytes / 2; i += blockDim.x)
            sum += mixed(((const unsigned short *)from)[i], row * (r.row_bytes / 2) + i);
    }
    if (sum)
        atomicAdd(out, sum); /* integers: any order */
}

sl_err sl_fingerprint_open(sl_fingerprint **out) {
    sl_fingerprint *print = (sl_fingerprint *)calloc(1, sizeof *print);
    if (!print)
        sl_out_of_memory(sizeof *print);
    *out = print;
    return SL_CUDA(cudaMalloc((void **)&print->at, sizeof *print->at));
}

void sl_fingerprint_close(sl_fingerprint *print) {
    if (!print)
        return;
    cudaFree(print->at);
    free(print);
}

sl_err sl_fingerprint_take(sl_fingerprint *print, const sl_rows *first, const sl_rows *second,
                           cudaStream_t stream, uint64_t *out) {
    const int blocks = 1024, threads = 256;
    SL_TRY(SL_CUDA(cudaMemsetAsync(print->at, 0, sizeof *print->at, stream)));
    add_rows<<<blocks, threads, 0, stream>>>(*first, print->at);
    if (second)
        add_rows<<<blocks, threads, 0, stream>>>(*second, print->at);
    SL_TRY(SL_CUDA(cudaGetLastError()));
    SL_TRY(SL_CUDA(cudaMemcpyAsync(out, print->at, sizeof *out, cudaMemcpyDeviceToHost, stream)));
    return SL_CUDA(cudaStreamSynchronize(stream));
}
