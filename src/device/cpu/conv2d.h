/* conv2d and conv2d_dx. Threads share the images, or the channels of the result when there are
 * fewer images than threads.
 *
 * dx with stride 1 is a convolution of dy with the kernel turned around. With larger strides it is
 * w' dy per tap, added to where the taps lie (dx_at).
 */
#ifndef SL_DEVICE_CPU_CONV2D_H
#define SL_DEVICE_CPU_CONV2D_H

#include "device/cpu/conv2d_pack.h"

struct conv_job {
    struct conv v;
    const float *x, *w, *bias; /* w: [groups * og, taps] */
    float *y;
    bool add;
    float *scratch;
    int64_t scratch_step;
};

/* What a thread does: images [b0, b1), channels [o0, o1) of every group. */
struct conv_share {
    int64_t b0, b1, o0, o1;
};

static struct conv_share conv_share(const struct conv *v, int64_t rows, int thread, int threads) {
    struct conv_share share = {0, v->b, 0, rows};
    if (v->b >= threads)
        sl_pool_range(v->b, 1, thread, threads, &share.b0, &share.b1);
    else
        sl_pool_range(rows, 1, thread, threads, &share.o0, &share.o1);
    return share;
}

static void conv_bias(const struct conv_job *job, const struct conv_share *share, int64_t b,
                      int64_t group) {
    const struct conv *v = &job->v;
    for (int64_t o = group * v->og + share->o0; o < group * v->og + share->o1; o++) {
        float *y = job->y + (b * v->o + o) * v->pixels;
        for (int64_t i = 0; i < v->pixels; i++)
            y[i] = job->bias[o];
    }
}

static void conv_part(void *ctx, int thread, int threads) {
    const struct conv_job *job = ctx;
    const struct conv *v = &job->v;
    struct conv_share share = conv_share(v, v->og, thread, threads);
    struct conv_room room = conv_room(v, job->scratch + thread * job->scratch_step);
    struct conv_source source = {.x = room.x, .pixel_at = room.pixel_at, .tap_at = room.tap_at};
    for (int64_t b = share.b0; b < share.b1 && share.o0 < share.o1; b += v->images)
        for (int64_t group = 0; group < v->groups; group++) {
            int64_t count = least(v->images, share.b1 - b);
            pad_images(v, job->x, b, count, group * v->cg, room.x);
            for (int64_t i = 0; job->bias && i < count; i++)
                conv_bias(job, &share, b + i, group);
            struct gemm g = {
                .m = v->og,
                .n = count * v->pixels,
                .k = v->taps,
                .a = {job->w + group * v->og * v->taps, v->taps, false},
                .pack_b = pack_pixels,
                .source = &source,
                .c = job->y + (b * v->o + group * v->og) * v->pixels,
                .ldc = v->pixels,
                .image = v->pixels,
                .image_step = v->o * v->pixels,
                .add = job->add || job->bias,
            };
            part_run(&g, &(struct part){share.o0, share.o1, 0, g.n}, room.gemm);
        }
}

static int64_t conv_floats(const struct conv *v) {
    return conv_room_floats(v, v->og, v->images * v->pixels, v->taps);
}

static void conv2d(const struct sl_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    struct conv_job job = {
        .v = conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape),
        .x = call->in[0],
        .w = call->in[1],
        .bias = call->in[2],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
    };
    job.scratch_step = conv_floats(&job.v);
    sl_pool_run(call->pool, conv_part, &job);
}

static int64_t conv2d_scratch(const struct sl_instr *instr, int threads) {
    struct conv v =
        conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape);
    return 4 * threads * conv_floats(&v);
}

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
    sl_pool_run(call->pool, turn_part, &(struct turn_job){v, call->in[1], weights});
    struct conv_job job = {
        .v = conv_turned(v),
        .x = call->in[0],
        .w = weights,
        .y = call->out[0],
        .add = call->add,
        .scratch = weights + up_to(v->o * v->taps, 16),
    };
    job.scratch_step = conv_floats(&job.v);
    sl_pool_run(call->pool, conv_part, &job);
}

#endif
