/* 16-bit copies of fp32 weights. */
#include "device/cuda/kernels.cuh"

static __global__ void round_all(array to, array from, i64 count) {
    GRID_LOOP(i, count / 8) put8(to, 8 * i, get8(from, 8 * i));
    i64 tail = count / 8 * 8 + (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (tail < count)
        put(to, tail, get(from, tail));
}

extern "C" sl_err sl_cuda_round(void *to, enum sl_half half, const void *from, int64_t count,
                                cudaStream_t stream) {
    round_all<<<blocks_for(count, 8 * THREADS), THREADS, 0, stream>>>(
        array{to, half}, array{const_cast<void *>(from), 0}, count);
    return sl_cuda_check(cudaGetLastError(), "rounding of weights");
}
