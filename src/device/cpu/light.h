/* What the light kernels share: splitting, rows, shapes with their strides.
 *
 * A kernel is two functions: k_name(call) decides how to split, name_part(ctx, part, parts)
 * does a part; ctx is the call. Work below SMALL elements is not worth waking the other threads.
 * How many parts there are and who does them never changes a result: reductions have a fixed order.
 */
#ifndef SL_DEVICE_CPU_LIGHT_H
#define SL_DEVICE_CPU_LIGHT_H

#include "device/cpu/cpu.h"

enum { SMALL = 8192, GRAIN = 64 /* floats: whole cache lines */ };

typedef void part(void *ctx, int thread, int threads);

static void split(const struct sl_cpu_call *call, int64_t elements, part *body) {
    if (elements < SMALL)
        body((void *)call, 0, 1);
    else
        sl_pool_share(call->pool, body, (void *)call);
}

INLINE int64_t numel_in(const struct sl_cpu_call *call, int i) {
    return sl_graph_shape_numel(&call->instr->in[i].shape, 1);
}

INLINE int64_t numel_out(const struct sl_cpu_call *call, int i) {
    return sl_graph_shape_numel(&call->instr->out[i].shape, 1);
}

/* [..., n] as rows. */
struct rows {
    int64_t count, n;
};

static struct rows rows_of(const struct sl_shape *shape) {
    int64_t n = shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
    return (struct rows){sl_graph_shape_numel(shape, 1) / n, n};
}

/* y = v, or y += v, for a whole vector or its first n lanes. */
INLINE void put(float *y, vf v, bool add) { store(y, add ? load(y) + v : v); }

INLINE void put_part(float *y, vf v, int64_t n, bool add) {
    store_part(y, add ? load_part(y, n) + v : v, n);
}

/* Ask for `count` floats from p on; p may be outside of any object. */
INLINE void fetch(const float *p, int64_t count) {
    for (int64_t i = 0; i < count; i += 16)
        __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)i * sizeof(float)));
}

static void copy_run(float *y, const float *x, int64_t n, bool add) {
    if (!add) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return;
    }
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(y + i, load(y + i) + load(x + i));
    if (i < n)
        put_part(y + i, load_part(x + i, n - i), n - i, true);
}

static float sum_run(const float *x, int64_t n) {
    vf s[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            s[k] += load(x + i + k * LANES);
    for (; i + LANES <= n; i += LANES)
        s[0] += load(x + i);
    if (i < n)
        s[1] += load_part(x + i, n - i);
    return sum_lanes((s[0] + s[1]) + (s[2] + s[3]));
}

/* Loops over a shape with the strides of up to two tensors in it; axes that need not be told apart
 * are one, the innermost is the last. At least one axis. */
struct loops {
    int rank;
    int64_t size[SL_MAX_RANK], stride[2][SL_MAX_RANK];
};

static void loops_add(struct loops *l, int64_t size, int64_t a, int64_t b) {
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

static void loops_close(struct loops *l) {
    if (l->rank > 0)
        return;
    l->rank = 1;
    l->size[0] = l->stride[0][0] = l->stride[1][0] = 1;
}

/* Strides of a tensor that is broadcast to `wide`: 0 along the axes that it lacks. */
static void broadcast_strides(const struct sl_shape *narrow, const struct sl_shape *wide,
                              int64_t stride[SL_MAX_RANK]) {
    int64_t next = 1;
    for (int i = wide->rank - 1; i >= 0; i--) {
        int axis = i - (wide->rank - narrow->rank);
        bool has = axis >= 0 && narrow->dim[axis] == wide->dim[i];
        stride[i] = has ? next : 0;
        next *= axis >= 0 ? narrow->dim[axis] : 1;
    }
}

static struct loops broadcast_loops(const struct sl_shape *a, const struct sl_shape *b,
                                    const struct sl_shape *wide) {
    struct loops l = {0};
    int64_t stride[2][SL_MAX_RANK];
    broadcast_strides(a, wide, stride[0]);
    broadcast_strides(b, wide, stride[1]);
    for (int i = 0; i < wide->rank; i++)
        loops_add(&l, wide->dim[i], stride[0][i], stride[1][i]);
    loops_close(&l);
    return l;
}

/* Where both tensors are at position `row` of all axes but the last. */
static void loops_seek(const struct loops *l, int64_t row, int64_t offset[2]) {
    offset[0] = offset[1] = 0;
    for (int i = l->rank - 2; i >= 0; i--) {
        int64_t at = row % l->size[i];
        row /= l->size[i];
        offset[0] += at * l->stride[0][i];
        offset[1] += at * l->stride[1][i];
    }
}

#endif
