/* pad, roll, flip: rows along the last axis move as contiguous runs; the other axes give the places
 * of the rows. The gradient of pad adds row by row in order; a thread owns whole items of the first
 * axis. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/lines.h"

enum { BEFORE, AFTER, MODE, VALUE };
enum { CONSTANT, REFLECT, EDGE };

/* The same function as in op/pad.c. */
static INLINE int64_t reflected(int64_t at, int64_t size, int64_t mode) {
    if (at >= 0 && at < size)
        return at;
    if (mode == CONSTANT)
        return -1;
    if (mode == EDGE)
        return at < 0 ? 0 : size - 1;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

/* Returns the row of x that a row of the padded tensor shows; -1: none. */
static int64_t pad_row(const union sl_attr *attr, const struct sl_shape *x,
                       const struct sl_shape *y, int64_t row) {
    int64_t at = 0, stride = 1;
    for (int axis = y->rank - 2; axis >= 0; axis--) {
        int64_t k = row % y->dim[axis] - attr[BEFORE].ints.at[axis];
        k = reflected(k, x->dim[axis], attr[MODE].i);
        if (k < 0)
            return -1;
        row /= y->dim[axis];
        at += k * stride;
        stride *= x->dim[axis];
    }
    return at;
}

static void put_value(float *y, int64_t n, float value, bool add) {
    for (int64_t i = 0; i < n; i++)
        y[i] = add ? y[i] + value : value;
}

static void pad_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    const struct sl_shape *xs = &call->instr->in[0].shape, *ys = &call->instr->out[0].shape;
    struct sl_kernel_rows x = rows_of(xs), y = rows_of(ys);
    int64_t before = ys->rank ? attr[BEFORE].ints.at[ys->rank - 1] : 0, from, to;
    float value = (float)attr[VALUE].f;
    sl_device_pool_range(y.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        float *out = (float *)call->out[0] + r * y.n;
        int64_t row = pad_row(attr, xs, ys, r);
        if (row < 0) {
            put_value(out, y.n, value, call->add);
            continue;
        }
        const float *in = (const float *)call->in[0] + row * x.n;
        copy_run(out + before, in, x.n, call->add);
        for (int64_t j = 0; j < y.n - x.n; j++) { /* columns of the margins */
            int64_t at = j < before ? j : j + x.n;
            int64_t k = reflected(at - before, x.n, attr[MODE].i);
            put_value(out + at, 1, k < 0 ? value : in[k], call->add);
        }
    }
}

static void k_pad(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), pad_part);
}

/* Adds rows [from, to) of dy, for one item, at their places in dx. */
static void pad_dx_rows(const struct sl_device_cpu_call *call, int64_t from, int64_t to) {
    const union sl_attr *attr = call->instr->attr;
    const struct sl_shape *xs = &call->instr->out[0].shape, *ys = &call->instr->in[0].shape;
    struct sl_kernel_rows x = rows_of(xs), y = rows_of(ys);
    int64_t before = ys->rank ? attr[BEFORE].ints.at[ys->rank - 1] : 0;
    for (int64_t r = from; r < to; r++) {
        int64_t row = pad_row(attr, xs, ys, r);
        if (row < 0)
            continue;
        const float *dy = (const float *)call->in[0] + r * y.n;
        float *dx = (float *)call->out[0] + row * x.n;
        copy_run(dx, dy + before, x.n, true);
        for (int64_t j = 0; attr[MODE].i != CONSTANT && j < y.n - x.n; j++) {
            int64_t at = j < before ? j : j + x.n;
            dx[reflected(at - before, x.n, attr[MODE].i)] += dy[at];
        }
    }
}

static void pad_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_shape *xs = &call->instr->out[0].shape, *ys = &call->instr->in[0].shape;
    bool whole = xs->rank == 0 || xs->dim[0] != ys->dim[0] || xs->rank == 1;
    int64_t items = whole ? 1 : xs->dim[0], size = numel_out(call, 0) / items;
    int64_t rows = rows_of(ys).count / items, from, to;
    sl_device_pool_range(items, 1, thread, threads, &from, &to);
    if (!call->add)
        memset((float *)call->out[0] + from * size, 0,
               (size_t)((to - from) * size) * sizeof(float));
    pad_dx_rows(call, from * rows, to * rows);
}

static void k_pad_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), pad_dx_part);
}

/* ---- roll and flip ---- */

static int64_t shift_along(const struct sl_ints *shift, const struct sl_ints *axes, int axis,
                           int64_t size) {
    int64_t sum = 0;
    for (int a = 0; shift && a < axes->count; a++)
        sum += axes->at[a] == axis ? shift->at[a] : 0;
    return sum % size;
}

static bool turns(const struct sl_ints *axes, int axis) {
    bool odd = false;
    for (int a = 0; a < axes->count; a++)
        odd ^= axes->at[a] == axis;
    return odd;
}

static INLINE void move_part(void *ctx, int thread, int threads, bool roll) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    const struct sl_ints *shift = roll ? &attr[0].ints : NULL, *axes = &attr[roll ? 1 : 0].ints;
    const struct sl_shape *shape = &call->instr->in[0].shape;
    struct sl_kernel_rows rows = rows_of(shape);
    int last = shape->rank - 1;
    int64_t by = last >= 0 ? shift_along(shift, axes, last, rows.n) : 0, from, to;
    bool turned = !roll && last >= 0 && turns(axes, last);
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        int64_t rest = r, at = 0, stride = 1;
        for (int axis = last - 1; axis >= 0; axis--) {
            int64_t size = shape->dim[axis], k = rest % size;
            rest /= size;
            if (roll)
                k = (k - shift_along(shift, axes, axis, size) + size) % size;
            else if (turns(axes, axis))
                k = size - 1 - k;
            at += k * stride;
            stride *= size;
        }
        float *y = (float *)call->out[0] + r * rows.n;
        const float *x = (const float *)call->in[0] + at * rows.n;
        for (int64_t j = 0; turned && j < rows.n; j++)
            y[j] = (call->add ? y[j] : 0) + x[rows.n - 1 - j];
        if (turned)
            continue;
        copy_run(y + by, x, rows.n - by, call->add);
        copy_run(y, x + rows.n - by, by, call->add);
    }
}

static void roll_part(void *ctx, int thread, int threads) { move_part(ctx, thread, threads, true); }
static void flip_part(void *ctx, int thread, int threads) {
    move_part(ctx, thread, threads, false);
}

static void k_roll(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), roll_part);
}
static void k_flip(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), flip_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(pad_kernels)[] = {
    {"flip", k_flip, NULL},
    {"pad", k_pad, NULL},
    {"pad_dx", k_pad_dx, NULL},
    {"roll", k_roll, NULL},
    {0},
};
