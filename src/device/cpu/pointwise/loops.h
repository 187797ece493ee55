/* Nested loops over a shape, with the strides of up to two tensors.
 *
 * Neighbouring axes are merged if one stride covers both. There is at least one axis, and the
 * innermost axis comes last.
 */
#ifndef SL_DEVICE_CPU_POINTWISE_LOOPS_H
#define SL_DEVICE_CPU_POINTWISE_LOOPS_H

#include "device/cpu/kernels.h"

struct sl_kernel_loops {
    int rank;
    int64_t size[SL_MAX_RANK], stride[2][SL_MAX_RANK];
};

static inline void loops_add(struct sl_kernel_loops *l, int64_t size, int64_t a, int64_t b) {
    int last = l->rank - 1;
    if (size == 1)
        return;
    if (last >= 0 && l->stride[0][last] == a * size && l->stride[1][last] == b * size) {
        l->size[last] *= size;
        l->stride[0][last] = a;
        l->stride[1][last] = b;
        return;
    }
    l->size[l->rank] = size;
    l->stride[0][l->rank] = a;
    l->stride[1][l->rank] = b;
    l->rank++;
}

static inline void loops_close(struct sl_kernel_loops *l) {
    if (l->rank > 0)
        return;
    l->rank = 1;
    l->size[0] = l->stride[0][0] = l->stride[1][0] = 1;
}

/* Computes the strides of a tensor that is broadcast to `wide`: 0 along the axes that it lacks. */
static inline void broadcast_strides(const struct sl_shape *narrow, const struct sl_shape *wide,
                                     int64_t stride[SL_MAX_RANK]) {
    int64_t next = 1;
    for (int i = wide->rank - 1; i >= 0; i--) {
        int axis = i - (wide->rank - narrow->rank);
        bool has = axis >= 0 && narrow->dim[axis] == wide->dim[i];
        stride[i] = has ? next : 0;
        next *= axis >= 0 ? narrow->dim[axis] : 1;
    }
}

static inline struct sl_kernel_loops
broadcast_loops(const struct sl_shape *a, const struct sl_shape *b, const struct sl_shape *wide) {
    struct sl_kernel_loops l = {0};
    int64_t stride[2][SL_MAX_RANK];
    broadcast_strides(a, wide, stride[0]);
    broadcast_strides(b, wide, stride[1]);
    for (int i = 0; i < wide->rank; i++)
        loops_add(&l, wide->dim[i], stride[0][i], stride[1][i]);
    loops_close(&l);
    return l;
}

/* Computes the offsets of both tensors for row `row`, which counts over all axes but the last. */
static inline void loops_seek(const struct sl_kernel_loops *l, int64_t row, int64_t offset[2]) {
    offset[0] = offset[1] = 0;
    for (int i = l->rank - 2; i >= 0; i--) {
        int64_t at = row % l->size[i];
        row /= l->size[i];
        offset[0] += at * l->stride[0][i];
        offset[1] += at * l->stride[1][i];
    }
}

#endif
