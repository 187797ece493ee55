/* Samples for training and prediction: arrays in the memory of the program, or a callback. */
#ifndef SLUICE_SAMPLES_H
#define SLUICE_SAMPLES_H

#include "sluice/err.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sl_array_type {
    SL_ARRAY_F32,
    SL_ARRAY_F64,
    SL_ARRAY_U8,
    SL_ARRAY_I16,
    SL_ARRAY_U16,
    SL_ARRAY_I32,
    SL_ARRAY_I64,
};

/* The values of one input of a model, sample after sample. The library reads them in place. */
struct sl_sample_array {
    const char *input; /* name of the input in the model */
    enum sl_array_type type;
    const void *at;
    int64_t samples, values; /* number of samples, and of values in one sample */
    int64_t stride_bytes;    /* from one sample to the next; 0: samples are contiguous */
};

/* Writes one input of one sample: `values` numbers, float, or int32_t if the input is an integer. A
 * result other than 0 ends the training with SL_ERR_INPUT. Several threads may call it at once, and
 * more than once for a sample; it must give a sample the same values each time. */
typedef int (*sl_samples_fill)(void *ctx, int64_t sample, const char *input, void *out,
                               int64_t values);

/* A data set. Set `size`; later versions add fields at the end. The library shuffles, splits and
 * counts the samples as it does for files, and a resumed run continues at its position in them. */
struct sl_samples {
    size_t size;   /* sizeof(struct sl_samples) */
    int64_t count; /* samples including those for validation; 0: as many as the arrays have */
    const struct sl_sample_array *arrays; /* one array per input; NULL: `fill` writes all inputs */
    int array_count;
    int in_order; /* not 0: training reads them in ascending order in every epoch */
    sl_samples_fill fill;
    void *ctx;            /* passed to fill */
    uint64_t fingerprint; /* the same in a resumed run; 0: hash of the arrays, or of count */
};

#ifdef __cplusplus
}
#endif

#endif
