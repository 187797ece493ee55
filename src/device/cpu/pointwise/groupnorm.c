/* groupnorm and its gradients. A group of channels of one sample is one run of memory: its sums are
 * those of a row; scale and shift are numbers per plane. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/runs.h"

struct groups {
    /* `channels` and `each` count the channels and elements of a group */
    int64_t b, c, plane, groups, channels, each;
};

static struct groups groups_of(const struct sl_shape *x, const struct sl_shape *mean) {
    struct groups z = {.b = x->dim[0], .c = x->dim[1], .groups = mean->dim[1]};
    z.plane = sl_graph_shape_numel(x, 1) / (z.b * z.c);
    z.channels = z.c / z.groups;
    z.each = z.channels * z.plane;
    return z;
}

/* Returns the sum of (x - mean) y. */
static INLINE float sum_product(const float *x, const float *y, float mean, int64_t n) {
    vf s[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2; k++)
            s[k] += (load(x + i + k * LANES) - mean) * load(y + i + k * LANES);
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * y[i];
    return sum_lanes(s[0] + s[1]) + rest;
}

static float sum_squares(const float *x, float mean, int64_t n) {
    vf s[2] = {{0}};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2; k++) {
            vf off = load(x + i + k * LANES) - mean;
            s[k] += off * off;
        }
    float rest = 0;
    for (; i < n; i++)
        rest += (x[i] - mean) * (x[i] - mean);
    return sum_lanes(s[0] + s[1]) + rest;
}

/* y = x a + b */
static INLINE void line_run(float *y, const float *x, float a, float b, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, load(x + i) * a + splat(b));
    for (; i < n; i++)
        y[i] = x[i] * a + b;
}

static void groupnorm_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct groups z = groups_of(&call->instr->in[0].shape, &call->instr->out[1].shape);
    const float *w = call->in[1], *b = call->in[2];
    float *mean = call->out[1], *rstd = call->out[2];
    int64_t from, to;
    sl_device_pool_range(z.b * z.groups, 1, thread, threads, &from, &to);
    for (int64_t g = from; g < to; g++) {
        const float *x = (const float *)call->in[0] + g * z.each;
        float *y = (float *)call->out[0] + g * z.each;
        mean[g] = sum_run(x, z.each) / (float)z.each;
        rstd[g] = 1.0f / sqrtf(sum_squares(x, mean[g], z.each) / (float)z.each +
                               (float)call->instr->attr[1].f);
        for (int64_t k = 0; k < z.channels; k++) {
            int64_t c = g % z.groups * z.channels + k;
            float scale = rstd[g] * (w ? w[c] : 1), shift = (b ? b[c] : 0) - mean[g] * scale;
            line_run(y + k * z.plane, x + k * z.plane, scale, shift, z.plane);
        }
    }
}

static void k_groupnorm(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), groupnorm_part);
}

/* Inputs: dy, x, mean, rstd, w (optional). */
static void groupnorm_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct groups z = groups_of(&call->instr->in[1].shape, &call->instr->in[2].shape);
    const float *mean = call->in[2], *rstd = call->in[3], *w = call->in[4];
    int64_t from, to;
    sl_device_pool_range(z.b * z.groups, 1, thread, threads, &from, &to);
    for (int64_t g = from; g < to; g++) {
        const float *dy = (const float *)call->in[0] + g * z.each;
        const float *x = (const float *)call->in[1] + g * z.each;
        float *dx = (float *)call->out[0] + g * z.each;
        double sum = 0, dot = 0;
        for (int64_t k = 0; k < z.channels; k++) {
            double scale = w ? (double)w[g % z.groups * z.channels + k] : 1;
            sum += scale * (double)sum_run(dy + k * z.plane, z.plane);
            dot += scale * (double)sum_product(x + k * z.plane, dy + k * z.plane, mean[g], z.plane);
        }
        float by_x =
            (float)(-dot * (double)rstd[g] * (double)rstd[g] * (double)rstd[g] / (double)z.each);
        float add = (float)(-sum * (double)rstd[g] / (double)z.each) - by_x * mean[g];
        for (int64_t k = 0; k < z.channels; k++) {
            float scale = rstd[g] * (w ? w[g % z.groups * z.channels + k] : 1);
            for (int64_t i = k * z.plane; i < (k + 1) * z.plane; i += LANES) {
                vf v = load_at(dy, i, (k + 1) * z.plane) * scale +
                       load_at(x, i, (k + 1) * z.plane) * by_x + add;
                store_at(dx, v, i, (k + 1) * z.plane);
            }
        }
    }
}

static void k_groupnorm_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), groupnorm_dx_part);
}

static void groupnorm_dw_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct groups z = groups_of(&call->instr->in[1].shape, &call->instr->in[2].shape);
    const float *mean = call->in[2], *rstd = call->in[3];
    float *dw = call->out[0];
    int64_t from, to;
    sl_device_pool_range(z.c, 16, thread, threads, &from, &to);
    for (int64_t c = from; c < to; c++) {
        double sum = 0;
        for (int64_t b = 0; b < z.b; b++) {
            int64_t g = b * z.groups + c / z.channels, at = (b * z.c + c) * z.plane;
            sum += (double)rstd[g] * (double)sum_product((const float *)call->in[1] + at,
                                                         (const float *)call->in[0] + at, mean[g],
                                                         z.plane);
        }
        dw[c] = (call->add ? dw[c] : 0) + (float)sum;
    }
}

static void k_groupnorm_dw(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), groupnorm_dw_part);
}

ADDING(groupnorm_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(groupnorm_kernels)[] = {
    {"groupnorm", k_groupnorm, NULL},
    {"groupnorm_dw", k_groupnorm_dw, NULL},
    {ADDING_ROW(groupnorm_dx)},
    {0},
};
