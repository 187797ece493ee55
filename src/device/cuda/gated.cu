/* An activation times another tensor, and its gradients (pass/fused.h): silu_mul and gelu_mul of
 * gated layers. Values that the separate kernels store are rounded here too, so the results have
 * the same bits.
 *
 *   h = s u, s = f(g)      du = dh s      ds = dh u      dg = f_dx(ds, g)
 *
 * The gradient may store h again. It may overwrite its inputs: a thread reads before it writes. */
#include "device/cuda/activation.cuh"

struct gated {
    array h, dh, g, u, dg, du; /* dh, dg, du: backward only; h may then be absent */
    number n;
};

template <class F, bool BACK> struct gated_eight {
    static __device__ __forceinline__ void run(const gated &z, i64 i) {
        eight g = get8(z.g, i), u = get8(z.u, i), d = BACK ? get8(z.dh, i) : eight{}, h;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float x = g.v[k], s = as_stored(z.g, F::of(x, x, z.n));
            h.v[k] = s * u.v[k];
            g.v[k] = BACK ? F::dx::of(as_stored(z.g, d.v[k] * u.v[k]), x, z.n) : 0;
            u.v[k] = d.v[k] * s;
        }
        if (z.h.at)
            put8(z.h, i, h);
        if (BACK) {
            put8(z.dg, i, g);
            put8(z.du, i, u);
        }
    }
};

/* The type of all tensors is the template parameter HALF, so that loads can overlap. */
template <class F, bool BACK, int HALF> static __global__ void gate8(gated z, i64 eights) {
    z.h.half = z.dh.half = z.g.half = z.u.half = z.dg.half = z.du.half = HALF;
    GRID_LOOP(i, eights) gated_eight<F, BACK>::run(z, 8 * i);
}

template <class F, bool BACK> static __global__ void gate1(gated z, i64 first, i64 count) {
    for (i64 i = first + (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (i64)gridDim.x * blockDim.x) {
        float x = get(z.g, i), u = get(z.u, i), s = as_stored(z.g, F::of(x, x, z.n));
        float d = BACK ? get(z.dh, i) : 0;
        if (z.h.at)
            put(z.h, i, s * u);
        if (!BACK)
            continue;
        put(z.dg, i, F::dx::of(as_stored(z.g, d * u), x, z.n));
        put(z.du, i, d * s);
    }
}

template <class F, bool BACK> static sl_err run(const sl_cuda_call *call, gated z) {
    i64 count = call->instr->out[0].numel, eights = count / 8;
    unsigned blocks = blocks_for(eights, THREADS);
    z.n = {0, call->instr->attr ? (int)call->instr->attr[0].i : 0};
    if (!fit8(z.h, z.dh, z.g, z.u, z.dg, z.du))
        eights = 0;
    else if (z.g.half == SL_HALF_BF16)
        gate8<F, BACK, SL_HALF_BF16><<<blocks, THREADS, 0, call->stream>>>(z, eights);
    else if (z.g.half == SL_HALF_FP16)
        gate8<F, BACK, SL_HALF_FP16><<<blocks, THREADS, 0, call->stream>>>(z, eights);
    else
        gate8<F, BACK, SL_HALF_NOT><<<blocks, THREADS, 0, call->stream>>>(z, eights);
    if (8 * eights < count)
        gate1<F, BACK><<<blocks_for(count - 8 * eights, THREADS), THREADS, 0, call->stream>>>(
            z, 8 * eights, count);
    return launched(call);
}

template <class F> static sl_err k_gate(const sl_cuda_call *call) {
    gated z = {};
    z.g = in_array(call, 0);
    z.u = in_array(call, 1);
    z.h = out_array(call, 0);
    return run<F, false>(call, z);
}

template <class F> static sl_err k_gate_grad(const sl_cuda_call *call) {
    gated z = {};
    z.dh = in_array(call, 0);
    z.g = in_array(call, 1);
    z.u = in_array(call, 2);
    z.dg = out_array(call, 0);
    z.du = out_array(call, 1);
    if (call->instr->out_count > 2)
        z.h = out_array(call, 2);
    return run<F, true>(call, z);
}

struct silu : f_silu {
    typedef f_silu_dx dx;
};
struct gelu : f_gelu {
    typedef f_gelu_dx dx;
};

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_gates[] = {
    {"gelu_mul", k_gate<gelu>},
    {"gelu_mul_grad", k_gate_grad<gelu>},
    {"silu_mul", k_gate<silu>},
    {"silu_mul_grad", k_gate_grad<silu>},
    {},
};
/* clang-format on */
