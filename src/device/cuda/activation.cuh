/* Elementwise functions that several kernels share. */
#ifndef SL_DEVICE_CUDA_ACTIVATION_CUH
#define SL_DEVICE_CUDA_ACTIVATION_CUH

#include "device/cuda/kernels.cuh"

struct number { /* the attribute of the ops that have one */
    float f;
    int i;
};

static __device__ __forceinline__ float sigmoid_of(float x) { return 1 / (1 + expf(-x)); }
static __device__ __forceinline__ float gelu_slope(float x) {
    return 0.79788456080286535588f * (1 + 3 * 0.044715f * x * x);
}
static __device__ __forceinline__ float gelu_tanh(float x) {
    return tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x));
}

#define FUNCTION(name, x_, y_, formula)                                                            \
    struct name {                                                                                  \
        static __device__ __forceinline__ float of(float x_, float y_, number n) {                 \
            (void)n;                                                                               \
            (void)y_;                                                                              \
            return formula;                                                                        \
        }                                                                                          \
    };

FUNCTION(f_silu, x, y, x *sigmoid_of(x))
FUNCTION(f_silu_dx, dy, x, dy *sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))))
FUNCTION(f_gelu, x, y,
         n.i ? 0.5f * x *erfcf(-x * 0.70710678118654752440f) : 0.5f * x * (1 + gelu_tanh(x)))
FUNCTION(f_gelu_dx, dy, x,
         n.i ? dy *(0.5f * erfcf(-x * 0.70710678118654752440f) +
                    x * 0.39894228040143267794f * expf(-0.5f * x * x))
             : dy * 0.5f *
                   (1 + gelu_tanh(x) + x * (1 - gelu_tanh(x) * gelu_tanh(x)) * gelu_slope(x)))

#endif
