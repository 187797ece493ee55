/* Resizing with a triangle filter whose support grows with the reduction, in two passes over 8-bit
 * pixels with weights of 22 fractional bits: the arithmetic of Pillow's Image.resize (BILINEAR). */
#include "image/image.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>

enum { FRACTION_BITS = 22 };

struct filter {      /* the filter of one direction */
    int taps;        /* largest number of weights of an output pixel */
    int *first;      /* [size] first input pixel of each output pixel */
    int *count;      /* [size] number of its input pixels */
    int32_t *weight; /* [size][taps] */
};

static double triangle(double x) { return fabs(x) < 1 ? 1 - fabs(x) : 0; }

/* Makes the filter that turns `in` pixels into `out` pixels. */
static void make_filter(struct filter *f, int in, int out) {
    double scale = (double)in / out, wide = scale < 1 ? 1 : scale, step = 1 / wide;
    f->taps = (int)ceil(wide) * 2 + 1;
    f->first = sl_realloc(NULL, sizeof *f->first * (size_t)out);
    f->count = sl_realloc(NULL, sizeof *f->count * (size_t)out);
    f->weight = sl_realloc(NULL, sizeof *f->weight * (size_t)out * (size_t)f->taps);
    double *w = sl_realloc(NULL, sizeof *w * (size_t)f->taps);
    for (int i = 0; i < out; i++) {
        double centre = (i + 0.5) * scale, sum = 0;
        int from = (int)(centre - wide + 0.5), to = (int)(centre + wide + 0.5);
        from = from < 0 ? 0 : from;
        to = to > in ? in : to;
        for (int k = 0; k < to - from; k++) {
            w[k] = triangle((k + from - centre + 0.5) * step);
            sum += w[k];
        }
        f->first[i] = from;
        f->count[i] = to - from;
        for (int k = 0; k < to - from; k++)
            f->weight[(int64_t)i * f->taps + k] =
                (int32_t)((sum != 0 ? w[k] / sum : w[k]) * (1 << FRACTION_BITS) + 0.5);
    }
    free(w);
}

static void free_filter(struct filter *f) {
    free(f->first);
    free(f->count);
    free(f->weight);
}

static unsigned char to_byte(int32_t sum) {
    int32_t value = sum >> FRACTION_BITS;
    return (unsigned char)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Resizes one row, whose pixels are `channels` bytes apart. */
static void resize_row(const struct filter *f, const unsigned char *in, int width, int channels,
                       unsigned char *out) {
    for (int x = 0; x < width; x++) {
        const int32_t *weight = f->weight + (int64_t)x * f->taps;
        const unsigned char *from = in + (int64_t)f->first[x] * channels;
        for (int c = 0; c < channels; c++) {
            int32_t sum = 1 << (FRACTION_BITS - 1);
            for (int k = 0; k < f->count[x]; k++)
                sum += from[k * channels + c] * weight[k];
            out[x * channels + c] = to_byte(sum);
        }
    }
}

/* Computes output row y from rows that are `stride` bytes apart. */
static void mix_rows(const struct filter *f, int y, const unsigned char *in, int64_t stride,
                     int64_t bytes, unsigned char *out) {
    const int32_t *weight = f->weight + (int64_t)y * f->taps;
    const unsigned char *from = in + f->first[y] * stride;
    for (int64_t i = 0; i < bytes; i++) {
        int32_t sum = 1 << (FRACTION_BITS - 1);
        for (int k = 0; k < f->count[y]; k++)
            sum += from[k * stride + i] * weight[k];
        out[i] = to_byte(sum);
    }
}

sl_err sl_image_resize(const struct sl_image *image, const struct sl_image_box *box, int width,
                       int height, struct sl_image *out) {
    struct sl_image narrow; /* width x box->height */
    struct filter f;
    int channels = image->channels;
    SL_TRY(sl_image_make("a resized image", width, box->height, channels, &narrow));
    make_filter(&f, box->width, width);
    int64_t stride = (int64_t)width * channels;
    for (int y = 0; y < box->height; y++)
        resize_row(&f, image->at + ((int64_t)(box->top + y) * image->width + box->left) * channels,
                   width, channels, narrow.at + y * stride);
    free_filter(&f);
    if (height == box->height) {
        *out = narrow;
        return SL_OK;
    }
    sl_err err = sl_image_make("a resized image", width, height, channels, out);
    if (err == SL_OK) {
        make_filter(&f, box->height, height);
        for (int y = 0; y < height; y++)
            mix_rows(&f, y, narrow.at, stride, stride, out->at + y * stride);
        free_filter(&f);
    }
    sl_image_free(&narrow);
    return err;
}
