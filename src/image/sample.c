/* From a picture to a sample: resize, crop, mirror, scale. The random choices of a sample depend on the
 * seed and on the number of the sample in the run, so resuming and other layouts repeat them. */
#include "image/sample.h"

#include "base/rng.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t stream = 0x70696374; /* "pict" */

/* ---- options ---- */

static const struct sl_image_scale imagenet = {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}},
                                   grey = {{0.45F}, {0.225F}};

/* "a" for all channels, or "a/b/c". */
static sl_err read_values(const char *text, const char *key, int channels, float least,
                          float *out) {
    char part[64];
    int count = 1;
    for (const char *at = text; *at; at++)
        count += *at == '/';
    if (count != 1 && count != channels)
        return sl_fail(SL_ERR_USAGE, "%s: expected one value or %d, separated by /", key, channels);
    for (int c = 0; c < channels; c++) {
        double value;
        size_t length = strcspn(text, "/");
        snprintf(part, sizeof part, "%.*s", (int)(length < 60 ? length : 60), text);
        SL_TRY(sl_parse_double(part, key, &value));
        if (!(fabs(value) < 1e6) || value < (double)least)
            return sl_fail(SL_ERR_USAGE, "%s: %s is out of range", key, part);
        out[c] = (float)value;
        text += text[length] ? length + 1 : 0;
    }
    return SL_OK;
}

static sl_err read_crop(const char *value, struct sl_image_options *out) {
    static const char *const names[] = {"centre", "random", "scaled"};
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(value, names[i]) == 0) {
            out->crop = (enum sl_image_crop)i;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "`images`: crop is centre, random or scaled, not '%s'", value);
}

enum key { CROP, FLIP, MEAN, RESIZE, STD };

static sl_err read_key(const char *name, enum key *out) {
    static const char *const names[] = {"crop", "flip", "mean", "resize", "std"};
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum key)i;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "`images`: unknown '%s'; known: crop, flip, mean, resize, std",
                   name);
}

static sl_err read_option(const char *name, const char *value, int channels,
                          struct sl_image_options *out) {
    int64_t number;
    enum key key = CROP;
    SL_TRY(read_key(name, &key));
    if (key == CROP)
        return read_crop(value, out);
    if (key == MEAN)
        return read_values(value, "images mean", channels, -1e6F, out->scale.mean);
    if (key == STD)
        return read_values(value, "images std", channels, 1e-6F, out->scale.deviation);
    SL_TRY(sl_parse_int(value, name, &number));
    if (number < 0 || number > (key == RESIZE ? 16384 : 1))
        return sl_fail(SL_ERR_USAGE, "`images`: %s=%s is out of range", name, value);
    if (key == RESIZE)
        out->resize = (int)number;
    else
        out->flip = number;
    return SL_OK;
}

sl_err sl_image_options_read(const char *text, int channels, int width, int height,
                             struct sl_image_options *out) {
    char item[256];
    *out = (struct sl_image_options){.scale = channels == 1 ? grey : imagenet};
    while (text && *text) {
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < 255 ? length : 255), text);
        text += length + (text[length] == ',');
        char *value = strchr(item, '=');
        if (!value)
            return sl_fail(SL_ERR_USAGE, "`images`: expected KEY=VALUE,..., found '%s'", item);
        *value = 0;
        SL_TRY(read_option(item, value + 1, channels, out));
    }
    if (out->resize && (out->resize < width || out->resize < height))
        return sl_fail(SL_ERR_USAGE,
                       "`images`: resize=%d is less than the input of the model, %d x %d",
                       out->resize, height, width);
    return SL_OK;
}

/* ---- samples ---- */

static double uniform(const struct sl_image_draw *draw, int i) {
    return sl_rng_uniform(draw->seed, stream + (uint64_t)i, draw->draw);
}

static int below(const struct sl_image_draw *draw, int i, int count) {
    return (int)sl_rng_below(draw->seed, stream + (uint64_t)i, draw->draw, count);
}

/* Returns half of a difference, rounded to even as in Python. */
static int half(int difference) { return difference / 2 + (difference % 4 == 3); }

/* Chooses a part with 8 to 100 % of the area; after ten tries, the largest centred part (Szegedy et
 * al. 2015; torchvision's RandomResizedCrop). */
static struct sl_image_box scaled_box(const struct sl_image *image,
                                      const struct sl_image_draw *draw) {
    enum { TRIES = 10 };
    double area = (double)image->width * image->height, wide = log(4.0 / 3);
    struct sl_image_box box;
    for (int i = 0; i < TRIES; i++) {
        double part = area * (0.08 + 0.92 * uniform(draw, 10 + i)),
               shape = exp(wide * (2 * uniform(draw, 30 + i) - 1));
        box.width = (int)lrint(sqrt(part * shape));
        box.height = (int)lrint(sqrt(part / shape));
        if (box.width < 1 || box.height < 1 || box.width > image->width ||
            box.height > image->height)
            continue;
        box.top = below(draw, 50 + i, image->height - box.height + 1);
        box.left = below(draw, 70 + i, image->width - box.width + 1);
        return box;
    }
    box = (struct sl_image_box){0, 0, image->width, image->height};
    if (3 * image->width > 4 * image->height)
        box.width = (int)lrint(image->height * 4.0 / 3);
    else if (4 * image->width < 3 * image->height)
        box.height = (int)lrint(image->width * 4.0 / 3);
    box.width = box.width > image->width ? image->width : box.width;
    box.height = box.height > image->height ? image->height : box.height;
    box.top = (image->height - box.height) / 2;
    box.left = (image->width - box.width) / 2;
    return box;
}

/* Computes the size after resizing: the short side is `resize`, or the picture just covers the
 * input. */
static void whole_size(const struct sl_image_options *o, const struct sl_image *image, int width,
                       int height, int *new_width, int *new_height) {
    int64_t w = image->width, h = image->height, side = o->resize;
    bool by_width = side ? w <= h : w * height <= h * width;
    if (by_width) {
        *new_width = (int)(side ? side : width);
        int64_t other = *new_width * h / w;
        *new_height = (int)(other < height ? height : other);
    } else {
        *new_height = (int)(side ? side : height);
        int64_t other = *new_height * w / h;
        *new_width = (int)(other < width ? width : other);
    }
}

sl_err sl_image_sample(const struct sl_image_options *o, const struct sl_image *image,
                       const struct sl_image_draw *draw, int width, int height, float *dst) {
    struct sl_image_box from = {0, 0, image->width, image->height}, part = {0, 0, width, height};
    struct sl_image small;
    int w = width, h = height;
    bool scaled = draw->vary && o->crop == SL_CROP_SCALED;
    if (scaled)
        from = scaled_box(image, draw);
    else
        whole_size(o, image, width, height, &w, &h);
    SL_TRY(sl_image_resize(image, &from, w, h, &small));
    bool moved = draw->vary && o->crop == SL_CROP_RANDOM;
    part.top = moved ? below(draw, 0, h - height + 1) : half(h - height);
    part.left = moved ? below(draw, 1, w - width + 1) : half(w - width);
    bool flip = draw->vary && o->flip && below(draw, 2, 2);
    sl_image_values(&small, &part, flip, &o->scale, dst);
    sl_image_free(&small);
    return SL_OK;
}
