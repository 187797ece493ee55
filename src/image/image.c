/* Formats of pictures: channels, orientation, values. */
#include "image/image.h"

#include <stdlib.h>
#include <string.h>

sl_err sl_image_make(const char *name, int64_t width, int64_t height, int channels,
                     struct sl_image *out) {
    if (width < 1 || height < 1 || width > SL_IMAGE_SIDE || height > SL_IMAGE_SIDE ||
        width * height > SL_IMAGE_PIXELS)
        return sl_fail(SL_ERR_INPUT, "%s: %lld x %lld pixels; at most %d million are read", name,
                       (long long)width, (long long)height, SL_IMAGE_PIXELS >> 20);
    *out = (struct sl_image){.width = (int)width, .height = (int)height, .channels = channels};
    out->at = malloc((size_t)(width * height * channels));
    if (!out->at)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory for %lld x %lld pixels", name,
                       (long long)width, (long long)height);
    return SL_OK;
}

void sl_image_free(struct sl_image *image) {
    free(image->at);
    image->at = NULL;
}

const char *sl_image_format(const unsigned char *bytes, int64_t size_bytes) {
    static const unsigned char png[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    if (size_bytes >= 8 && memcmp(bytes, png, 8) == 0)
        return "png";
    return size_bytes >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff ? "jpeg"
                                                                                       : NULL;
}

const char *sl_image_formats(void) {
    if (sl_image_has_png && sl_image_has_jpeg)
        return "PNG and JPEG";
    return sl_image_has_png ? "PNG" : sl_image_has_jpeg ? "JPEG" : "no format";
}

/* Converts to `channels`. Grey is the luma of ITU-R 601 with 16 bits of fraction, as Pillow
 * computes it. */
static sl_err convert(const char *name, int channels, struct sl_image *image) {
    struct sl_image out;
    if (image->channels == channels)
        return SL_OK;
    SL_TRY(sl_image_make(name, image->width, image->height, channels, &out));
    int64_t pixels = (int64_t)image->width * image->height;
    for (int64_t i = 0; i < pixels; i++) {
        const unsigned char *p = image->at + i * image->channels;
        if (channels == 1)
            out.at[i] = (unsigned char)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
        else
            memset(out.at + i * 3, p[0], 3);
    }
    sl_image_free(image);
    *image = out;
    return SL_OK;
}

/* Undoes an EXIF orientation. Its bits say that the image is stored with rows and columns
 * exchanged, mirrored, or upside down. */
static sl_err orient(const char *name, int turn, struct sl_image *image) {
    static const struct {
        bool exchanged, mirror, upside;
    } bits[9] = {{0},       {0},       {0, 1, 0}, {0, 1, 1}, {0, 0, 1},
                 {1, 0, 0}, {1, 1, 0}, {1, 1, 1}, {1, 0, 1}};
    struct sl_image out;
    if (turn < 2 || turn > 8)
        return SL_OK;
    bool exchanged = bits[turn].exchanged;
    int width = exchanged ? image->height : image->width,
        height = exchanged ? image->width : image->height, channels = image->channels;
    SL_TRY(sl_image_make(name, width, height, channels, &out));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int u = bits[turn].mirror ? width - 1 - x : x,
                v = bits[turn].upside ? height - 1 - y : y;
            int64_t from =
                exchanged ? (int64_t)u * image->width + v : (int64_t)v * image->width + u;
            memcpy(out.at + ((int64_t)y * width + x) * channels, image->at + from * channels,
                   (size_t)channels);
        }
    sl_image_free(image);
    *image = out;
    return SL_OK;
}

sl_err sl_image_decode(const char *name, const unsigned char *bytes, int64_t size_bytes,
                       int channels, struct sl_image *out) {
    const char *format = sl_image_format(bytes, size_bytes);
    int turn = 1;
    *out = (struct sl_image){0};
    if (!format)
        return sl_fail(SL_ERR_INPUT, "%s: is neither PNG nor JPEG", name);
    sl_err err = format[0] == 'p' ? sl_image_read_png(name, bytes, size_bytes, out)
                                  : sl_image_read_jpeg(name, bytes, size_bytes, out, &turn);
    if (err == SL_OK)
        err = convert(name, channels, out);
    if (err == SL_OK)
        err = orient(name, turn, out);
    if (err != SL_OK)
        sl_image_free(out);
    return err;
}

void sl_image_values(const struct sl_image *image, const struct sl_image_box *box, bool flip,
                     const struct sl_image_scale *scale, float *dst) {
    int channels = image->channels;
    float table[256];
    for (int c = 0; c < channels; c++) {
        for (int v = 0; v < 256; v++)
            table[v] = ((float)v / 255.0F - scale->mean[c]) / scale->deviation[c];
        for (int y = 0; y < box->height; y++) {
            const unsigned char *row =
                image->at + ((int64_t)(box->top + y) * image->width + box->left) * channels + c;
            float *out = dst + ((int64_t)c * box->height + y) * box->width;
            for (int x = 0; x < box->width; x++)
                out[x] = table[row[(flip ? box->width - 1 - x : x) * channels]];
        }
    }
}
