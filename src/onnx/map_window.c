/* Lowers operators with windows: convolutions, transposed convolutions, pooling. */
#include "onnx/map.h"

#include <math.h>

enum { SPATIAL = 2 }; /* axes of an image; a signal [B,C,L] is an image of height 1 */

struct window {
    int64_t kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL];
    int64_t before[SPATIAL], after[SPATIAL]; /* padding */
    bool signal;
};

/* Reads an attribute with one number per spatial axis. */
static void pair(const struct sl_onnx_lower *l, const char *name, int64_t fallback, bool signal,
                 int64_t out[SPATIAL]) {
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, name);
    out[0] = signal ? 1 : fallback;
    out[1] = fallback;
    for (int i = 0; attr && i < attr->int_count && i < SPATIAL; i++)
        out[signal ? 1 : i] = attr->ints[i];
}

/* Computes padding for which the output has size ceil(input / stride). */
static void pad_same(struct window *w, const struct sl_shape *x, bool upper) {
    for (int i = w->signal; i < SPATIAL; i++) {
        int64_t n = x->dim[2 + i], wide = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t total = ((n + w->stride[i] - 1) / w->stride[i] - 1) * w->stride[i] + wide - n;
        total = total < 0 ? 0 : total;
        w->before[i] = upper ? total / 2 : total - total / 2;
        w->after[i] = total - w->before[i];
    }
}

static sl_err window_of(struct sl_onnx_lower *l, const struct sl_shape *x, struct window *w) {
    const struct sl_proto_attr *pads = sl_proto_attr(l->node, "pads");
    int spatial = w->signal ? 1 : SPATIAL;
    pair(l, "strides", 1, w->signal, w->stride);
    pair(l, "dilations", 1, w->signal, w->dilation);
    for (int i = 0; i < SPATIAL; i++)
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->kernel[i] < 1)
            return sl_onnx_lower_refuse(l,
                                        "strides, dilations and sizes of windows must be positive");
    if (pads && pads->int_count != 2 * spatial)
        return sl_onnx_lower_refuse(l, "'pads' must have %d numbers", 2 * spatial);
    for (int i = 0; pads && i < spatial; i++) {
        int at = w->signal ? 1 : i;
        w->before[at] = pads->ints[i];
        w->after[at] = pads->ints[spatial + i];
        if (w->before[at] < 0 || w->after[at] < 0)
            return sl_onnx_lower_refuse(l, "negative padding");
    }
    if (sl_proto_attr_is(l->node, "auto_pad", "SAME_UPPER", false))
        pad_same(w, x, true);
    else if (sl_proto_attr_is(l->node, "auto_pad", "SAME_LOWER", false))
        pad_same(w, x, false);
    return SL_OK;
}

/* Reshapes [B,C,L] to [B,C,1,L]; refuses ranks other than those and images. */
static sl_err as_image(struct sl_onnx_lower *l, int *x, bool *signal) {
    struct sl_shape shape = *sl_onnx_lower_shape(l, *x);
    *signal = shape.rank == 3;
    if (shape.rank == 4)
        return SL_OK;
    if (shape.rank != 3)
        return sl_onnx_lower_refuse(l, "%d spatial axes; one and two are supported",
                                    shape.rank - 2);
    struct sl_dim last = sl_graph_shape_dim(&shape, 2);
    shape.rank = 4;
    sl_graph_shape_set(&shape, 2, (struct sl_dim){1, false});
    sl_graph_shape_set(&shape, 3, last);
    return sl_onnx_emit_reshape(l, *x, &shape, x);
}

