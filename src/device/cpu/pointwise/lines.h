/* Views a tensor as [outer, size, inner] around one axis. */
#ifndef SL_DEVICE_CPU_POINTWISE_LINES_H
#define SL_DEVICE_CPU_POINTWISE_LINES_H

#include "device/cpu/pointwise/runs.h"

struct sl_lines {
    int64_t outer, size, inner;
};

static inline struct sl_lines lines_of(const struct sl_shape *shape, int64_t axis) {
    struct sl_lines l = {1, shape->dim[axis], 1};
    for (int i = 0; i < shape->rank; i++)
        if (i != axis)
            *(i < axis ? &l.outer : &l.inner) *= shape->dim[i];
    return l;
}

#endif
