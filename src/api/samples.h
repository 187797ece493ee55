/* Samples of the caller, as a data provider. */
#ifndef SL_API_SAMPLES_H
#define SL_API_SAMPLES_H

#include "data/data.h"
#include "sluice/samples.h"

struct sl_api_samples {
    struct sl_samples given;        /* its arrays are the copy below */
    struct sl_sample_array *arrays; /* [given.array_count] */
    const struct sl_data_input *inputs;
    int input_count;
    /* [inputs] array of an input; NULL: the caller's fill writes it */
    const struct sl_sample_array **of;
    struct sl_data_provider provider;
};

/* Checks and copies the struct and its list of arrays, but not their values. Do not move `out`. */
SL_MUST_CHECK sl_err sl_api_samples_open(const struct sl_samples *samples,
                                         struct sl_api_samples *out);
void sl_api_samples_close(struct sl_api_samples *samples);

/* Checks an array; `samples` < 0: it may have any number of samples. */
SL_MUST_CHECK sl_err sl_api_array_check(const struct sl_sample_array *array, int64_t samples);
/* Writes a sample of an array for an input, as float or int32_t. SL_ERR_INPUT: a value for an int
 * input is not an integer in the range of the type. */
SL_MUST_CHECK sl_err sl_api_array_fill(const struct sl_sample_array *array, int64_t sample,
                                       bool is_int, void *dst);

#endif
