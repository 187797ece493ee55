/* Convolutions as products whose factors are never written out: sizes, and packing from images.
 *
 *   y [O, pixels] = w [O, taps] x_at [taps, pixels]     tap: channel, row and column of the kernel
 *
 * x_at[tap][pixel] = x[tap_at[tap] + pixel_at[pixel]] in images with their padding around them.
 * With stride s a padded row holds columns 0, s, 2s ... first, then 1, s + 1 ..., so that pixels of
 * a row are neighbours whatever the stride. The images of a group are padded together so that a
 * group has about GROUP_PIXELS results per channel.
 */
#ifndef SL_DEVICE_CPU_CONV2D_SOURCE_H
#define SL_DEVICE_CPU_CONV2D_SOURCE_H

#include "device/cpu/gemm_run.h"

enum { GROUP_PIXELS = 1024 };

struct conv {
    int64_t b, c, h, w, o, oh, ow; /* c, o: of all groups */
    int64_t kh, kw, stride[2], pad[2], dilation[2];
    int64_t groups, cg, og; /* channels per group */
    int64_t hp, wp;         /* of padded images */
    int64_t pixels, taps;   /* per image and channel of y; per channel of y in a group */
    int64_t images;         /* in a group of images */
};

static void conv_derive(struct conv *v) {
    v->cg = v->c / v->groups;
    v->og = v->o / v->groups;
    v->hp = v->h + 2 * v->pad[0];
    v->wp = up_to(v->w + 2 * v->pad[1], v->stride[1]);
    v->pixels = v->oh * v->ow;
    v->taps = v->cg * v->kh * v->kw;
    v->images = most(1, least(v->b, GROUP_PIXELS / v->pixels));
}

static struct conv conv_of(const union sl_attr *attr, const struct sl_shape *x,
                           const struct sl_shape *w, const struct sl_shape *y) {
    struct conv v = {
        .b = x->dim[0],
        .c = x->dim[1],
        .h = x->dim[2],
        .w = x->dim[3],
        .o = y->dim[1],
        .oh = y->dim[2],
        .ow = y->dim[3],
        .kh = w->dim[2],
        .kw = w->dim[3],
        .groups = attr[3].i,
    };
    for (int i = 0; i < 2; i++) {
        v.stride[i] = attr[0].ints.at[i];
        v.pad[i] = attr[1].ints.at[i];
        v.dilation[i] = attr[2].ints.at[i];
    }
    conv_derive(&v);
    return v;
}

struct conv_source {
    const float *x;                   /* padded images [images, cg, hp, wp] */
    const int32_t *pixel_at, *tap_at; /* [images * pixels], [taps] */
    const float *dy;                  /* conv2d_dw: first image, first channel */
    int64_t pixels, dy_step;          /* of dy: per image and channel, from image to image */
};

/* A thread's tables and its group of images. */
struct conv_room {
    int32_t *pixel_at, *tap_at;
    float *x, *gemm;
};

static int64_t conv_room_floats(const struct conv *v, int64_t m, int64_t n, int64_t k) {
    return up_to(v->images * v->pixels, 16) + up_to(v->taps, 16) +
           up_to(v->images * v->cg * v->hp * v->wp, 16) + up_to(part_floats(m, n, k), 16);
}

static struct conv_source conv_source(const struct conv_room *room) {
    return (struct conv_source){.x = room->x, .pixel_at = room->pixel_at, .tap_at = room->tap_at};
}

/* Where a column of a padded image lies in its row. */
INLINE int64_t column_at(const struct conv *v, int64_t column) {
    int64_t s = v->stride[1];
    return column % s * (v->wp / s) + column / s;
}

static struct conv_room conv_room(const struct conv *v, float *scratch) {
    struct conv_room room = {.pixel_at = (int32_t *)(void *)scratch};
    room.tap_at = room.pixel_at + up_to(v->images * v->pixels, 16);
    room.x = scratch + up_to(v->images * v->pixels, 16) + up_to(v->taps, 16);
    room.gemm = room.x + up_to(v->images * v->cg * v->hp * v->wp, 16);
    int64_t at = 0;
    for (int64_t i = 0; i < v->images; i++)
        for (int64_t r = 0; r < v->oh; r++)
            for (int64_t q = 0; q < v->ow; q++)
                room.pixel_at[at++] = (int32_t)((i * v->cg * v->hp + r * v->stride[0]) * v->wp + q);
    at = 0;
    for (int64_t c = 0; c < v->cg; c++)
        for (int64_t r = 0; r < v->kh; r++)
            for (int64_t q = 0; q < v->kw; q++)
                room.tap_at[at++] = (int32_t)((c * v->hp + r * v->dilation[0]) * v->wp +
                                              column_at(v, q * v->dilation[1]));
    return room;
}

/* One row of an image into its padded row, columns sorted by their remainder. */
INLINE void pad_row(const struct conv *v, const float *row, float *to) {
    int64_t s = v->stride[1], pad = v->pad[1];
    for (int64_t rest = 0; rest < s; rest++) {
        int64_t first = (rest - pad % s + s) % s;
        float *out = to + rest * (v->wp / s) + (first + pad) / s;
        for (int64_t q = first; q < v->w; q += s)
            *out++ = row[q];
    }
}

/* Images [from, from + count) with channels [c, c + cg) of x, with zeros around them. */
static void pad_images(const struct conv *v, const float *x, int64_t from, int64_t count, int64_t c,
                       float *to) {
    for (int64_t i = 0; i < count * v->cg; i++) {
        const float *plane = x + ((from + i / v->cg) * v->c + c + i % v->cg) * v->h * v->w;
        float *out = to + i * v->hp * v->wp;
        memset(out, 0, sizeof(float) * (size_t)(v->hp * v->wp));
        out += v->pad[0] * v->wp;
        for (int64_t r = 0; r < v->h; r++, out += v->wp, plane += v->w) {
            if (v->stride[1] == 1)
                memcpy(out + v->pad[1], plane, sizeof(float) * (size_t)v->w);
            else
                pad_row(v, plane, out);
        }
    }
}

/* A of conv2d_dw: rows are channels of dy, k runs over the pixels of several images. */
static void pack_dy(const struct gemm *g, const int64_t at[4], float *to) {
    const struct conv_source *s = g->source;
    int64_t rows = at[PACK_COUNT];
    for (int64_t k = 0, run; k < at[PACK_KC]; k += run) {
        int64_t p = at[PACK_P] + k, in_image = p % s->pixels;
        run = least(at[PACK_KC] - k, s->pixels - in_image);
        pack_turned(s->dy + p / s->pixels * s->dy_step + at[PACK_AT] * s->pixels + in_image,
                    s->pixels, rows, run, to + k * rows, rows);
    }
}

#endif
