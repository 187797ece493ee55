/* conv2d_dx. With stride 1 it is a convolution of dy with the kernel turned around, with larger
 * strides w' dy per tap, added to where the taps lie.
 */
#ifndef SL_DEVICE_CPU_CONV2D_DX_H
#define SL_DEVICE_CPU_CONV2D_DX_H

#include "device/cpu/conv2d_taps.h"

/* ---- dx, stride 1 ---- */

/* The convolution that dx is: of dy, into dx. */
static struct conv conv_turned(const struct conv *v) {
    struct conv t = *v;
    t.c = v->o;
    t.o = v->c;
    t.h = v->oh;
    t.w = v->ow;
    t.oh = v->h;
    t.ow = v->w;
    t.pad[0] = v->dilation[0] * (v->kh - 1) - v->pad[0];
    t.pad[1] = v->dilation[1] * (v->kw - 1) - v->pad[1];
    conv_derive(&t);
    return t;
}

static bool turns(const struct conv *v) {
    return v->stride[0] == 1 && v->stride[1] == 1 && v->dilation[0] * (v->kh - 1) >= v->pad[0] &&
           v->dilation[1] * (v->kw - 1) >= v->pad[1];
}

/* [og, cg, KH, KW] of a group to [cg, og, KH, KW], taps in reverse; TURN x TURN kernels at a time,
 * so that neither side is left after a few bytes. */
enum { TURN = 16 };

struct turn_job {
    const struct conv *v;
    const float *from;
    float *to;
};

static void turn_kernels(const struct turn_job *job, int64_t c, int64_t o0) {
    const struct conv *v = job->v;
    int64_t size = v->kh * v->kw, group = c / v->cg;
    for (int64_t o = o0; o < least(v->og, o0 + TURN); o++) {
        const float *from = job->from + ((group * v->og + o) * v->cg + c % v->cg) * size;
        float *to = job->to + (c * v->og + o) * size;
        for (int64_t k = 0; k < size; k++)
            to[k] = from[size - 1 - k];
    }
}

static void turn_part(void *ctx, int thread, int threads) {
    const struct turn_job *job = ctx;
    int64_t from, to;
    sl_pool_range(job->v->c, TURN, thread, threads, &from, &to);
    for (int64_t c0 = from; c0 < to; c0 += TURN)
        for (int64_t o = 0; o < job->v->og; o += TURN)
            for (int64_t c = c0; c < least(to, c0 + TURN); c++)
                turn_kernels(job, c, o);
}

static struct conv conv_of_dx(const struct sl_instr *instr) {
    return conv_of(instr->attr, &instr->out[0].shape, &instr->in[1].shape, &instr->in[0].shape);
}

static void conv2d_dx_turned(const struct sl_cpu_call *call, const struct conv *v) {
    float *weights = call->scratch;
    sl_pool_share(call->pool, turn_part, &(struct turn_job){v, call->in[1], weights});
    struct conv_job job = {
        .v = conv_turned(v),
        .x = call->in[0],
        .w = weights,
        .y = call->out[0],
        .add = call->add,
        .pool = call->pool,
        .scratch = weights + up_to(v->o * v->taps, 16),
    };
    conv_run(&job);
}

static void conv2d_dx(const struct sl_cpu_call *call) {
    struct conv v = conv_of_dx(call->instr);
    if (turns(&v)) {
        conv2d_dx_turned(call, &v);
        return;
    }
    struct conv per_tap = conv_per_tap(&v, sl_pool_threads(call->pool));
    struct conv_job job = {
        .v = v,
        .pool = call->pool,
        .x = call->in[0],
        .w = call->in[1],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
        .scratch_step = dx_floats(&per_tap),
    };
    sl_pool_run(call->pool, dx_part, &job);
}

static int64_t conv2d_dx_scratch(const struct sl_instr *instr, int threads) {
    struct conv v = conv_of_dx(instr);
    struct conv t = turns(&v) ? conv_turned(&v) : conv_per_tap(&v, threads);
    if (!turns(&v))
        return 4 * threads * dx_floats(&t);
    return 4 * (up_to(v.o * v.taps, 16) + threads * conv_floats(&t, threads));
}

#endif
