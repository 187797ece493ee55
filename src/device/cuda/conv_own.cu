/* conv2d by simple loops. One thread computes a result; for the weight gradient, one block a
 * weight. Sums are in fp32 and in a fixed order. */
#include "device/cuda/conv_own.cuh"

struct place { /* the four indices of an element */
    i64 at[4];
};
static __device__ __forceinline__ place place_of(const i64 dim[4], i64 i) {
    place p;
    for (int k = 3; k >= 0; k--) {
        p.at[k] = i % dim[k];
        i /= dim[k];
    }
    return p;
}
static __device__ __forceinline__ i64 index_of(const i64 dim[4], i64 a, i64 b, i64 c, i64 d) {
    return ((a * dim[1] + b) * dim[2] + c) * dim[3] + d;
}

/* Returns the position in the image that tap `tap` of output position `at` reads. */
static __device__ __forceinline__ i64 source(const conv_own &z, int axis, i64 at, i64 tap) {
    return at * z.stride[axis] - z.pad[axis] + tap * z.gap[axis];
}
/* Returns the output position whose tap `tap` reads image position `at`; -1: none. */
static __device__ __forceinline__ i64 target(const conv_own &z, int axis, i64 at, i64 tap) {
    i64 place = at + z.pad[axis] - tap * z.gap[axis];
    i64 t = place / z.stride[axis];
    return place < 0 || place % z.stride[axis] || t >= z.ys[2 + axis] ? -1 : t;
}

/* Sums over the taps of a filter. `own` is the number of the channel in its group. */
static __device__ float taps_of_image(const conv_own &z, const place &p, i64 own, i64 channel) {
    float sum = 0;
    for (i64 tap = 0; tap < z.ws[2] * z.ws[3]; tap++) {
        i64 r = tap / z.ws[3], s = tap % z.ws[3];
        i64 h = source(z, 0, p.at[2], r), w = source(z, 1, p.at[3], s);
        if (h >= 0 && h < z.xs[2] && w >= 0 && w < z.xs[3])
            sum += get(z.w, index_of(z.ws, p.at[1], own, r, s)) *
                   get(z.x, index_of(z.xs, p.at[0], channel, h, w));
    }
    return sum;
}
static __device__ float taps_of_result(const conv_own &z, const place &p, i64 k, i64 own) {
    float sum = 0;
    for (i64 tap = 0; tap < z.ws[2] * z.ws[3]; tap++) {
        i64 r = tap / z.ws[3], s = tap % z.ws[3];
        i64 h = target(z, 0, p.at[2], r), w = target(z, 1, p.at[3], s);
        if (h >= 0 && w >= 0)
            sum +=
                get(z.w, index_of(z.ws, k, own, r, s)) * get(z.y, index_of(z.ys, p.at[0], k, h, w));
    }
    return sum;
}

static __global__ void forward(conv_own z, i64 count) {
    GRID_LOOP(i, count) {
        place p = place_of(z.ys, i);
        i64 channels = z.ws[1], first = p.at[1] / (z.ws[0] / (z.xs[1] / channels)) * channels;
        float sum = 0;
        for (i64 c = 0; c < channels; c++)
            sum += taps_of_image(z, p, c, first + c);
        put(z.y, i, sum);
    }
}

static __global__ void back_x(conv_own z, i64 count) {
    GRID_LOOP(i, count) {
        place p = place_of(z.xs, i);
        i64 channels = z.ws[1], each = z.ws[0] / (z.xs[1] / channels);
        i64 first = p.at[1] / channels * each;
        float sum = 0;
        for (i64 k = first; k < first + each; k++)
            sum += taps_of_result(z, p, k, p.at[1] % channels);
        put(z.x, i, sum);
    }
}

static __global__ void back_w(conv_own z) {
    place p = place_of(z.ws, blockIdx.x);
    i64 plane = z.ys[2] * z.ys[3], count = z.ys[0] * plane;
    i64 c = p.at[0] / (z.ws[0] / (z.xs[1] / z.ws[1])) * z.ws[1] + p.at[1];
    float sum = 0;
    for (i64 i = threadIdx.x; i < count; i += blockDim.x) {
        i64 b = i / plane, at_h = i % plane / z.ys[3], at_w = i % z.ys[3];
        i64 h = source(z, 0, at_h, p.at[2]), w = source(z, 1, at_w, p.at[3]);
        if (h >= 0 && h < z.xs[2] && w >= 0 && w < z.xs[3])
            sum += get(z.y, index_of(z.ys, b, p.at[0], at_h, at_w)) *
                   get(z.x, index_of(z.xs, b, c, h, w));
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        put(z.w, blockIdx.x, sum);
}

static i64 all(const i64 dim[4]) { return dim[0] * dim[1] * dim[2] * dim[3]; }

void conv_own_forward(const sl_cuda_call *call, const conv_own &z) {
    forward<<<blocks_for(all(z.ys), THREADS), THREADS, 0, call->stream>>>(z, all(z.ys));
}
void conv_own_dx(const sl_cuda_call *call, const conv_own &z) {
    back_x<<<blocks_for(all(z.xs), THREADS), THREADS, 0, call->stream>>>(z, all(z.xs));
}
void conv_own_dw(const sl_cuda_call *call, const conv_own &z) {
    back_w<<<(unsigned)all(z.ws), THREADS, 0, call->stream>>>(z);
}
