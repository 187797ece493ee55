/* Transposes images from [B,C,H,W] to [B,H,W,C] and back. */
#ifndef SL_DEVICE_CUDA_TURN_CUH
#define SL_DEVICE_CUDA_TURN_CUH

#include "device/cuda/kernels.cuh"

struct turning {
    i64 pixels, plane;   /* pixels of all samples, and of one */
    i64 channels, width; /* `width` counts stored channels: a multiple of 8, padded with zeros */
};

/* A thread handles eight channels of a pixel. */
static __global__ void to_last(array y, array x, turning z) {
    GRID_LOOP(i, z.pixels * (z.width / 8)) {
        i64 pixel = i % z.pixels, first = i / z.pixels * 8;
        i64 from = pixel / z.plane * z.channels * z.plane + pixel % z.plane;
        eight e;
        for (int k = 0; k < 8; k++)
            e.v[k] = first + k < z.channels ? get(x, from + (first + k) * z.plane) : 0;
        put8(y, pixel * z.width + first, e);
    }
}

static __global__ void from_last(array y, array x, turning z, bool add) {
    GRID_LOOP(i, z.pixels * (z.width / 8)) {
        i64 pixel = i % z.pixels, first = i / z.pixels * 8;
        i64 to = pixel / z.plane * z.channels * z.plane + pixel % z.plane;
        eight e = get8(x, pixel * z.width + first);
        for (int k = 0; k < 8 && first + k < z.channels; k++)
            put(y, to + (first + k) * z.plane, e.v[k], add);
    }
}

static inline unsigned turning_blocks(const turning &z) {
    return blocks_for(z.pixels * (z.width / 8), THREADS);
}

#endif
