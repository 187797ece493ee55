/* PNG by libpng: every colour type and depth to grey or colours of 8 bits. */
#include "image/image.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

const bool sl_image_has_png = true;

enum { CHUNK_BYTES = 8 << 20, CHUNKS = 64 };

/* Decompressing more takes longer than a second. */
static const int64_t raw_max = (int64_t)256 << 20;

struct source {
    const char *name;
    const unsigned char *at;
    size_t left;
    char reason[200];
};

static void read_bytes(png_structp png, png_bytep out, size_t count) {
    struct source *source = png_get_io_ptr(png);
    if (count > source->left)
        png_error(png, "the file ends early");
    memcpy(out, source->at, count);
    source->at += count;
    source->left -= count;
}

static void on_error(png_structp png, png_const_charp message) {
    struct source *source = png_get_error_ptr(png);
    size_t length = strlen(message);
    length = length < sizeof source->reason - 1 ? length : sizeof source->reason - 1;
    memcpy(source->reason, message, length);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

/* Makes libpng convert palettes, grey of few bits and 16-bit values to 8 bits, and drop alpha. */
static void set_transforms(png_structp png, png_infop info) {
    int colour = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
    if (depth == 16)
        png_set_strip_16(png);
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(png);
    if (colour & PNG_COLOR_MASK_ALPHA || colour == PNG_COLOR_TYPE_PALETTE)
        png_set_strip_alpha(png);
    png_set_interlace_handling(png);
}

/* All calls that libpng may leave by a jump. No local variable of this function is read after a
 * jump. */
static sl_err read_all(png_structp png, png_infop info, struct source *source, struct sl_image *out,
                       png_bytep **rows) {
    if (setjmp(png_jmpbuf(png)))
        return sl_fail(SL_ERR_INPUT, "%s: damaged PNG: %s", source->name, source->reason);
    png_read_info(png, info);
    if ((int64_t)png_get_rowbytes(png, info) > raw_max / png_get_image_height(png, info))
        return sl_fail(SL_ERR_INPUT, "%s: a PNG of more than 256 MiB of pixels", source->name);
    set_transforms(png, info);
    int colour = png_get_color_type(png, info);
    int channels = colour == PNG_COLOR_TYPE_GRAY || colour == PNG_COLOR_TYPE_GRAY_ALPHA ? 1 : 3;
    int64_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    SL_TRY(sl_image_make(source->name, width, height, channels, out));
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != (size_t)(width * channels))
        return sl_fail(SL_ERR_INPUT, "%s: a PNG with an unknown form of pixels", source->name);
    *rows = calloc((size_t)height, sizeof **rows);
    if (!*rows)
        return sl_fail(SL_ERR_SYSTEM, "%s: no memory for its rows", source->name);
    for (int64_t y = 0; y < height; y++)
        (*rows)[y] = out->at + y * width * channels;
    png_read_image(png, *rows);
    png_read_end(png, NULL);
    return SL_OK;
}

sl_err sl_image_read_png(const char *name, const unsigned char *bytes, int64_t size_bytes,
                         struct sl_image *out) {
    struct source source = {.name = name, .at = bytes, .left = (size_t)size_bytes};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    png_bytep *rows = NULL;
    sl_err err = SL_OK;
    if (!info)
        err = sl_fail(SL_ERR_SYSTEM, "%s: no memory to decode it", name);
    if (err == SL_OK) {
        png_set_read_fn(png, &source, read_bytes);
        png_set_user_limits(png, SL_IMAGE_SIDE, SL_IMAGE_SIDE);
        png_set_chunk_malloc_max(png, CHUNK_BYTES);
        png_set_chunk_cache_max(png, CHUNKS);
        png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_DEFAULT);
        err = read_all(png, info, &source, out, &rows);
    }
    png_destroy_read_struct(png ? &png : NULL, info ? &info : NULL, NULL);
    free(rows);
    if (err != SL_OK)
        sl_image_free(out);
    return err;
}
