/* Synthetic sets: the generator of each input. Private to kind_synthetic.c and synth.c. */
#ifndef SL_DATA_SYNTH_H
#define SL_DATA_SYNTH_H

#include "data/source.h"

enum sl_synth_how {
    SL_SYNTH_PLAIN,    /* mask, segments, positions, row, match */
    SL_SYNTH_STREAM,   /* tokens or targets of the sequence */
    SL_SYNTH_CLASS,    /* int label: the class of the sample */
    SL_SYNTH_CODE,     /* int label of several elements: a code word for the class */
    SL_SYNTH_VALUE,    /* float label in (0, 1): a function of the latent variables */
    SL_SYNTH_DENSE,    /* label per pixel: a box that is visible in the images */
    SL_SYNTH_FLOATS,   /* float feature: the latent variables plus noise */
    SL_SYNTH_CATEGORY, /* int feature: categories that depend on the class */
};

struct sl_synth_set {
    struct sl_seq seq;
    bool has_seq, has_class, has_dense;
    bool shifts; /* the rule of the stream depends on the group */
    int64_t classes;
    int64_t pairs;          /* number of distinguishable pairs per sample (clip), or 1 */
    enum sl_synth_how *how; /* [inputs] */
    uint64_t *stream;       /* [inputs] */
};

/* The latent variables of a sample. They depend only on its number, so different workers can
 * generate different inputs of it. */
struct sl_data_synth_latent {
    int64_t group;                  /* the class, or the quadrant of z */
    float z[2];                     /* used in sets without a class */
    float top, bottom, left, right; /* edges of the box, as fractions of the image */
};

struct sl_data_synth_latent sl_data_synth_latent(const struct sl_synth_set *set, int64_t sample);

/* Each function writes the input of one sample. */
void sl_data_synth_stream(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                          const struct sl_data_ask *ask);
void sl_data_synth_floats(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                          const struct sl_data_ask *ask);
void sl_data_synth_category(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                            const struct sl_data_ask *ask);
void sl_data_synth_label(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                         const struct sl_data_ask *ask);

#endif
