/* Images from [B,C,H,W] to [B,H,W,C] and back. */
#ifndef SL_DEVICE_CUDA_TURN_CUH
#define SL_DEVICE_CUDA_TURN_CUH

#include "device/cuda/kernels.cuh"

typedef __nv_bfloat16 bf16;

/* A thread has eight channels of a pixel; `width` channels are stored, the last ones as zeros. */
static __global__ void to_last(bf16 *y, array x, i64 pixels, i64 plane, i64 channels, i64 width) {
    GRID_LOOP(i, pixels * (width / 8)) {
        i64 pixel = i % pixels, first = i / pixels * 8;
        i64 from = pixel / plane * channels * plane + pixel % plane;
        eight e;
        for (int k = 0; k < 8; k++)
            e.v[k] = first + k < channels ? get(x, from + (first + k) * plane) : 0;
        put8(array{y, 1}, pixel * width + first, e);
    }
}

static __global__ void from_last(array y, const bf16 *x, i64 pixels, i64 plane, i64 channels,
                                 i64 width, bool add) {
    GRID_LOOP(i, pixels * (width / 8)) {
        i64 pixel = i % pixels, first = i / pixels * 8;
        i64 to = pixel / plane * channels * plane + pixel % plane;
        eight e = get8(array{(void *)x, 1}, pixel * width + first);
        for (int k = 0; k < 8 && first + k < channels; k++)
            put(y, to + (first + k) * plane, e.v[k], add);
    }
}

#endif
