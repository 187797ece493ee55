/* layernorm, add_layernorm, rmsnorm and their gradients: one warp per row, the row in registers
 * when it fits (up to 1024 elements, a multiple of 8), else read again. */
#include "device/cuda/columns.cuh"

enum { WARPS = 4, KEPT = 4 /* eights per lane */ };

static bool fits(i64 n) { return n % 8 == 0 && n <= 32 * 8 * KEPT; }
static unsigned row_blocks(i64 rows) { return (unsigned)((rows + WARPS - 1) / WARPS); }

struct norm_args {
    array x, r, w, b, sum, y, mean, rstd; /* r: added to x first; sum: where that goes */
    rows z;
    float eps;
    bool centred; /* layernorm, else rmsnorm */
};

/* Lane l of the warp has the eights l, l + 32, ...; the k-th begins at element at(k, lane). */
static __device__ __forceinline__ i64 at(int k, int lane) { return (k * 32 + lane) * 8; }

static __device__ __forceinline__ eight ones() { return {{1, 1, 1, 1, 1, 1, 1, 1}}; }

/* What a later kernel will read of it. */
static __device__ __forceinline__ float as_stored(array a, float v) {
    return a.half ? __bfloat162float(__float2bfloat16(v)) : v;
}

/* x, or x + r, which is stored. */
static __device__ __forceinline__ eight get_sum(const norm_args &a, i64 i) {
    eight x = get8(a.x, i);
    if (!a.r.at)
        return x;
    eight r = get8(a.r, i);
    for (int j = 0; j < 8; j++)
        x.v[j] = as_stored(a.sum, x.v[j] + r.v[j]);
    put8(a.sum, i, x);
    return x;
}

static __device__ __forceinline__ void put_stats(const norm_args &a, i64 row, float mean,
                                                 float rstd) {
    if (threadIdx.x % 32)
        return;
    if (a.mean.at)
        put(a.mean, row, mean);
    put(a.rstd, row, rstd);
}

static __global__ void norm_kept(norm_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    eight x[KEPT];
    float mean = 0, square = 0;
    if (row >= a.z.count)
        return;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            x[k] = get_sum(a, base + at(k, lane));
            for (int j = 0; j < 8; j++)
                mean += x[k].v[j];
        }
    mean = a.centred ? warp_sum(mean) / (float)n : 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        for (int j = 0; j < 8 && at(k, lane) < n; j++)
            square += (x[k].v[j] - mean) * (x[k].v[j] - mean);
    float rstd = 1 / sqrtf(warp_sum(square) / (float)n + a.eps);
    put_stats(a, row, mean, rstd);
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            eight w = a.w.at ? get8(a.w, at(k, lane)) : ones();
            eight b = a.b.at ? get8(a.b, at(k, lane)) : eight{};
            for (int j = 0; j < 8; j++)
                x[k].v[j] = (x[k].v[j] - mean) * rstd * w.v[j] + b.v[j];
            put8(a.y, base + at(k, lane), x[k]);
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
    array x = a.r.at ? a.sum : a.x; /* a lane reads what it wrote itself */
    for (i64 j = lane; a.centred && j < n; j += 32)
        mean += get(x, base + j);
    mean = warp_sum(mean) / (float)n;
    for (i64 j = lane; j < n; j += 32)
        square += (get(x, base + j) - mean) * (get(x, base + j) - mean);
    float rstd = 1 / sqrtf(warp_sum(square) / (float)n + a.eps);
    put_stats(a, row, mean, rstd);
    for (i64 j = lane; j < n; j += 32)
        put(a.y, base + j,
            (get(x, base + j) - mean) * rstd * (a.w.at ? get(a.w, j) : 1) +
                (a.b.at ? get(a.b, j) : 0));
}

