/* Gradients of layernorm and rmsnorm, separate (norm_back.cu) or fused (norm_grad.cu). Both use the
 * same sequence of operations, so the fused kernel gives the bits of the separate ones, which
 * programs that split I and W use.
 *
 *   dx = rstd (g - xhat mean(g xhat) - mean(g)), g = dy w      rmsnorm: without mean(g)
 *   dw = sum over rows of dy xhat                              db = sum over rows of dy
 *
 * If x has another gradient r, dx + r is stored; dx is rounded first, as if it had been stored.
 * If dy has another part e, dy + e is rounded in the same way. */
#ifndef SL_DEVICE_CUDA_NORM_BACK_CUH
#define SL_DEVICE_CUDA_NORM_BACK_CUH

#include "device/cuda/norm.cuh"

struct grad_args {
    array dy, x, w, mean, rstd, dx; /* mean.at is NULL for rmsnorm */
    rows z;
    bool add;
    array r, e; /* their `at` may be NULL */
};

static __device__ __forceinline__ float hat_of(float x, float mean, float rstd) {
    return __fmul_rn(__fsub_rn(x, mean), rstd);
}

static __device__ __forceinline__ float dx_of(float g, float hat, float sum, float dot,
                                              float rstd) {
    return __fmul_rn(rstd, __fmaf_rn(-hat, dot, __fsub_rn(g, sum)));
}

static __device__ __forceinline__ float plus(const grad_args &a, float dx, float r) {
    return __fadd_rn(as_stored(a.dx, dx), r);
}

struct load_dw {
    array dy, x, mean, rstd;
    i64 n;
    bool wide;
    __device__ __forceinline__ void one(i64 row, i64 col, float &sum) const {
        float m = mean.at ? get(mean, row) : 0;
        sum = __fmaf_rn(get(dy, row * n + col), hat_of(get(x, row * n + col), m, get(rstd, row)),
                        sum);
    }
    __device__ __forceinline__ void many(i64 row, i64 col, eight &sum) const {
        float m = mean.at ? get(mean, row) : 0, r = get(rstd, row);
        eight d = get8(dy, row * n + col), v = get8(x, row * n + col);
        for (int k = 0; k < 8; k++)
            sum.v[k] = __fmaf_rn(d.v[k], hat_of(v.v[k], m, r), sum.v[k]);
    }
};

static inline i64 dw_scratch(const sl_instr *instr) {
    rows z = rows_of(instr->in[0]);
    return column_scratch(z.count, z.n);
}

/* norm_back.cu: computes dx alone, without e. */
sl_err norm_dx(const sl_cuda_call *call, const grad_args &a);

#endif
