/* Gradients of layernorm and rmsnorm, each by its own kernel. */
#include "device/cuda/norm_back.cuh"

/* W is the number of warps per row; with more than one, a block has one row. */
template <int W> static __global__ void dx_kept(grad_args a) {
    i64 row = W > 1 ? (i64)blockIdx.x : (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    i64 n = a.z.n, base = row * n;
    eight g[KEPT], hat[KEPT];
    if (row >= a.z.count)
        return;
    float mean = a.mean.at ? get(a.mean, row) : 0, rstd = get(a.rstd, row), sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at<W>(k) < n) {
            g[k] = get8(a.dy, base + at<W>(k));
            hat[k] = get8(a.x, base + at<W>(k));
            eight w = a.w.at ? get8(a.w, at<W>(k)) : ones();
            for (int j = 0; j < 8; j++) {
                g[k].v[j] = __fmul_rn(g[k].v[j], w.v[j]);
                hat[k].v[j] = hat_of(hat[k].v[j], mean, rstd);
                sum = __fadd_rn(sum, g[k].v[j]);
                dot = __fmaf_rn(g[k].v[j], hat[k].v[j], dot);
            }
        }
    float2 sums = row_sums<W>(sum, dot);
    sum = a.mean.at ? sums.x / (float)n : 0;
    dot = sums.y / (float)n;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at<W>(k) < n) {
            eight old = a.add    ? get8(a.dx, base + at<W>(k))
                        : a.r.at ? get8(a.r, base + at<W>(k))
                                 : eight{};
            for (int j = 0; j < 8; j++) {
                float v = dx_of(g[k].v[j], hat[k].v[j], sum, dot, rstd);
                g[k].v[j] = a.add ? old.v[j] + v : a.r.at ? plus(a, v, old.v[j]) : v;
            }
            put8(a.dx, base + at<W>(k), g[k]);
        }
}

static __global__ void dx_long(grad_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    if (row >= a.z.count)
        return;
    float mean = a.mean.at ? get(a.mean, row) : 0, rstd = get(a.rstd, row), sum = 0, dot = 0;
    for (i64 j = lane; j < n; j += 32) {
        float g = get(a.dy, base + j) * (a.w.at ? get(a.w, j) : 1);
        sum += g;
        dot += g * (get(a.x, base + j) - mean) * rstd;
    }
    sum = a.mean.at ? warp_sum(sum) / (float)n : 0;
    dot = warp_sum(dot) / (float)n;
    for (i64 j = lane; j < n; j += 32) {
        float g = get(a.dy, base + j) * (a.w.at ? get(a.w, j) : 1);
        float hat = (get(a.x, base + j) - mean) * rstd, v = rstd * (g - sum - hat * dot);
        put(a.dx, base + j, a.r.at ? plus(a, v, get(a.r, base + j)) : v, a.add);
    }
}

sl_err norm_dx(const sl_cuda_call *call, const grad_args &a) {
    int warps = warps_of(a.z.n);
    unsigned blocks = row_blocks(a.z.count), each = (unsigned)a.z.count;
    if (!fits(a.z.n) || !fit8(a.dy, a.x, a.w, a.dx, a.r))
        dx_long<<<blocks, 32 * WARPS, 0, call->stream>>>(a);
    else if (warps == 1)
        dx_kept<1><<<blocks, 32 * WARPS, 0, call->stream>>>(a);
    else if (warps == 2)
        dx_kept<2><<<each, 64, 0, call->stream>>>(a);
    else if (warps == 4)
        dx_kept<4><<<each, 128, 0, call->stream>>>(a);
    else
        dx_kept<8><<<each, 256, 0, call->stream>>>(a);
    return launched(call);
}

static sl_err k_layernorm_dx(const sl_cuda_call *call) {
    return norm_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                                   in_array(call, 3), in_array(call, 4), out_array(call, 0),
                                   rows_of(call->instr->in[0]), call->add});
}

static sl_err k_rmsnorm_dx(const sl_cuda_call *call) {
    return norm_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 3), array{},
                                   in_array(call, 2), out_array(call, 0),
                                   rows_of(call->instr->in[0]), call->add});
}

static sl_err k_layernorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                               in_array(call, 3), z.n, fit8(in_array(call, 0), in_array(call, 1))});
}

static sl_err k_rmsnorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), array{}, in_array(call, 2),
                               z.n, fit8(in_array(call, 0), in_array(call, 1))});
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_norms_back[] = {
    {"layernorm_dw", k_layernorm_dw, dw_scratch},
    {"layernorm_dx", k_layernorm_dx},
    {"rmsnorm_dw", k_rmsnorm_dw, dw_scratch},
    {"rmsnorm_dx", k_rmsnorm_dx},
    {},
};
/* clang-format on */
