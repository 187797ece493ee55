/* The set of arrays of NumPy and the inputs that read them. Private to kind_npy.c and npy_bind.c. */
#ifndef SL_DATA_NPY_SET_H
#define SL_DATA_NPY_SET_H

#include "base/vec.h"
#include "data/npy.h"
#include "data/source.h"

struct sl_npy_source { /* the source of one input */
    const struct sl_npy *array;
    bool channels_last; /* the array is [N,H,W,C] and the input [B,C,H,W] */
    int64_t skip;       /* number of values in a sample before those of the input */
    int64_t size;       /* number of values in a sample */
};

struct sl_npy_set {
    struct sl_token_set tokens; /* must be first: the set of windows, if is_text */
    bool is_text;
    SL_VEC(struct sl_npy) arrays;
    SL_VEC(void *) memory;        /* memory of inflated and loaded arrays */
    bool *used;                   /* [arrays] */
    struct sl_npy_source *source; /* [inputs] array NULL: the input's name tells its content */
};

/* Chooses the array of every input, checks shapes and sets data->total. */
SL_MUST_CHECK sl_err sl_data_npy_bind(struct sl_data *data, struct sl_npy_set *set);
/* Is this one array [N] of integers, for a model of tokens? */
bool sl_data_npy_is_text(const struct sl_data *data, const struct sl_npy_set *set);
/* Writes "x f4[10,3]". */
void sl_data_npy_put_shape(struct sl_text *text, const struct sl_npy *array);

#endif
