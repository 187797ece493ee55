/* How a pointwise kernel splits its work.
 *
 * A kernel is two functions: k_NAME(call) decides whether to split, NAME_part(ctx, part, parts)
 * computes one part; ctx is the call. The number of parts and their threads never change a bit of
 * the result: reductions have a fixed order.
 */
#ifndef SL_DEVICE_CPU_POINTWISE_KERNEL_H
#define SL_DEVICE_CPU_POINTWISE_KERNEL_H

#include "device/cpu/kernels.h"

/* SMALL: a kernel with fewer elements runs on the calling thread alone, because waking others costs
 * more. GRAIN: parts begin at multiples of so many floats, which are whole cache lines. */
enum { SMALL = 8192, GRAIN = 64 };

typedef void part_fn(void *ctx, int part, int parts);

static inline void run_parts(const struct sl_device_cpu_call *call, int64_t elements,
                             part_fn *body) {
    if (elements < SMALL)
        body((void *)call, 0, 1);
    else
        sl_device_pool_share(call->pool, body, (void *)call);
}

static INLINE int64_t numel_in(const struct sl_device_cpu_call *call, int i) {
    return sl_graph_shape_numel(&call->instr->in[i].shape, 1);
}

static INLINE int64_t numel_out(const struct sl_device_cpu_call *call, int i) {
    return sl_graph_shape_numel(&call->instr->out[i].shape, 1);
}

/* Views a shape [..., n] as `count` rows of n. */
struct sl_kernel_rows {
    int64_t count, n;
};

static inline struct sl_kernel_rows rows_of(const struct sl_shape *shape) {
    int64_t n = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    return (struct sl_kernel_rows){sl_graph_shape_numel(shape, 1) / n, n};
}

#endif
