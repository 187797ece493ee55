/* batchnorm and batchnorm_eval of x [B,C,inner], with gradients.
 *
 * Channels are split over the threads. Every sum of a channel adds sample by sample, in double.
 * The mean and the squared deviations of a few planes are computed while these are in the L1
 * cache, then merged with those of earlier planes (Chan et al. 1979), so x is read from memory
 * once. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/vec.h"

struct channels {
    int64_t samples, count, inner, from, to;
};

static struct channels channels_of(const struct sl_shape *x, int thread, int threads) {
    struct channels c = {.samples = x->dim[0], .count = x->dim[1], .inner = 1};
    for (int i = 2; i < x->rank; i++)
        c.inner *= x->dim[i];
    sl_device_pool_range(c.count, c.inner == 1 ? 16 : 1, thread, threads, &c.from, &c.to);
    return c;
}

static INLINE int64_t plane_at(const struct channels *c, int64_t sample, int64_t channel) {
    return (sample * c->count + channel) * c->inner;
}

struct range {
    int64_t from, to;
};

/* Number of samples that are summed per lane before the lanes are added. */
static INLINE int64_t samples_at_once(const struct channels *c) {
    return c->inner >= 1024 ? 1 : 1024 / c->inner;
}

/* Sums x - off, or its square, over a range of samples. */
static INLINE double plane_sums(const struct channels *c, const float *x, struct range samples,
                                float off, bool square) {
    vf sum = {0};
    double rest = 0;
    int64_t whole = c->inner - c->inner % LANES;
    for (int64_t s = samples.from; s < samples.to; s++) {
        const float *plane = x + s * c->count * c->inner;
        for (int64_t i = 0; i < whole; i += LANES) {
            if (square) /* prefetch the next range of samples */
                prefetch_run(plane + i + (samples.to - samples.from) * c->count * c->inner, LANES);
            vf v = load(plane + i) - off;
            sum += square ? v * v : v;
        }
        for (int64_t i = whole; i < c->inner; i++) {
            double v = (double)(plane[i] - off);
            rest += square ? v * v : v;
        }
    }
    return (double)sum_lanes(sum) + rest;
}

static void channel_moments(const struct channels *c, const float *x, int64_t channel,
                            double stat[2]) {
    double seen = 0, mean = 0, squares = 0;
    int64_t step = samples_at_once(c);
    x += channel * c->inner;
    for (int64_t s = 0; s < c->samples; s += step) {
        struct range samples = {s, c->samples - s < step ? c->samples : s + step};
        double n = (double)((samples.to - s) * c->inner);
        float local = (float)(plane_sums(c, x, samples, 0, false) / n);
        double off = (double)local - mean;
        squares += plane_sums(c, x, samples, local, true) + off * off * n * seen / (seen + n);
        seen += n;
        mean += off * n / seen;
    }
    stat[0] = mean;
    stat[1] = squares / seen;
}

/* y = x slope + shift, for all planes of a channel. */
static void channel_map(const struct channels *c, float *y, const float *x, int64_t channel,
                        const float by[2]) {
    for (int64_t s = 0; s < c->samples; s++) {
        int64_t at = plane_at(c, s, channel);
        for (int64_t i = 0; i < c->inner; i += LANES)
            store_at(y + at, load_at(x + at, i, c->inner) * by[0] + by[1], i, c->inner);
    }
}

enum { BN_EPS, BN_MOMENTUM };

/* Inputs: x, w, b, mean, var. Outputs: y, mean, rstd, new_mean, new_var. */
static void batchnorm_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[0].shape, thread, threads);
    const union sl_attr *attr = call->instr->attr;
    const float *w = call->in[1], *b = call->in[2], *old_mean = call->in[3], *old_var = call->in[4];
    float *mean = call->out[1], *rstd = call->out[2];
    double m = attr[BN_MOMENTUM].f, n = (double)(c.samples * c.inner);
    for (int64_t i = c.from; i < c.to; i++) {
        double stat[2];
        channel_moments(&c, call->in[0], i, stat);
        double r = 1 / sqrt(stat[1] + attr[BN_EPS].f);
        double unbiased = n > 1 ? stat[1] * n / (n - 1) : (double)old_var[i];
        float slope = (float)(r * (double)w[i]);
        float shift = (float)((double)b[i] - stat[0] * r * (double)w[i]);
        channel_map(&c, call->out[0], call->in[0], i, (const float[]){slope, shift});
        mean[i] = (float)stat[0];
        rstd[i] = (float)r;
        ((float *)call->out[3])[i] = (float)((1 - m) * (double)old_mean[i] + m * stat[0]);
        ((float *)call->out[4])[i] = (float)((1 - m) * (double)old_var[i] + m * unbiased);
    }
}

static void k_batchnorm(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), batchnorm_part);
}

