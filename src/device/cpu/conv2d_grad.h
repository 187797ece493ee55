/* conv2d_dx with strides, and conv2d_dw. */
#ifndef SL_DEVICE_CPU_CONV2D_GRAD_H
#define SL_DEVICE_CPU_CONV2D_GRAD_H

#include "device/cpu/conv2d.h"

/* ---- dx: taps [taps, pixels] = w' dy of one image, then added up ---- */

/* One tap of one image: dx[row s + k d - p][column ...] += taps */
static void add_tap(const struct conv *v, const float *from, int64_t tap, float *dx) {
    int64_t k = tap / v->kw % v->kh, l = tap % v->kw;
    float *plane = dx + tap / (v->kh * v->kw) * v->h * v->w;
    for (int64_t i = 0; i < v->oh; i++) {
        int64_t row = i * v->stride[0] + k * v->dilation[0] - v->pad[0];
        if (row < 0 || row >= v->h)
            continue;
        int64_t shift = l * v->dilation[1] - v->pad[1], s = v->stride[1];
        int64_t first = shift < 0 ? (-shift + s - 1) / s : 0;
        int64_t end = v->w > shift ? least(v->ow, (v->w - shift + s - 1) / s) : 0;
        float *to = plane + row * v->w + shift;
        for (int64_t j = first; j < end; j++)
            to[j * s] += from[i * v->ow + j];
    }
}

static int64_t dx_floats(const struct conv *v) {
    return up_to(v->taps * v->pixels, 16) + up_to(part_floats(v->taps, v->pixels, v->og), 16);
}

/* Threads share the images and, when these are few, nothing else. */
static void dx_part(void *ctx, int thread, int threads) {
    const struct conv_job *job = ctx;
    const struct conv *v = &job->v;
    float *taps = job->scratch + thread * job->scratch_step;
    int64_t from, to, image = v->c * v->h * v->w;
    sl_pool_range(v->b, 1, thread, threads, &from, &to);
    for (int64_t b = from; b < to; b++) {
        if (!job->add)
            memset(job->y + b * image, 0, sizeof(float) * (size_t)image);
        for (int64_t group = 0; group < v->groups; group++) {
            struct gemm g = {
                .m = v->taps,
                .n = v->pixels,
                .k = v->og,
                .a = {job->w + group * v->og * v->taps, v->taps, true},
                .b = {job->x + (b * v->o + group * v->og) * v->pixels, v->pixels, false},
                .c = taps,
                .ldc = v->pixels,
            };
            part_run(&g, &(struct part){0, g.m, 0, g.n}, taps + up_to(v->taps * v->pixels, 16));
            for (int64_t tap = 0; tap < v->taps; tap++)
                add_tap(v, taps + tap * v->pixels, tap,
                        job->y + b * image + group * v->cg * v->h * v->w);
        }
    }
}

static void conv2d_dx(const struct sl_cpu_call *call) {
    struct conv v = conv_of_dx(call->instr);
    if (turns(&v)) {
        conv2d_dx_turned(call, &v);
        return;
    }
    struct conv_job job = {
        .v = v,
        .x = call->in[0],
        .w = call->in[1],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
        .scratch_step = dx_floats(&v),
    };
    sl_pool_run(call->pool, dx_part, &job);
}

static int64_t conv2d_dx_scratch(const struct sl_instr *instr, int threads) {
    struct conv v = conv_of_dx(instr);
    if (!turns(&v))
        return 4 * threads * dx_floats(&v);
    struct conv t = conv_turned(&v);
    return 4 * (up_to(v.o * v.taps, 16) + threads * conv_floats(&t));
}

/* ---- dw [og, taps] = dy x_at', over groups of images one after another ---- */

struct dw_job {
    struct conv v;
    const float *dy, *x;
    float *dw;
    bool add;
    float *scratch;
    int64_t scratch_step;
};

static int64_t dw_floats(const struct conv *v) {
    return conv_room_floats(v, v->og, v->taps, v->images * v->pixels);
}

/* Threads share the channels of x, or those of y when x has few. */
static void dw_part(void *ctx, int thread, int threads) {
    const struct dw_job *job = ctx;
    struct conv v = job->v;
    struct part part = {0, v.og, 0, v.taps};
    int64_t size = v.kh * v.kw, c0 = 0, c1 = v.cg;
    struct conv_room room = conv_room(&v, job->scratch + thread * job->scratch_step);
    if (v.cg >= 8 * threads)
        sl_pool_range(v.cg, 1, thread, threads, &c0, &c1);
    else
        sl_pool_range(v.og, 1, thread, threads, &part.m0, &part.m1);
    part.n1 = (c1 - c0) * size;
    for (int64_t b = 0; b < v.b && part.m0 < part.m1; b += v.images)
        for (int64_t group = 0; group < v.groups; group++) {
            int64_t count = least(v.images, v.b - b);
            struct conv_source source = {
                .x = room.x,
                .pixel_at = room.pixel_at,
                .tap_at = room.tap_at,
                .dy = job->dy + (b * v.o + group * v.og) * v.pixels,
                .pixels = v.pixels,
                .dy_step = v.o * v.pixels,
            };
            struct gemm g = {
                .m = v.og,
                .n = part.n1,
                .k = count * v.pixels,
                .pack_a = pack_dy,
                .pack_b = pack_taps,
                .source = &source,
                .c = job->dw + group * v.og * v.taps + c0 * size,
                .ldc = v.taps,
                .add = job->add || b > 0,
            };
            pad_images(&v, job->x, b, count, group * v.cg, room.x);
            source.x += c0 * v.hp * v.wp;
            part_run(&g, &part, room.gemm);
        }
}

static void conv2d_dw(const struct sl_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    struct dw_job job = {
        .v = conv_of(instr->attr, &instr->in[1].shape, &instr->out[0].shape, &instr->in[0].shape),
        .dy = call->in[0],
        .x = call->in[1],
        .dw = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
    };
    job.scratch_step = dw_floats(&job.v);
    sl_pool_run(call->pool, dw_part, &job);
}

static int64_t conv2d_dw_scratch(const struct sl_instr *instr, int threads) {
    struct conv v =
        conv_of(instr->attr, &instr->in[1].shape, &instr->out[0].shape, &instr->in[0].shape);
    return 4 * threads * dw_floats(&v);
}

#endif
