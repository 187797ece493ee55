/* conv2d_dx with strides: taps [taps, pixels] = w' dy of a group of images, then added up. */
#ifndef SL_DEVICE_CPU_CONV2D_TAPS_H
#define SL_DEVICE_CPU_CONV2D_TAPS_H

#include "device/cpu/conv2d.h"

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

/* All taps of one image [groups * taps, pixels]. */
static void add_taps(const struct conv_job *job, const float *taps, float *dx) {
    const struct conv *v = &job->v;
    if (!job->add)
        memset(dx, 0, sizeof(float) * (size_t)(v->c * v->h * v->w));
    for (int64_t tap = 0; tap < v->groups * v->taps; tap++)
        add_tap(v, taps + tap * v->pixels, tap, dx);
}

/* As a convolution of dy with kernels of one pixel. Every group of images packs the weights: worth
 * some images, which must not be too many for a cache. One tap or few are not worth it, and there a
 * group would be multiplied otherwise than an image (part_run). */
enum { DX_PIXELS = 256 };

static struct conv conv_per_tap(const struct conv *v, int threads) {
    struct conv t = {.b = v->b,
                     .c = v->o,
                     .h = v->oh,
                     .w = v->ow,
                     .o = v->groups * v->taps,
                     .oh = v->oh,
                     .ow = v->ow,
                     .kh = 1,
                     .kw = 1,
                     .stride = {1, 1},
                     .dilation = {1, 1},
                     .groups = v->groups};
    int64_t each = (v->b + threads - 1) / threads;
    conv_derive(&t);
    bool grouped = v->kh * v->kw > 1 && v->taps >= AMX_CHANNELS;
    t.images = grouped ? most(1, least(each, DX_PIXELS / t.pixels)) : 1;
    return t;
}

static int64_t dx_floats(const struct conv *t) {
    int64_t n = t->images * t->pixels;
    return up_to(t->o * n, 16) + conv_room_floats(t, t->og, n, t->taps);
}

/* Taps of images [b, b + count). */
static void dx_taps(const struct conv_job *job, const struct conv *t, const struct conv_room *room,
                    int64_t b, int64_t count, float *taps) {
    struct conv_source source = conv_source(room);
    for (int64_t group = 0; group < t->groups; group++) {
        struct gemm g = {
            .m = t->og,
            .n = count * t->pixels,
            .k = t->taps,
            .a = {job->w + group * t->og * t->taps, t->og, true},
            .b = {job->x + (b * t->c + group * t->cg) * t->pixels, t->pixels, false},
            .source = &source,
            .c = taps + group * t->og * t->pixels,
            .ldc = t->pixels,
            .image = count > 1 ? t->pixels : 0,
            .image_step = t->o * t->pixels,
        };
        if (count > 1) {
            g.pack_b = pack_pixels;
            pad_images(t, job->x, b, count, group * t->cg, room->x);
        }
        part_run(&g, &(struct part){0, g.m, 0, g.n}, room->gemm);
    }
}

/* Threads take groups of images and, when these are few, share nothing else. */
static void dx_part(void *ctx, int thread, int threads) {
    const struct conv_job *job = ctx;
    const struct conv *v = &job->v, t = conv_per_tap(v, threads);
    float *taps = job->scratch + thread * job->scratch_step;
    struct conv_room room = conv_room(&t, taps + up_to(t.o * t.images * t.pixels, 16));
    int64_t pieces = (t.b + t.images - 1) / t.images, image = v->c * v->h * v->w;
    for (int64_t i; (i = sl_pool_take(job->pool, pieces, thread)) >= 0;) {
        int64_t b = i * t.images, count = least(t.images, t.b - b);
        dx_taps(job, &t, &room, b, count, taps);
        for (int64_t n = 0; n < count; n++)
            add_taps(job, taps + n * t.o * t.pixels, job->y + (b + n) * image);
    }
}

#endif
