/* Ops that only move elements: reshape, identity, slice, slice_dx, split, concat, transpose.
 * Elements are 4 bytes, float or int; only floats are added. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/loops.h"
#include "device/cpu/pointwise/runs.h"

#include <string.h>

static void copy_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    if (call->out[0] != call->in[0] || call->add)
        copy_run((float *)call->out[0] + from, (const float *)call->in[0] + from, to - from,
                 call->add);
}

static void k_copy(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), copy_part);
}

/* Views a tensor as rows around one axis: [outer, size x inner]. */
static struct sl_kernel_rows around(const struct sl_shape *shape, int64_t axis) {
    struct sl_kernel_rows a = {1, 1};
    for (int i = 0; i < shape->rank; i++)
        *(i < axis ? &a.count : &a.n) *= shape->dim[i];
    return a;
}

static int64_t inner_of(const struct sl_shape *shape, int64_t axis) {
    int64_t inner = 1;
    for (int i = (int)axis + 1; i < shape->rank; i++)
        inner *= shape->dim[i];
    return inner;
}

enum { SLICE_AXIS, SLICE_FROM };

static void slice_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    const struct sl_shape *shape = &call->instr->in[0].shape;
    struct sl_kernel_rows x = around(shape, attr[SLICE_AXIS].i);
    int64_t n = numel_out(call, 0) / x.count;
    int64_t first = attr[SLICE_FROM].i * inner_of(shape, attr[SLICE_AXIS].i), from, to;
    sl_device_pool_range(x.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++)
        copy_run((float *)call->out[0] + r * n, (const float *)call->in[0] + r * x.n + first, n,
                 call->add);
}

static void k_slice(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), slice_part);
}

static void slice_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const union sl_attr *attr = call->instr->attr;
    const struct sl_shape *shape = &call->instr->out[0].shape;
    struct sl_kernel_rows dx = around(shape, attr[SLICE_AXIS].i);
    int64_t n = numel_in(call, 0) / dx.count;
    int64_t first = attr[SLICE_FROM].i * inner_of(shape, attr[SLICE_AXIS].i), from, to;
    sl_device_pool_range(dx.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        float *row = (float *)call->out[0] + r * dx.n;
        if (!call->add) {
            memset(row, 0, (size_t)first * sizeof *row);
            memset(row + first + n, 0, (size_t)(dx.n - first - n) * sizeof *row);
        }
        copy_run(row + first, (const float *)call->in[0] + r * n, n, call->add);
    }
}

static void k_slice_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), slice_dx_part);
}

static void split_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows x = around(&call->instr->in[0].shape, call->instr->attr[SLICE_AXIS].i);
    int64_t n = x.n / call->instr->out_count, from, to;
    sl_device_pool_range(x.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++)
        for (int i = 0; i < call->instr->out_count; i++)
            if (call->out[i])
                copy_run((float *)call->out[i] + r * n,
                         (const float *)call->in[0] + r * x.n + i * n, n, false);
}

static void k_split(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), split_part);
}

static void concat_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t axis = call->instr->attr[0].i, from, to, first = 0;
    struct sl_kernel_rows y = around(&call->instr->out[0].shape, axis);
    sl_device_pool_range(y.count, 1, thread, threads, &from, &to);
    for (int i = 0; i < call->instr->in_count; i++) {
        struct sl_kernel_rows x = around(&call->instr->in[i].shape, axis);
        for (int64_t r = from; r < to; r++)
            copy_run((float *)call->out[0] + r * y.n + first, (const float *)call->in[i] + r * x.n,
                     x.n, call->add);
        first += x.n;
    }
}

static void k_concat(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), concat_part);
}

/* ---- transpose ----
 *
 * Loops over the axes of y, with strides in x and in y. If both have the same innermost axis, rows
 * are copied. Else the innermost axes of x and of y span planes, which are transposed in tiles. */
enum { TILE = 16 };

struct turn {
    struct sl_kernel_loops l; /* stride[0] is in x, stride[1] in y */
    int axis;                 /* axis of y that has stride 1 in x; l.rank - 1: rows are copied */
    int64_t planes;
};

static struct turn turn_of(const struct sl_device_cpu_call *call) {
    const struct sl_shape *x = &call->instr->in[0].shape;
    struct turn t = {.planes = 1};
    int64_t stride[SL_MAX_RANK], next = 1, left = numel_in(call, 0);
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= x->dim[i];
    }
    for (int i = 0; i < x->rank; i++) {
        int64_t from = call->instr->attr[0].ints.at[i];
        left /= x->dim[from];
        loops_add(&t.l, x->dim[from], stride[from], left);
    }
    loops_close(&t.l);
    for (int i = 0; i < t.l.rank; i++)
        if (t.l.stride[0][i] == 1)
            t.axis = i;
    for (int i = 0; i < t.l.rank - 1; i++)
        t.planes *= i == t.axis ? 1 : t.l.size[i];
    return t;
}

/* y[i][j] = x[j][i] for one tile. stride[0] is that of j in x, stride[1] that of i in y. */
static INLINE void turn_tile(float *y, const float *x, const int64_t stride[2], int64_t rows,
                             int64_t cols, bool add) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            y[i * stride[1] + j] = (add ? y[i * stride[1] + j] : 0) + x[j * stride[0] + i];
}

