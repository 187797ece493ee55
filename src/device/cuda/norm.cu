/* layernorm, add_layernorm, rmsnorm: one warp or several per row. The row stays in registers if it
 * fits, else one warp reads it again. */
#include "device/cuda/norm.cuh"

struct norm_args {
    array x, r, w, b, sum, y, mean, rstd; /* `r` is added to x first; `sum` receives x + r */
    rows z;
    float eps;
    bool centred; /* true for layernorm, false for rmsnorm */
};

static __device__ __forceinline__ void put_stats(const norm_args &a, i64 row, float mean,
                                                 float rstd) {
    if (a.mean.at)
        put(a.mean, row, mean);
    put(a.rstd, row, rstd);
}

/* HALF is the type of the rows (w and b are fp32). SUM says that there is an r. W is the number of
 * warps per row; with more than one, a block has one row. They are template parameters so that
 * loads can overlap. */
template <int HALF, bool SUM, int W> static __global__ void norm_kept(norm_args a) {
    if (HALF) {
        a.x.half = a.r.half = a.sum.half = a.y.half = HALF;
        a.w.half = a.b.half = 0;
    }
    i64 row = W > 1 ? (i64)blockIdx.x : (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    i64 n = a.z.n, base = row * n;
    eight x[KEPT], r[KEPT];
    float mean = 0, square = 0;
    if (row >= a.z.count)
        return;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at<W>(k) < n) {
            x[k] = get8(a.x, base + at<W>(k));
            if (SUM)
                r[k] = get8(a.r, base + at<W>(k));
        }
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at<W>(k) < n) {
            for (int j = 0; j < 8; j++) {
                if (SUM)
                    x[k].v[j] = as_stored(a.sum, x[k].v[j] + r[k].v[j]);
                mean += x[k].v[j];
            }
            if (SUM)
                put8(a.sum, base + at<W>(k), x[k]);
        }
    mean = a.centred ? row_sums<W>(mean, 0).x / (float)n : 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        for (int j = 0; j < 8 && at<W>(k) < n; j++)
            square += (x[k].v[j] - mean) * (x[k].v[j] - mean);
    float rstd = 1 / sqrtf(row_sums<W>(square, 0).x / (float)n + a.eps);
    if (threadIdx.x % (32 * W) == 0)
        put_stats(a, row, mean, rstd);
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at<W>(k) < n) {
            eight w = a.w.at ? get8(a.w, at<W>(k)) : ones();
            eight b = a.b.at ? get8(a.b, at<W>(k)) : eight{};
            for (int j = 0; j < 8; j++)
                x[k].v[j] = (x[k].v[j] - mean) * rstd * w.v[j] + b.v[j];
            put8(a.y, base + at<W>(k), x[k]);
        }
}

static __global__ void norm_long(norm_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    float mean = 0, square = 0;
    if (row >= a.z.count)
        return;
    for (i64 j = lane; a.r.at && j < n; j += 32)
        put(a.sum, base + j, get(a.x, base + j) + get(a.r, base + j));
    array x = a.r.at ? a.sum : a.x; /* a lane reads only what it wrote itself */
    for (i64 j = lane; a.centred && j < n; j += 32)
        mean += get(x, base + j);
    mean = warp_sum(mean) / (float)n;
    for (i64 j = lane; j < n; j += 32)
        square += (get(x, base + j) - mean) * (get(x, base + j) - mean);
    float rstd = 1 / sqrtf(warp_sum(square) / (float)n + a.eps);
    if (lane == 0)
        put_stats(a, row, mean, rstd);
    for (i64 j = lane; j < n; j += 32)
        put(a.y, base + j,
            (get(x, base + j) - mean) * rstd * (a.w.at ? get(a.w, j) : 1) +
                (a.b.at ? get(a.b, j) : 0));
}

template <int HALF, bool SUM>
static void launch_kept(const sl_cuda_call *call, const norm_args &a) {
    int warps = warps_of(a.z.n);
    unsigned blocks = warps > 1 ? (unsigned)a.z.count : row_blocks(a.z.count);
    if (warps == 1)
        norm_kept<HALF, SUM, 1><<<blocks, 32 * WARPS, 0, call->stream>>>(a);
    else if (warps == 2)
        norm_kept<HALF, SUM, 2><<<blocks, 64, 0, call->stream>>>(a);
    else if (warps == 4)
        norm_kept<HALF, SUM, 4><<<blocks, 128, 0, call->stream>>>(a);
    else
        norm_kept<HALF, SUM, 8><<<blocks, 256, 0, call->stream>>>(a);
}

template <int HALF> static void launch_sum(const sl_cuda_call *call, const norm_args &a) {
    if (a.r.at)
        launch_kept<HALF, true>(call, a);
    else
        launch_kept<HALF, false>(call, a);
}

static sl_err run_norm(const sl_cuda_call *call, const norm_args &a) {
    int half = a.w.half || a.b.half ? SL_HALF_NOT : half_of_all(a.x, a.y, a.r, a.sum);
    if (!fits(a.z.n) || !fit8(a.x, a.r, a.w, a.b, a.sum, a.y))
        norm_long<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    else if (half == SL_HALF_BF16)
        launch_sum<SL_HALF_BF16>(call, a);
    else if (half == SL_HALF_FP16)
        launch_sum<SL_HALF_FP16>(call, a);
    else
        launch_sum<SL_HALF_NOT>(call, a);
    return launched(call);
}

static sl_err k_layernorm(const sl_cuda_call *call) {
    norm_args a = {};
    a.x = in_array(call, 0);
    a.w = in_array(call, 1);
    a.b = in_array(call, 2);
    a.y = out_array(call, 0);
    a.mean = out_array(call, 1);
    a.rstd = out_array(call, 2);
    a.z = rows_of(call->instr->in[0]);
    a.eps = (float)call->instr->attr[0].f;
    a.centred = true;
    return run_norm(call, a);
}

static sl_err k_add_layernorm(const sl_cuda_call *call) {
    norm_args a = {};
    a.x = in_array(call, 0);
    a.r = in_array(call, 1);
    a.w = in_array(call, 2);
    a.b = in_array(call, 3);
    a.sum = out_array(call, 0);
    a.y = out_array(call, 1);
    a.mean = out_array(call, 2);
    a.rstd = out_array(call, 3);
    a.z = rows_of(call->instr->in[0]);
    a.eps = (float)call->instr->attr[0].f;
    a.centred = true;
    return run_norm(call, a);
}

static sl_err k_rmsnorm(const sl_cuda_call *call) {
    norm_args a = {};
    a.x = in_array(call, 0);
    a.w = in_array(call, 1);
    a.y = out_array(call, 0);
    a.rstd = out_array(call, 1);
    a.z = rows_of(call->instr->in[0]);
    a.eps = (float)call->instr->attr[0].f;
    return run_norm(call, a);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_norms_table[] = {
    {"add_layernorm", k_add_layernorm},
    {"layernorm", k_layernorm},
    {"rmsnorm", k_rmsnorm},
    {},
};
/* clang-format on */