/* Sums dy and dy (x - mean) over a channel. */
static void channel_sums(const struct channels *c, const float *const in[2], int64_t channel,
                         float mean, double sum[2]) {
    int64_t step = samples_at_once(c);
    vf sums = {0}, dots = {0};
    sum[0] = sum[1] = 0;
    for (int64_t s = 0; s < c->samples; s++) {
        const float *dy = in[0] + plane_at(c, s, channel), *x = in[1] + plane_at(c, s, channel);
        for (int64_t i = 0; i < c->inner; i += LANES) {
            prefetch_run(dy + i + c->count * c->inner, LANES);
            prefetch_run(x + i + c->count * c->inner, LANES);
            vf g = load_at(dy, i, c->inner);
            sums += g;
            dots += g * (load_at(x, i, c->inner) - mean);
        }
        if ((s + 1) % step != 0 && s + 1 < c->samples)
            continue;
        sum[0] += (double)sum_lanes(sums);
        sum[1] += (double)sum_lanes(dots);
        sums = dots = (vf){0};
    }
}

/* Inputs: dy, x, w, mean, rstd.
 * dx = w rstd (dy - mean(dy) - (x - mean) rstd^2 mean(dy (x - mean))) */
static void batchnorm_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[1].shape, thread, threads);
    const float *const in[2] = {call->in[0], call->in[1]};
    const float *w = call->in[2], *mean = call->in[3], *rstd = call->in[4];
    double n = (double)(c.samples * c.inner);
    for (int64_t i = c.from; i < c.to; i++) {
        double sum[2];
        channel_sums(&c, in, i, mean[i], sum);
        float dot = (float)(sum[1] / n * (double)rstd[i] * (double)rstd[i]);
        float off = (float)(sum[0] / n), slope = w[i] * rstd[i];
        for (int64_t s = 0; s < c.samples; s++) {
            int64_t at = plane_at(&c, s, i);
            for (int64_t j = 0; j < c.inner; j += LANES) {
                vf g = load_at(in[0] + at, j, c.inner), x = load_at(in[1] + at, j, c.inner);
                store_at((float *)call->out[0] + at, slope * (g - off - (x - mean[i]) * dot), j,
                         c.inner);
            }
        }
    }
}

static void k_batchnorm_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), batchnorm_dx_part);
}

/* Inputs of batchnorm_dw: dy, x, mean, rstd; of batchnorm_eval_dw: dy, x, mean, var. */
static INLINE void batchnorm_dw_any(void *ctx, int thread, int threads, bool eval) {
    const struct sl_device_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[1].shape, thread, threads);
    const float *const in[2] = {call->in[0], call->in[1]};
    const float *mean = call->in[2], *last = call->in[3];
    float *dw = call->out[0];
    for (int64_t i = c.from; i < c.to; i++) {
        double sum[2], rstd = (double)last[i];
        if (eval)
            rstd = 1 / sqrt(rstd + call->instr->attr[BN_EPS].f);
        channel_sums(&c, in, i, mean[i], sum);
        dw[i] = (call->add ? dw[i] : 0) + (float)(sum[1] * rstd);
    }
}

static void batchnorm_dw_part(void *ctx, int thread, int threads) {
    batchnorm_dw_any(ctx, thread, threads, false);
}

static void batchnorm_eval_dw_part(void *ctx, int thread, int threads) {
    batchnorm_dw_any(ctx, thread, threads, true);
}

static void k_batchnorm_dw(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), batchnorm_dw_part);
}

static void k_batchnorm_eval_dw(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), batchnorm_eval_dw_part);
}

/* ---- batchnorm_eval: a slope and a shift per channel ---- */

static double rstd_of(const struct sl_device_cpu_call *call, int input, int64_t channel) {
    double var = (double)((const float *)call->in[input])[channel];
    return 1 / sqrt(var + call->instr->attr[BN_EPS].f);
}

/* Inputs: x, w, b, mean, var. */
static void batchnorm_eval_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[0].shape, thread, threads);
    const float *w = call->in[1], *b = call->in[2], *mean = call->in[3];
    for (int64_t i = c.from; i < c.to; i++) {
        double slope = rstd_of(call, 4, i) * (double)w[i];
        float shift = (float)((double)b[i] - (double)mean[i] * slope);
        channel_map(&c, call->out[0], call->in[0], i, (const float[]){(float)slope, shift});
    }
}

static void k_batchnorm_eval(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), batchnorm_eval_part);
}

/* Inputs: dy, w, var. */
static void batchnorm_eval_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[0].shape, thread, threads);
    const float *w = call->in[1];
    for (int64_t i = c.from; i < c.to; i++) {
        float slope = (float)(rstd_of(call, 2, i) * (double)w[i]);
        channel_map(&c, call->out[0], call->in[0], i, (const float[]){slope, 0});
    }
}

static void k_batchnorm_eval_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), batchnorm_eval_dx_part);
}

ADDING(batchnorm_dx)
ADDING(batchnorm_eval_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(batchnorm_kernels)[] = {
    {"batchnorm", k_batchnorm, NULL},
    {"batchnorm_dw", k_batchnorm_dw, NULL},
    {ADDING_ROW(batchnorm_dx)},
    {"batchnorm_eval", k_batchnorm_eval, NULL},
    {"batchnorm_eval_dw", k_batchnorm_eval_dw, NULL},
    {ADDING_ROW(batchnorm_eval_dx)},
    {0},
};