static void turn_plane(float *y, const float *x, const struct turn *t, bool add) {
    int last = t->l.rank - 1;
    int64_t rows = t->l.size[t->axis], cols = t->l.size[last];
    int64_t stride[2] = {t->l.stride[0][last], t->l.stride[1][t->axis]};
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < cols; j += TILE) {
            int64_t r = rows - i < TILE ? rows - i : TILE, c = cols - j < TILE ? cols - j : TILE;
            float *to = y + i * stride[1] + j;
            const float *from = x + j * stride[0] + i;
            if (r == TILE && c == TILE && !add)
                turn_tile(to, from, stride, TILE, TILE, false);
            else
                turn_tile(to, from, stride, r, c, add);
        }
}

static void transpose_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct turn t = turn_of(call);
    int last = t.l.rank - 1;
    int64_t from, to;
    sl_device_pool_range(t.planes, 1, thread, threads, &from, &to);
    for (int64_t p = from; p < to; p++) {
        int64_t rest = p, at[2] = {0};
        for (int i = last - 1; i >= 0; i--) {
            if (i == t.axis)
                continue;
            at[0] += rest % t.l.size[i] * t.l.stride[0][i];
            at[1] += rest % t.l.size[i] * t.l.stride[1][i];
            rest /= t.l.size[i];
        }
        float *y = (float *)call->out[0] + at[1];
        const float *x = (const float *)call->in[0] + at[0];
        if (t.axis == last)
            copy_run(y, x, t.l.size[last], call->add);
        else
            turn_plane(y, x, &t, call->add);
    }
}

static void k_transpose(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), transpose_part);
}

/* ---- rows of caches and of positions (decode/ops.h) ---- */

/* Views an operand [.., axis, ..] as [b][before][rows][after]. */
struct view {
    int64_t b, before, rows, after;
};

static struct view view_of(const struct sl_shape *shape, int64_t axis, bool has_batch) {
    struct view v = {1, 1, shape->dim[axis], 1};
    for (int64_t k = 0; k < axis; k++)
        *(k == 0 && has_batch ? &v.b : &v.before) *= shape->dim[k];
    for (int64_t k = axis + 1; k < shape->rank; k++)
        v.after *= shape->dim[k];
    return v;
}

/* x [B,..,T,..] or [..,T,..], past [B] -> y [B,..,N,..] */
static void decode_rows(const struct sl_device_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    bool own = instr->in[0].shape.rank == instr->out[0].shape.rank;
    int64_t axis = instr->attr[0].i;
    struct view x = view_of(&instr->in[0].shape, axis, own),
                y = view_of(&instr->out[0].shape, axis + !own, true);
    const int32_t *past = call->in[1];
    for (int64_t b = 0; b < y.b; b++)
        for (int64_t o = 0; o < y.before; o++)
            for (int64_t r = 0; r < y.rows; r++) {
                int64_t row = past[b] + r < x.rows ? past[b] + r : x.rows - 1;
                const int32_t *from = (const int32_t *)call->in[0] +
                                      (((own ? b : 0) * x.before + o) * x.rows + row) * x.after;
                int32_t *to = (int32_t *)call->out[0] + ((b * y.before + o) * y.rows + r) * y.after;
                memcpy(to, from, sizeof *to * (size_t)y.after);
            }
}

/* x [B,N,..], last [B] -> y [B,1,..] */
static void decode_pick(const struct sl_device_cpu_call *call) {
    struct view x = view_of(&call->instr->in[0].shape, 1, true);
    const int32_t *last = call->in[1];
    for (int64_t b = 0; b < x.b; b++)
        memcpy((float *)call->out[0] + b * x.after,
               (const float *)call->in[0] + (b * x.rows + last[b]) * x.after,
               sizeof(float) * (size_t)x.after);
}

/* Copies rows of x, which may be parts of wider rows, into the cache in place. */
static void decode_put(const struct sl_device_cpu_call *call) {
    const struct sl_operand *from = &call->instr->in[1];
    int64_t length = call->instr->attr[1].i;
    struct view x = view_of(&from->shape, call->instr->attr[0].i, true);
    int64_t row = from->row ? from->row : x.after;
    const float *values = call->in[1];
    float *cache = (float *)call->in[0];
    const int32_t *past = call->in[2];
    for (int64_t b = 0; b < x.b; b++)
        for (int64_t o = 0; o < x.before; o++)
            for (int64_t r = 0; r < x.rows && past[b] + r < length; r++)
                memcpy(cache + ((b * x.before + o) * length + past[b] + r) * x.after,
                       values + ((b * x.before + o) * x.rows + r) * row,
                       sizeof(float) * (size_t)x.after);
    memset(call->out[0], 0, sizeof(float) * (size_t)x.b);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(copy_kernels)[] = {
    {"concat", k_concat, NULL},
    {"identity", k_copy, NULL},
    {"reshape", k_copy, NULL},
    {"slice", k_slice, NULL},
    {"slice_dx", k_slice_dx, NULL},
    {"split", k_split, NULL},
    {"transpose", k_transpose, NULL},
    {"decode_pick", decode_pick, NULL},
    {"decode_put", decode_put, NULL},
    {"decode_rows", decode_rows, NULL},
    {0},
};
