/* A tensor as [outer, size, inner] around one axis; used by slice, concat and split. */
#ifndef SL_OP_SLICE_H
#define SL_OP_SLICE_H

#include "op/common.h"

struct sl_around {
    int64_t outer, size, inner;
};

static inline struct sl_around sl_around(const struct sl_shape *shape, int64_t axis) {
    struct sl_around a = {1, shape->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        a.outer *= shape->dim[i];
    for (int i = (int)axis + 1; i < shape->rank; i++)
        a.inner *= shape->dim[i];
    return a;
}

/* Makes the axis non-negative; fails if it contains B, because its items are not in sample
 * order. */
SL_MUST_CHECK sl_err sl_op_need_plain_axis(const struct sl_infer *infer, int input, int64_t *axis);

#endif