static sl_err put_image(struct sl_onnx_lower *l, int y, bool signal) {
    struct sl_shape shape = *sl_onnx_lower_shape(l, y);
    if (signal) {
        sl_graph_shape_set(&shape, 2, sl_graph_shape_dim(&shape, 3));
        shape.rank = 3;
        SL_TRY(sl_onnx_emit_reshape(l, y, &shape, &y));
    }
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Emits the padding as a separate node. */
static sl_err pad_apart(struct sl_onnx_lower *l, struct window *w, int *x, double value) {
    struct sl_onnx_emit e;
    SL_TRY(sl_onnx_emit_open(l, &e, "pad"));
    sl_onnx_emit_ints(&e, "before", 4, (int64_t[]){0, 0, w->before[0], w->before[1]});
    sl_onnx_emit_ints(&e, "after", 4, (int64_t[]){0, 0, w->after[0], w->after[1]});
    sl_onnx_emit_float(&e, "value", value);
    memset(w->before, 0, sizeof w->before);
    return sl_onnx_emit(l, &e, 1, x, x);
}

sl_err sl_onnx_map_conv(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    struct window w = {0};
    int in[3] = {-1, -1, -1}, y;
    bool signal;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(as_image(l, &in[0], &w.signal));
    SL_TRY(as_image(l, &in[1], &signal));
    if (sl_onnx_lower_has(l, 2))
        SL_TRY(sl_onnx_lower_in(l, 2, &in[2]));
    w.kernel[0] = sl_onnx_lower_shape(l, in[1])->dim[2];
    w.kernel[1] = sl_onnx_lower_shape(l, in[1])->dim[3];
    SL_TRY(window_of(l, sl_onnx_lower_shape(l, in[0]), &w));
    if (w.before[0] != w.after[0] || w.before[1] != w.after[1])
        SL_TRY(pad_apart(l, &w, &in[0], 0));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "stride", SPATIAL, w.stride);
    sl_onnx_emit_ints(&e, "pad", SPATIAL, w.before);
    sl_onnx_emit_ints(&e, "dilation", SPATIAL, w.dilation);
    sl_onnx_emit_int(&e, "groups", sl_proto_attr_int(l->node, "group", 1));
    SL_TRY(sl_onnx_emit(l, &e, in[2] < 0 ? 2 : 3, in, &y));
    return put_image(l, y, w.signal);
}

/* Do windows reach beyond the padded image, because sizes are rounded up? */
static bool rounds_up(const struct window *w, const struct sl_shape *x, bool ceil_mode) {
    for (int i = 0; ceil_mode && i < SPATIAL; i++) {
        int64_t wide = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if ((x->dim[2 + i] + w->before[i] + w->after[i] - wide) % w->stride[i])
            return true;
    }
    return false;
}

