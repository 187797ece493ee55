/* conv2d. Threads take groups of images, or share the channels of the result when there are fewer
 * images than threads. */
#ifndef SL_DEVICE_CPU_CONV2D_H
#define SL_DEVICE_CPU_CONV2D_H

#include "device/cpu/conv2d_pack.h"

struct conv_job {
    struct conv v;
    struct sl_pool *pool;
    const float *x, *w, *bias; /* w: [groups * og, taps] */
    float *y;
    bool add;
    float *scratch;
    int64_t scratch_step;
};

static void conv_bias(const struct conv_job *job, int64_t b, const struct part *part,
                      int64_t group) {
    const struct conv *v = &job->v;
    for (int64_t o = group * v->og + part->m0; o < group * v->og + part->m1; o++) {
        float *y = job->y + (b * v->o + o) * v->pixels;
        for (int64_t i = 0; i < v->pixels; i++)
            y[i] = job->bias[o];
    }
}

/* Channels [m0, m1) of every group of images [b, b + count). */
static void conv_images(const struct conv_job *job, const struct conv_room *room, int64_t b,
                        int64_t count, struct part part) {
    const struct conv *v = &job->v;
    struct conv_source source = conv_source(room);
    for (int64_t group = 0; group < v->groups; group++) {
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
        pad_images(v, job->x, b, count, group * v->cg, room->x);
        for (int64_t i = 0; job->bias && i < count; i++)
            conv_bias(job, b + i, &part, group);
        part.n1 = g.n;
        part_run(&g, &part, room->gemm);
    }
}

static void conv_part(void *ctx, int thread, int threads) {
    const struct conv_job *job = ctx;
    const struct conv *v = &job->v;
    struct part part = {0, v->og, 0, 0};
    struct conv_room room = conv_room(v, job->scratch + thread * job->scratch_step);
    bool few = v->b < threads;
    int64_t pieces = (v->b + v->images - 1) / v->images;
    if (few)
        sl_pool_range(v->og, 1, thread, threads, &part.m0, &part.m1);
    for (int64_t i = 0; few && i < pieces && part.m0 < part.m1; i++)
        conv_images(job, &room, i * v->images, least(v->images, v->b - i * v->images), part);
    for (int64_t i; !few && (i = sl_pool_take(job->pool, pieces, thread)) >= 0;)
        conv_images(job, &room, i * v->images, least(v->images, v->b - i * v->images), part);
}

/* Groups of images for a thread of several; results per channel that pay for packing the weights.
 */
enum { CONV_PIECES = 4, CONV_PIXELS = 512 };

/* How many images are in a group is free: every sum runs over the taps of one pixel. */
static struct conv conv_grouped(const struct conv *v, int threads) {
    struct conv grouped = *v;
    int64_t pieces = CONV_PIECES * threads, each = (v->b + threads - 1) / threads;
    if (threads > 1)
        grouped.images = least(least(v->images, each),
                               most((v->b + pieces - 1) / pieces, CONV_PIXELS / v->pixels));
    return grouped;
}

/* Floats of scratch per thread. */
static int64_t conv_floats(const struct conv *v, int threads) {
    struct conv grouped = conv_grouped(v, threads);
    return conv_room_floats(&grouped, v->og, grouped.images * v->pixels, v->taps);
}

static void conv_run(struct conv_job *job) {
    int threads = sl_pool_threads(job->pool);
    job->scratch_step = conv_floats(&job->v, threads);
    job->v = conv_grouped(&job->v, threads);
    sl_pool_run(job->pool, conv_part, job);
}

static void conv2d(const struct sl_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    conv_run(&(struct conv_job){
        .v = conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape),
        .pool = call->pool,
        .x = call->in[0],
        .w = call->in[1],
        .bias = call->in[2],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
    });
}

static int64_t conv2d_scratch(const struct sl_instr *instr, int threads) {
    struct conv v =
        conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape);
    return 4 * threads * conv_floats(&v, threads);
}

#endif
