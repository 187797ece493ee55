/* Convolutions as matrix products whose factors are never stored: sizes, and packing from images.
 *
 *   y [O, pixels] = w [O, taps] x_at [taps, pixels]     a tap is a channel, row and column of
 *     the kernel
 *
 * x_at[tap][pixel] = x[tap_at[tap] + pixel_at[pixel]] in padded images. With stride s a padded row
 * holds columns 0, s, 2s ... first, then 1, s + 1 ..., so pixels of a row are neighbours for any
 * stride. The images of a group are padded together; a group has about GROUP_PIXELS results per
 * channel. */
#ifndef SL_DEVICE_CPU_PRODUCT_CONV2D_H
#define SL_DEVICE_CPU_PRODUCT_CONV2D_H

#include "device/cpu/product/gemm.h"
#include "device/cpu/sizes.h"

struct sl_conv {
    int64_t b, c, h, w, o, oh, ow; /* c and o are the channels of all groups */
    int64_t kh, kw, stride[2], pad[2], dilation[2];
    int64_t groups, cg, og; /* cg and og are the channels per group */
    int64_t hp, wp;         /* height and width of padded images */
    /* pixels of y per image and channel; taps that one channel of y sums in its group */
    int64_t pixels, taps;
    int64_t images; /* number of images that are padded together */
};

struct sl_conv_source {
    const float *x;                   /* padded images [images, cg, hp, wp] */
    const int32_t *pixel_at, *tap_at; /* [images * pixels], [taps] */
    const float *dy;                  /* for conv2d_dw: its first image and first channel */
    /* pixels of dy per image and channel; floats from one image to the next */
    int64_t pixels, dy_step;
};

/* Memory of one thread: the tables and a group of padded images. */
struct sl_conv_room {
    int32_t *pixel_at, *tap_at;
    float *x, *gemm;
};

/* A convolution of x with w, whose work is divided over the pool. */
struct sl_conv_job {
    struct sl_conv v;
    struct sl_device_pool *pool;
    const float *x, *w, *bias; /* w: [groups * og, taps] */
    float *y;
    bool add;
    float *scratch;
    int64_t scratch_step;
};

#define conv_derive SL_ISA_NAME(conv_derive)
#define conv_floats SL_ISA_NAME(conv_floats)
#define conv_of SL_ISA_NAME(conv_of)
#define conv_pack_dy SL_ISA_NAME(conv_pack_dy)
#define conv_pack_pixels SL_ISA_NAME(conv_pack_pixels)
#define conv_pack_taps SL_ISA_NAME(conv_pack_taps)
#define conv_pad_images SL_ISA_NAME(conv_pad_images)
#define conv_room_floats SL_ISA_NAME(conv_room_floats)
#define conv_room_open SL_ISA_NAME(conv_room_open)
#define conv_run SL_ISA_NAME(conv_run)

struct sl_conv conv_of(const union sl_attr *attr, const struct sl_shape *x,
                       const struct sl_shape *w, const struct sl_shape *y);
/* Computes the members from `cg` on from those before. */
void conv_derive(struct sl_conv *v);

/* Lays out scratch and fills the tables. Scratch has conv_room_floats floats, for products of m x n
 * over k. */
struct sl_conv_room conv_room_open(const struct sl_conv *v, float *scratch);
int64_t conv_room_floats(const struct sl_conv *v, int64_t m, int64_t n, int64_t k);
/* Copies images [from, from + count), with channels [c, c + cg) of x, and pads them with zeros. */
void conv_pad_images(const struct sl_conv *v, const float *x, int64_t from, int64_t count,
                     int64_t c, float *to);

static inline struct sl_conv_source conv_source_of(const struct sl_conv_room *room) {
    return (struct sl_conv_source){
        .x = room->x, .pixel_at = room->pixel_at, .tap_at = room->tap_at};
}

/* A pack_fn of gemm.h for the B of conv2d: pixels lie along the lanes. */
void conv_pack_pixels(const struct sl_gemm_spec *g, const int64_t at[4], float *to);
/* The same for the B of conv2d_dw: taps lie along the lanes, k runs over pixels. */
void conv_pack_taps(const struct sl_gemm_spec *g, const int64_t at[4], float *to);
/* The same for the A of conv2d_dw: rows are channels of dy, k runs over the pixels of several
 * images. */
void conv_pack_dy(const struct sl_gemm_spec *g, const int64_t at[4], float *to);

/* Runs a convolution; `scratch` has conv_floats floats per thread. */
void conv_run(struct sl_conv_job *job);
int64_t conv_floats(const struct sl_conv *v, int threads);

#endif