/* Chooses the output size, if paddings decide between several. */
static sl_err transposed_size(struct sl_onnx_lower *l, const struct sl_shape *x, struct window *w,
                              const int64_t extra[SPATIAL], int64_t size[SPATIAL]) {
    const struct sl_proto_attr *stated = sl_proto_attr(l->node, "output_shape");
    bool upper = sl_proto_attr_is(l->node, "auto_pad", "SAME_UPPER", false);
    bool same = upper || sl_proto_attr_is(l->node, "auto_pad", "SAME_LOWER", false);
    int spatial = w->signal ? 1 : SPATIAL;
    for (int i = w->signal; i < SPATIAL; i++) {
        int64_t full = (x->dim[2 + i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        int at = i - w->signal;
        size[i] = full - w->before[i] - w->after[i] + extra[i];
        if (!stated && !same)
            continue;
        size[i] = stated ? (at + stated->int_count - spatial < stated->int_count
                                ? stated->ints[at + stated->int_count - spatial]
                                : 0)
                         : x->dim[2 + i] * w->stride[i];
        int64_t total = full + extra[i] - size[i];
        total = total < 0 ? 0 : total;
        w->before[i] = upper ? total / 2 : total - total / 2;
        w->after[i] = total - w->before[i];
    }
    if (w->signal)
        size[0] = 1;
    for (int i = 0; i < SPATIAL; i++)
        if (size[i] < 1)
            return sl_onnx_lower_refuse(l, "the result has size %lld", (long long)size[i]);
    return SL_OK;
}

/* ConvTranspose: computes the whole result, then cuts out the requested part. */
sl_err sl_onnx_map_conv_transpose(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    struct window w = {0};
    int in[3] = {-1, -1, -1}, y;
    int64_t extra[SPATIAL], size[SPATIAL], beyond[SPATIAL] = {0};
    bool signal;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(as_image(l, &in[0], &w.signal));
    SL_TRY(as_image(l, &in[1], &signal));
    if (sl_onnx_lower_has(l, 2))
        SL_TRY(sl_onnx_lower_in(l, 2, &in[2]));
    struct sl_shape x = *sl_onnx_lower_shape(l, in[0]);
    for (int i = 0; i < SPATIAL; i++)
        w.kernel[i] = sl_onnx_lower_shape(l, in[1])->dim[2 + i];
    SL_TRY(window_of(l, &x, &w));
    pair(l, "output_padding", 0, w.signal, extra);
    extra[0] = w.signal ? 0 : extra[0];
    SL_TRY(transposed_size(l, &x, &w, extra, size));
    for (int i = w.signal; i < SPATIAL; i++) { /* beyond the last window there are zeros */
        int64_t full = (x.dim[2 + i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
        int64_t more = w.before[i] + size[i] - full;
        beyond[i] = more > 0 ? more : 0;
    }
    bool even = w.before[0] == w.after[0] && w.before[1] == w.after[1] && !beyond[0] &&
                !beyond[1] && !extra[0] && !extra[1];
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "stride", SPATIAL, w.stride);
    sl_onnx_emit_ints(&e, "dilation", SPATIAL, w.dilation);
    if (even)
        sl_onnx_emit_ints(&e, "pad", SPATIAL, w.before);
    else
        sl_onnx_emit_ints(&e, "out_pad", SPATIAL, beyond);
    sl_onnx_emit_int(&e, "groups", sl_proto_attr_int(l->node, "group", 1));
    SL_TRY(sl_onnx_emit(l, &e, in[2] < 0 ? 2 : 3, in, &y));
    for (int i = 0; i < SPATIAL && !even; i++)
        SL_TRY(sl_onnx_emit_slice(l, y, 2 + i, w.before[i], w.before[i] + size[i], &y));
    return put_image(l, y, w.signal);
}

/* ---- pooling axis by axis: any number of axes, dilation, sizes rounded up ---- */

struct line { /* one axis */
    int64_t n, kernel, stride, dilation, before, after, out;
};

static int64_t attr_at(const struct sl_onnx_lower *l, const char *name, int at, int64_t fallback) {
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, name);
    return attr && at < attr->int_count ? attr->ints[at] : fallback;
}

static sl_err line_of(struct sl_onnx_lower *l, int at, int spatial, int64_t n, struct line *out) {
    struct line p = {.n = n,
                     .kernel = attr_at(l, "kernel_shape", at, 1),
                     .stride = attr_at(l, "strides", at, 1),
                     .dilation = attr_at(l, "dilations", at, 1),
                     .before = attr_at(l, "pads", at, 0),
                     .after = attr_at(l, "pads", spatial + at, 0)};
    enum { MOST = 1 << 20 };
    bool upper = sl_proto_attr_is(l->node, "auto_pad", "SAME_UPPER", false);
    bool same = upper || sl_proto_attr_is(l->node, "auto_pad", "SAME_LOWER", false);
    if (p.kernel < 1 || p.stride < 1 || p.dilation < 1 || p.before < 0 || p.after < 0 ||
        p.kernel > MOST || p.stride > MOST || p.dilation > MOST || p.before > MOST ||
        p.after > MOST || n > MOST)
        return sl_onnx_lower_refuse(l, "windows of this size");
    int64_t wide = (p.kernel - 1) * p.dilation + 1;
    if (same) {
        int64_t total = ((n + p.stride - 1) / p.stride - 1) * p.stride + wide - n;
        total = total < 0 ? 0 : total;
        p.before = upper ? total / 2 : total - total / 2;
        p.after = total - p.before;
    }
    int64_t room = n + p.before + p.after - wide;
    if (room < 0)
        return sl_onnx_lower_refuse(l, "a window is larger than the padded input");
    p.out = room / p.stride + 1;
    if (sl_proto_attr_int(l->node, "ceil_mode", 0) && room % p.stride &&
        p.out * p.stride < n + p.before)
        p.out++;
    *out = p;
    return SL_OK;
}

/* Counts the elements of the image in window i; with the padding, if that counts. */
static int64_t elements_in(const struct line *p, int64_t i, bool padding) {
    int64_t count = 0, least = padding ? -p->before : 0, most = p->n + (padding ? p->after : 0);
    for (int64_t k = 0; k < p->kernel; k++) {
        int64_t at = i * p->stride - p->before + k * p->dilation;
        count += at >= least && at < most;
    }
    return count;
}

/* Reduces the windows of one axis of x by `op`. */
static sl_err pool_axis(struct sl_onnx_lower *l, const char *op, int axis, const struct line *p,
                        int *x) {
    struct sl_onnx_emit e;
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    int64_t reach = (p->out - 1) * p->stride + (p->kernel - 1) * p->dilation + 1;
    struct sl_shape shape = *sl_onnx_lower_shape(l, *x);
    if (shape.rank >= SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "pooling of %d axes", shape.rank);
    before[axis] = p->before;
    after[axis] = reach - p->before - p->n > 0 ? reach - p->before - p->n : 0;
    if (before[axis] || after[axis]) {
        SL_TRY(sl_onnx_emit_open(l, &e, "pad"));
        sl_onnx_emit_ints(&e, "before", shape.rank, before);
        sl_onnx_emit_ints(&e, "after", shape.rank, after);
        sl_onnx_emit_float(&e, "value", strcmp(op, "reduce_max") == 0 ? -3.4028234663852886e38 : 0);
        SL_TRY(sl_onnx_emit(l, &e, 1, x, x));
    }
    int64_t *rows = SL_NEW(l->arena, int64_t, p->out * p->kernel);
    for (int64_t i = 0; i < p->out * p->kernel; i++)
        rows[i] = i / p->kernel * p->stride + i % p->kernel * p->dilation;
    SL_TRY(sl_onnx_emit_rows(l, *x, axis, p->out * p->kernel, rows, x));
    struct sl_shape wide = shape;
    wide.rank++;
    for (int i = axis + 1; i < shape.rank; i++)
        sl_graph_shape_set(&wide, i + 1, sl_graph_shape_dim(&shape, i));
    sl_graph_shape_set(&wide, axis, (struct sl_dim){p->out, false});
    sl_graph_shape_set(&wide, axis + 1, (struct sl_dim){p->kernel, false});
    SL_TRY(sl_onnx_emit_reshape(l, *x, &wide, x));
    SL_TRY(sl_onnx_emit_open(l, &e, op));
    sl_onnx_emit_ints(&e, "axes", 1, (int64_t[]){axis + 1});
    return sl_onnx_emit(l, &e, 1, x, x);
}

static sl_err divide_axis(struct sl_onnx_lower *l, int axis, const struct line *p, bool padding,
                          int *x) {
    int64_t dim[SL_MAX_RANK];
    int rank = sl_onnx_lower_shape(l, *x)->rank - axis, by;
    double *share = SL_NEW(l->arena, double, p->out);
    for (int i = 0; i < rank; i++)
        dim[i] = i ? 1 : p->out;
    for (int64_t i = 0; i < p->out; i++) {
        int64_t count = elements_in(p, i, padding);
        share[i] = count ? 1.0 / (double)count : 0;
    }
    SL_TRY(sl_onnx_emit_constant(l, rank, dim, share, &by));
    return sl_onnx_emit_plain(l, "mul", 2, (int[]){*x, by}, x);
}

static sl_err pool_by_axes(struct sl_onnx_lower *l, bool mean, int x) {
    bool padding = sl_proto_attr_int(l->node, "count_include_pad", 0) != 0;
    int rank = sl_onnx_lower_shape(l, x)->rank;
    for (int axis = 2; axis < rank; axis++) {
        struct line line;
        struct sl_dim size = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), axis);
        if (size.batch)
            return sl_onnx_lower_refuse(l, "pooling over the batch");
        SL_TRY(line_of(l, axis - 2, rank - 2, size.n, &line));
        SL_TRY(pool_axis(l, mean ? "reduce_sum" : "reduce_max", axis, &line, &x));
        if (mean)
            SL_TRY(divide_axis(l, axis, &line, padding, &x));
    }
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}

