/* layernorm, rmsnorm and their gradients by x, row by row while the row is in the L1 cache. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/runs.h"

/* Returns the sum of (x - mean)^2. */
static float sum_squares(const float *x, float mean, int64_t n) {
    vf s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++) {
            vf d = load(x + i + k * LANES) - mean;
            s[k] += d * d;
        }
    for (; i + LANES <= n; i += LANES) {
        vf d = load(x + i) - mean;
        s[0] += d * d;
    }
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return sum_lanes((s[0] + s[1]) + (s[2] + s[3])) + rest;
}

/* y = (x - mean) rstd w + b; w and b may be NULL. */
static INLINE void normalise_row(float *y, const float *x, const float stat[2], const float *w,
                                 const float *b, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = (load_at(x, i, n) - stat[0]) * stat[1];
        v = w ? v * load_at(w, i, n) : v;
        v = b ? v + load_at(b, i, n) : v;
        store_at(y, v, i, n);
    }
}

static void moments_of(const float *x, int64_t n, float eps, float stat[2]) {
    stat[0] = sum_run(x, n) / (float)n;
    stat[1] = 1.0f / sqrtf(sum_squares(x, stat[0], n) / (float)n + eps);
}

static void layernorm_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);
    float *y = call->out[0], *mean = call->out[1], *rstd = call->out[2];
    int64_t from, to;
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)call->in[0] + r * rows.n;
        float stat[2];
        moments_of(x, rows.n, (float)call->instr->attr[0].f, stat);
        normalise_row(y + r * rows.n, x, stat, call->in[1], call->in[2], rows.n);
        mean[r] = stat[0];
        rstd[r] = stat[1];
    }
}

static void k_layernorm(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), layernorm_part);
}

/* sum = x + r, y = layernorm(sum). in: x r w b?, out: sum y mean rstd. */
static void add_layernorm_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);
    float *mean = call->out[2], *rstd = call->out[3];
    int64_t from, to;
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *a = (const float *)call->in[0] + r * rows.n;
        const float *b = (const float *)call->in[1] + r * rows.n;
        float *sum = (float *)call->out[0] + r * rows.n, stat[2];
        for (int64_t i = 0; i < rows.n; i += LANES)
            store_at(sum, load_at(a, i, rows.n) + load_at(b, i, rows.n), i, rows.n);
        moments_of(sum, rows.n, (float)call->instr->attr[0].f, stat);
        normalise_row((float *)call->out[1] + r * rows.n, sum, stat, call->in[2], call->in[3],
                      rows.n);
        mean[r] = stat[0];
        rstd[r] = stat[1];
    }
}

static void k_add_layernorm(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), add_layernorm_part);
}

static void rmsnorm_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);
    float *y = call->out[0], *rstd = call->out[1];
    int64_t from, to;
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)call->in[0] + r * rows.n;
        float stat[2] = {0};
        stat[1] =
            1.0f / sqrtf(sum_squares(x, 0, rows.n) / (float)rows.n + (float)call->instr->attr[0].f);
        normalise_row(y + r * rows.n, x, stat, call->in[1], NULL, rows.n);
        rstd[r] = stat[1];
    }
}

static void k_rmsnorm(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), rmsnorm_part);
}

/* One row of the gradient: dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy w. For rmsnorm the
 * mean of x is 0 and mean(g) is left out. */
struct norm_row {
    const float *dy, *x, *w;
    float mean, rstd;
    bool centred;
};

static INLINE void norm_dx_row(float *dx, const struct norm_row *row, int64_t n) {
    vf sums = {0}, dots = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        vf g = load_at(row->dy, i, n);
        g = row->w ? g * load_at(row->w, i, n) : g;
        sums += g;
        dots += g * (load_at(row->x, i, n) - row->mean);
    }
    float sum = row->centred ? sum_lanes(sums) / (float)n : 0;
    float dot = sum_lanes(dots) * row->rstd * row->rstd / (float)n;
    for (int64_t i = 0; i < n; i += LANES) {
        vf g = load_at(row->dy, i, n);
        g = row->w ? g * load_at(row->w, i, n) : g;
        store_at(dx, row->rstd * (g - sum - (load_at(row->x, i, n) - row->mean) * dot), i, n);
    }
}

/* Inputs of layernorm_dx: dy, x, w, mean, rstd; of rmsnorm_dx: dy, x, rstd, w (optional). */
static INLINE void norm_dx_part(void *ctx, int thread, int threads, bool centred) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[1].shape);
    const float *mean = call->in[3], *rstd = call->in[centred ? 4 : 2];
    int64_t from, to;
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        struct norm_row row = {(const float *)call->in[0] + r * rows.n,
                               (const float *)call->in[1] + r * rows.n,
                               call->in[centred ? 2 : 3],
                               centred ? mean[r] : 0,
                               rstd[r],
                               centred};
        norm_dx_row((float *)call->out[0] + r * rows.n, &row, rows.n);
    }
}

static void layernorm_dx_part(void *ctx, int thread, int threads) {
    norm_dx_part(ctx, thread, threads, true);
}

static void rmsnorm_dx_part(void *ctx, int thread, int threads) {
    norm_dx_part(ctx, thread, threads, false);
}

static void k_layernorm_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), layernorm_dx_part);
}

static void k_rmsnorm_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), rmsnorm_dx_part);
}

ADDING(layernorm_dx)
ADDING(rmsnorm_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(norm_kernels)[] = {
    {"add_layernorm", k_add_layernorm, NULL},
    {"layernorm", k_layernorm, NULL},
    {ADDING_ROW(layernorm_dx)},
    {"rmsnorm", k_rmsnorm, NULL},
    {ADDING_ROW(rmsnorm_dx)},
    {0},
};
