/* How pictures become samples: size, part, mirror, scale. */
#ifndef SL_IMAGE_SAMPLE_H
#define SL_IMAGE_SAMPLE_H

#include "image/image.h"

enum sl_image_crop {
    SL_CROP_CENTRE, /* the centre of the resized picture */
    SL_CROP_RANDOM, /* any place of the resized picture */
    SL_CROP_SCALED  /* 8 to 100 % of the area, 3:4 to 4:3, resized to the size of the input */
};

struct sl_image_options {
    int resize; /* length of the short side; 0: the picture just covers the input */
    enum sl_image_crop crop;
    bool flip; /* mirror every other sample, at random */
    struct sl_image_scale scale;
};

/* Reads options such as "resize=256,crop=random,flip=1,mean=0.5/0.5/0.5,std=0.5". `width` and
 * `height` are those of the input. */
SL_MUST_CHECK sl_err sl_image_options_read(const char *text, int channels, int width, int height,
                                           struct sl_image_options *out);

/* Which sample to make: number `draw` of the run with this seed. vary: crop and mirror at random, as
 * in training; false: the centre, not mirrored. */
struct sl_image_draw {
    uint64_t seed, draw;
    bool vary;
};
SL_MUST_CHECK sl_err sl_image_sample(const struct sl_image_options *options,
                                     const struct sl_image *image, const struct sl_image_draw *draw,
                                     int width, int height, float *dst);

#endif