/* Pooling: uses the op for images if it can express the node. */
sl_err sl_onnx_map_pool(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    struct window w = {0};
    int x, y;
    bool mean = strcmp(row->op, "AveragePool") == 0;
    bool include = sl_proto_attr_int(l->node, "count_include_pad", 0) != 0;
    if (l->node->out_count > 1 && *l->node->out[1])
        return sl_onnx_lower_refuse(l, "the indices of the largest elements are not available");
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    int rank = sl_onnx_lower_shape(l, x)->rank;
    if (rank != 3 && rank != 4)
        return pool_by_axes(l, mean, x);
    int flat = x;
    SL_TRY(as_image(l, &x, &w.signal));
    pair(l, "kernel_shape", 1, w.signal, w.kernel);
    SL_TRY(window_of(l, sl_onnx_lower_shape(l, x), &w));
    bool ceil_mode = sl_proto_attr_int(l->node, "ceil_mode", 0) != 0;
    bool even = w.before[0] == w.after[0] && w.before[1] == w.after[1] && w.dilation[0] == 1 &&
                w.dilation[1] == 1 && !rounds_up(&w, sl_onnx_lower_shape(l, x), ceil_mode);
    for (int i = 0; i < SPATIAL; i++)
        even = even && w.before[i] <= w.kernel[i] / 2; /* a limit of that op */
    if (!even)
        return pool_by_axes(l, mean, flat);
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "kernel", SPATIAL, w.kernel);
    sl_onnx_emit_ints(&e, "stride", SPATIAL, w.stride);
    sl_onnx_emit_ints(&e, "pad", SPATIAL, w.before);
    if (mean)
        sl_onnx_emit_int(&e, "count_include_pad", include);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
    SL_TRY(put_image(l, y, w.signal));
    return SL_OK;
}