static sl_err run_norm(const sl_cuda_call *call, const norm_args &a) {
    if (fits(a.z.n) && fit8(a.x, a.r, a.w, a.b, a.sum, a.y))
        norm_kept<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    else
        norm_long<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
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

/* ---- dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy w; rmsnorm: without mean(g) ---- */

struct grad_args {
    array dy, x, w, mean, rstd, dx;
    rows z;
    bool add;
};

static __global__ void dx_kept(grad_args a) {
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, n = a.z.n, base = row * n;
    int lane = threadIdx.x % 32;
    eight g[KEPT], hat[KEPT];
    if (row >= a.z.count)
        return;
    float mean = a.mean.at ? get(a.mean, row) : 0, rstd = get(a.rstd, row), sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            g[k] = get8(a.dy, base + at(k, lane));
            hat[k] = get8(a.x, base + at(k, lane));
            eight w = a.w.at ? get8(a.w, at(k, lane)) : ones();
            for (int j = 0; j < 8; j++) {
                g[k].v[j] *= w.v[j];
                hat[k].v[j] = (hat[k].v[j] - mean) * rstd;
                sum += g[k].v[j];
                dot += g[k].v[j] * hat[k].v[j];
            }
        }
    sum = a.mean.at ? warp_sum(sum) / (float)n : 0;
    dot = warp_sum(dot) / (float)n;
#pragma unroll
    for (int k = 0; k < KEPT; k++)
        if (at(k, lane) < n) {
            eight old = a.add ? get8(a.dx, base + at(k, lane)) : eight{};
            for (int j = 0; j < 8; j++)
                g[k].v[j] = old.v[j] + rstd * (g[k].v[j] - sum - hat[k].v[j] * dot);
            put8(a.dx, base + at(k, lane), g[k]);
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
        float hat = (get(a.x, base + j) - mean) * rstd;
        put(a.dx, base + j, rstd * (g - sum - hat * dot), a.add);
    }
}

static sl_err run_dx(const sl_cuda_call *call, const grad_args &a) {
    if (fits(a.z.n) && fit8(a.dy, a.x, a.w, a.dx))
        dx_kept<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    else
        dx_long<<<row_blocks(a.z.count), 32 * WARPS, 0, call->stream>>>(a);
    return launched(call);
}

static sl_err k_layernorm_dx(const sl_cuda_call *call) {
    return run_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                                  in_array(call, 3), in_array(call, 4), out_array(call, 0),
                                  rows_of(call->instr->in[0]), call->add});
}

static sl_err k_rmsnorm_dx(const sl_cuda_call *call) {
    return run_dx(call, grad_args{in_array(call, 0), in_array(call, 1), in_array(call, 3), array{},
                                  in_array(call, 2), out_array(call, 0),
                                  rows_of(call->instr->in[0]), call->add});
}

/* ---- dw = sum over rows of dy xhat ---- */

struct load_dw {
    array dy, x, mean, rstd;
    i64 n;
    bool wide;
    __device__ float one(i64 row, i64 col) const {
        float m = mean.at ? get(mean, row) : 0;
        return get(dy, row * n + col) * (get(x, row * n + col) - m) * get(rstd, row);
    }
    __device__ eight many(i64 row, i64 col) const {
        float m = mean.at ? get(mean, row) : 0, r = get(rstd, row);
        eight d = get8(dy, row * n + col), v = get8(x, row * n + col);
        for (int k = 0; k < 8; k++)
            d.v[k] *= (v.v[k] - m) * r;
        return d;
    }
};

static sl_err k_layernorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), in_array(call, 2),
                               in_array(call, 3), z.n, fit8(in_array(call, 0), in_array(call, 1))},
                       call->add);
}

static sl_err k_rmsnorm_dw(const sl_cuda_call *call) {
    rows z = rows_of(call->instr->in[0]);
    return sum_columns(call, out_array(call, 0), z.count, z.n,
                       load_dw{in_array(call, 0), in_array(call, 1), array{}, in_array(call, 2),
                               z.n, fit8(in_array(call, 0), in_array(call, 1))},
                       call->add);
}

static i64 dw_scratch(const sl_instr *instr) {
    rows z = rows_of(instr->in[0]);
    return column_scratch(z.count, z.n);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_norms_table[] = {
    {"add_layernorm", k_add_layernorm},
    {"layernorm", k_layernorm},
    {"layernorm_dw", k_layernorm_dw, dw_scratch},
    {"layernorm_dx", k_layernorm_dx},
    {"rmsnorm", k_rmsnorm},
    {"rmsnorm_dw", k_rmsnorm_dw, dw_scratch},
    {"rmsnorm_dx", k_rmsnorm_dx},
    {},
};
/* clang-format on */
