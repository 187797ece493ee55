/* Pictures: PNG and JPEG files to pixels of 8 bits, resizing, and the values that a model reads.
 *
 *   bytes of a file -> sl_image_decode -> sl_image [height][width][channels] -> sl_image_resize of a part
 *                   -> sl_image_values: float [channels][height][width]
 *
 * Every function is pure. Readers take their memory after they have checked the size that a file states:
 * at most SL_IMAGE_PIXELS pixels.
 */
#ifndef SL_IMAGE_IMAGE_H
#define SL_IMAGE_IMAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_IMAGE_PIXELS = 1 << 26, SL_IMAGE_SIDE = 65535 };

struct sl_image {
    int width, height, channels; /* channels is 1 (grey) or 3 (red, green, blue) */
    unsigned char *at;           /* [height][width][channels]; sl_image_free frees it */
};

/* Decodes a file to `channels` 1 or 3. Alpha is dropped, 16 bits become the upper 8, palettes become
 * colours, grey is 0.299 R + 0.587 G + 0.114 B; an EXIF orientation is applied. CMYK is refused.
 * `name` is for messages. */
SL_MUST_CHECK sl_err sl_image_decode(const char *name, const unsigned char *bytes,
                                     int64_t size_bytes, int channels, struct sl_image *out);
void sl_image_free(struct sl_image *image);

/* Returns "png" or "jpeg", or NULL for other bytes. */
const char *sl_image_format(const unsigned char *bytes, int64_t size_bytes);
/* Returns the formats that this program can decode, for messages: "PNG and JPEG". */
const char *sl_image_formats(void);

struct sl_image_box { /* a part of an image, in whole pixels */
    int left, top, width, height;
};

/* A part of an image in another size: bilinear with a support that grows with the reduction
 * (antialiased), the bits of Pillow's Image.crop(box).resize(size, BILINEAR). */
SL_MUST_CHECK sl_err sl_image_resize(const struct sl_image *image, const struct sl_image_box *box,
                                     int width, int height, struct sl_image *out);

/* Writes the values (pixel / 255 - mean) / deviation of a part to dst [channels][height][width],
 * mirrored if `flip`. mean and deviation have one number per channel. */
struct sl_image_scale {
    float mean[3], deviation[3];
};
void sl_image_values(const struct sl_image *image, const struct sl_image_box *box, bool flip,
                     const struct sl_image_scale *scale, float *dst);

/* Private to image/: readers of one format. They give 1 or 3 channels, as the file has them,
 * without alpha. *turn is the EXIF orientation, 1 to 8. */
SL_MUST_CHECK sl_err sl_image_read_png(const char *name, const unsigned char *bytes,
                                       int64_t size_bytes, struct sl_image *out);
SL_MUST_CHECK sl_err sl_image_read_jpeg(const char *name, const unsigned char *bytes,
                                        int64_t size_bytes, struct sl_image *out, int *turn);
extern const bool sl_image_has_png, sl_image_has_jpeg;
/* Allocates the pixels; refuses sizes above the limits. */
SL_MUST_CHECK sl_err sl_image_make(const char *name, int64_t width, int64_t height, int channels,
                                   struct sl_image *out);

#endif
