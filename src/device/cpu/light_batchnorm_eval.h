/* batchnorm_eval and its gradient with respect to x: a slope and a shift per channel. */
#ifndef SL_DEVICE_CPU_LIGHT_BATCHNORM_EVAL_H
#define SL_DEVICE_CPU_LIGHT_BATCHNORM_EVAL_H

#include "device/cpu/light_batchnorm.h"

static double rstd_of(const struct sl_cpu_call *call, int input, int64_t channel) {
    double var = (double)((const float *)call->in[input])[channel];
    return 1 / sqrt(var + call->instr->attr[BN_EPS].f);
}

/* in: x w b mean var. */
static void batchnorm_eval_part(void *ctx, int thread, int threads) {
    const struct sl_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[0].shape, thread, threads);
    const float *w = call->in[1], *b = call->in[2], *mean = call->in[3];
    for (int64_t i = c.from; i < c.to; i++) {
        double slope = rstd_of(call, 4, i) * (double)w[i];
        float shift = (float)((double)b[i] - (double)mean[i] * slope);
        channel_map(&c, call->out[0], call->in[0], i, (const float[]){(float)slope, shift});
    }
}

static void k_batchnorm_eval(const struct sl_cpu_call *call) {
    split(call, numel_in(call, 0), batchnorm_eval_part);
}

/* in: dy w var. */
static void batchnorm_eval_dx_part(void *ctx, int thread, int threads) {
    const struct sl_cpu_call *call = ctx;
    struct channels c = channels_of(&call->instr->in[0].shape, thread, threads);
    const float *w = call->in[1];
    for (int64_t i = c.from; i < c.to; i++) {
        float slope = (float)(rstd_of(call, 2, i) * (double)w[i]);
        channel_map(&c, call->out[0], call->in[0], i, (const float[]){slope, 0});
    }
}

static void k_batchnorm_eval_dx(const struct sl_cpu_call *call) {
    split(call, numel_in(call, 0), batchnorm_eval_dx_part);
}

#endif
