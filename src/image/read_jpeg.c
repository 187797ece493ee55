/* JPEG by libjpeg-turbo: grey and YCbCr of 8 bits, baseline and progressive; the EXIF orientation. */
#include "image/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

/* These headers use FILE, so the standard headers come first. */
#include <jerror.h>
#include <jpeglib.h>

const bool sl_image_has_jpeg = true;

enum { SCANS_MAX = 128, EXIF_BYTES = 65533, TAGS_MAX = 256 };

/* Limit on work: a progressive file decodes all its pixels once per scan. */
static const int64_t work_max = (int64_t)1 << 29;

struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const char *name;
    char reason[JMSG_LENGTH_MAX];
};

static void on_error(j_common_ptr jpeg) {
    struct reader *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->reason);
    longjmp(r->back, 1);
}

/* Fails if data is missing; libjpeg would fill the gap with grey. */
static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 &&
        (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER))
        on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg) {
    struct reader *r = jpeg->client_data;
    int64_t pixels = (int64_t)r->jpeg.image_width * r->jpeg.image_height;
    int scans = r->jpeg.input_scan_number;
    if (scans > SCANS_MAX || pixels * scans > work_max) {
        snprintf(r->reason, sizeof r->reason, "%d scans of %lld pixels", scans, (long long)pixels);
        longjmp(r->back, 1);
    }
}

/* ---- EXIF: a TIFF directory ---- */

static unsigned number(const unsigned char *p, int width, bool big) {
    unsigned value = 0;
    for (int i = 0; i < width; i++)
        value = value << 8 | p[big ? i : width - 1 - i];
    return value;
}

/* Returns the orientation; 1 if there is none. */
static int orientation(const unsigned char *p, size_t size) {
    if (size < 14 || memcmp(p, "Exif\0\0", 6) != 0)
        return 1;
    p += 6;
    size -= 6;
    bool big = p[0] == 'M';
    if (p[0] != p[1] || (p[0] != 'M' && p[0] != 'I') || number(p + 2, 2, big) != 42)
        return 1;
    size_t at = number(p + 4, 4, big);
    if (at > size - 2)
        return 1;
    unsigned count = number(p + at, 2, big);
    at += 2;
    for (unsigned i = 0; i < count && i < TAGS_MAX && at + 12 <= size; i++, at += 12) {
        if (number(p + at, 2, big) != 0x0112)
            continue;
        unsigned value = number(p + at + 8, 2, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

static int find_orientation(const struct jpeg_decompress_struct *jpeg) {
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 &&
            memcmp(m->data, "Exif\0\0", 6) == 0)
            return orientation(m->data, m->data_length);
    return 1;
}

/* ---- pixels ---- */

static sl_err check_colours(const struct reader *r) {
    switch (r->jpeg.jpeg_color_space) {
    case JCS_CMYK:
    case JCS_YCCK:
        return sl_fail(SL_ERR_INPUT, "%s: a JPEG in CMYK is not read; convert it to RGB", r->name);
    case JCS_GRAYSCALE:
    case JCS_RGB:
    case JCS_YCbCr: return SL_OK;
    default:
        return sl_fail(SL_ERR_INPUT, "%s: a JPEG with %d components of unknown colours", r->name,
                       r->jpeg.num_components);
    }
}

/* All calls that libjpeg may leave by a jump. No local variable of this function is read after a
 * jump. */
static sl_err read_all(struct reader *r, const unsigned char *bytes, unsigned long size_bytes,
                       struct sl_image *out, int *turn) {
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    if (setjmp(r->back))
        return sl_fail(SL_ERR_INPUT, "%s: damaged JPEG: %s", r->name, r->reason);
    jpeg_create_decompress(jpeg);
    jpeg->progress = &r->progress;
    jpeg_mem_src(jpeg, bytes, size_bytes);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, EXIF_BYTES);
    jpeg_read_header(jpeg, TRUE);
    *turn = find_orientation(jpeg);
    SL_TRY(check_colours(r));
    bool grey = jpeg->jpeg_color_space == JCS_GRAYSCALE;
    SL_TRY(sl_image_make(r->name, jpeg->image_width, jpeg->image_height, grey ? 1 : 3, out));
    jpeg->out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = out->at + (int64_t)jpeg->output_scanline * out->width * out->channels;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_decompress(jpeg);
    return SL_OK;
}

sl_err sl_image_read_jpeg(const char *name, const unsigned char *bytes, int64_t size_bytes,
                          struct sl_image *out, int *turn) {
    struct reader r = {.name = name};
    r.jpeg.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = on_error;
    r.errors.emit_message = on_message;
    r.progress.progress_monitor = on_progress;
    r.jpeg.client_data = &r;
    sl_err err = read_all(&r, bytes, (unsigned long)size_bytes, out, turn);
    jpeg_destroy_decompress(&r.jpeg);
    if (err != SL_OK)
        sl_image_free(out);
    return err;
}
