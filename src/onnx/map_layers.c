/* Layers: convolutions, pooling, normalisation, activations with a form. */
#include "onnx/map.h"

#include <math.h>

enum { SPATIAL = 2 }; /* axes of an image; a signal [B,C,L] is an image of height 1 */

struct window {
    int64_t kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL];
    int64_t before[SPATIAL], after[SPATIAL]; /* padding */
    bool signal;
};

/* An attribute with one number per spatial axis. */
static void pair(const struct sl_onnx_lower *l, const char *name, int64_t fallback, bool signal,
                 int64_t out[SPATIAL]) {
    const struct sl_onnx_attr *attr = sl_onnx_attr(l->node, name);
    out[0] = signal ? 1 : fallback;
    out[1] = fallback;
    for (int i = 0; attr && i < attr->int_count && i < SPATIAL; i++)
        out[signal ? 1 : i] = attr->ints[i];
}

/* Padding so that the output has size ceil(input / stride). */
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
    const struct sl_onnx_attr *pads = sl_onnx_attr(l->node, "pads");
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
    if (sl_onnx_attr_is(l->node, "auto_pad", "SAME_UPPER", false))
        pad_same(w, x, true);
    else if (sl_onnx_attr_is(l->node, "auto_pad", "SAME_LOWER", false))
        pad_same(w, x, false);
    return SL_OK;
}

/* [B,C,L] as [B,C,1,L]; other ranks than images are refused. */
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

/* Padding as a node of its own. */
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
    sl_onnx_emit_int(&e, "groups", sl_onnx_attr_int(l->node, "group", 1));
    SL_TRY(sl_onnx_emit(l, &e, in[2] < 0 ? 2 : 3, in, &y));
    return put_image(l, y, w.signal);
}

/* Windows that reach beyond the padded image, where sizes are rounded up. */
static bool rounds_up(const struct window *w, const struct sl_shape *x, bool ceil_mode) {
    for (int i = 0; ceil_mode && i < SPATIAL; i++) {
        int64_t wide = (w->kernel[i] - 1) * w->dilation[i] + 1;
        if ((x->dim[2 + i] + w->before[i] + w->after[i] - wide) % w->stride[i])
            return true;
    }
    return false;
}

sl_err sl_onnx_map_pool(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    struct window w = {0};
    int x, y;
    bool mean = strcmp(row->op, "AveragePool") == 0;
    bool include = sl_onnx_attr_int(l->node, "count_include_pad", 0) != 0;
    if (l->node->out_count > 1 && *l->node->out[1])
        return sl_onnx_lower_refuse(l, "the indices of the largest elements are not available");
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(as_image(l, &x, &w.signal));
    pair(l, "kernel_shape", 1, w.signal, w.kernel);
    SL_TRY(window_of(l, sl_onnx_lower_shape(l, x), &w));
    bool ceil_mode = sl_onnx_attr_int(l->node, "ceil_mode", 0) != 0;
    if (rounds_up(&w, sl_onnx_lower_shape(l, x), ceil_mode))
        return sl_onnx_lower_refuse(l, "ceil_mode with windows that reach beyond the padding");
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return sl_onnx_lower_refuse(l, "pooling with dilation");
    bool even = w.before[0] == w.after[0] && w.before[1] == w.after[1];
    for (int i = 0; i < SPATIAL; i++)
        even = even && w.before[i] <= w.kernel[i] / 2; /* what the op takes */
    if (!even && mean && !include)
        return sl_onnx_lower_refuse(l, "this padding, which does not count in the mean");
    if (!even)
        SL_TRY(pad_apart(l, &w, &x, mean ? 0 : -3.4028234663852886e38));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "kernel", SPATIAL, w.kernel);
    sl_onnx_emit_ints(&e, "stride", SPATIAL, w.stride);
    sl_onnx_emit_ints(&e, "pad", SPATIAL, w.before);
    if (mean)
        sl_onnx_emit_int(&e, "count_include_pad", include);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
    return put_image(l, y, w.signal);
}

sl_err sl_onnx_map_global_pool(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int64_t axes[SL_MAX_RANK];
    int x, count = 0;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    for (int i = 2; i < sl_onnx_lower_shape(l, x)->rank; i++)
        axes[count++] = i;
    if (count == 0)
        return sl_onnx_lower_refuse(l, "an image is needed");
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "axes", count, axes);
    sl_onnx_emit_int(&e, "keep", 1);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

/* ---- normalisation ---- */

/* Exported for evaluation: fixed statistics. Exported for training: running ones. */
sl_err sl_onnx_map_batchnorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[5], y;
    bool training = sl_onnx_attr_int(l->node, "training_mode", 0) != 0;
    (void)row;
    for (int i = 0; i < 5; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_val(l, i);
        if (val && i >= 3)
            val->is_param = false;
        SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
    }
    for (int i = 1; training && i < l->node->out_count && i < 3; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_named(l, l->node->out[i]);
        if (val && val->readers)
            return sl_onnx_lower_refuse(l,
                                        "the new running statistics are no tensors of the graph");
    }
    SL_TRY(sl_onnx_emit_open(l, &e, training ? "batchnorm" : "batchnorm_eval"));
    sl_onnx_emit_float(&e, "eps", sl_onnx_attr_float(l->node, "epsilon", 1e-5));
    sl_onnx_emit_float(&e, "momentum", 1 - sl_onnx_attr_float(l->node, "momentum", 0.9));
    SL_TRY(sl_onnx_emit(l, &e, 5, in, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Axes from `axis` on as one last axis, and back. */
static sl_err rows_from(struct sl_onnx_lower *l, int x, int axis, int *out) {
    struct sl_shape in = *sl_onnx_lower_shape(l, x), shape = {.rank = axis + 1};
    for (int i = 0; i < axis; i++)
        sl_graph_shape_set(&shape, i, sl_graph_shape_dim(&in, i));
    struct sl_dim rest = sl_graph_shape_product(&in, axis, in.rank);
    if (rest.batch)
        return sl_onnx_lower_refuse(l, "normalisation over the batch");
    sl_graph_shape_set(&shape, axis, rest);
    return sl_onnx_emit_reshape(l, x, &shape, out);
}

static sl_err normalise(struct sl_onnx_lower *l, const char *op, const char *eps, int inputs) {
    struct sl_onnx_emit e;
    int in[3] = {-1, -1, -1}, y, axis;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    struct sl_shape whole = *sl_onnx_lower_shape(l, in[0]);
    SL_TRY(sl_onnx_lower_axis(l, sl_onnx_attr_int(l->node, "axis", -1), whole.rank, &axis));
    for (int i = 1; i < l->node->out_count; i++)
        if (*l->node->out[i])
            return sl_onnx_lower_refuse(l, "the mean and deviation are no tensors of the graph");
    SL_TRY(rows_from(l, in[0], axis, &in[0]));
    struct sl_shape want = {.rank = 1};
    sl_graph_shape_set(&want, 0, sl_graph_shape_dim(sl_onnx_lower_shape(l, in[0]), -1));
    for (int i = 1; i < inputs; i++)
        if (sl_onnx_lower_has(l, i)) {
            SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
            if (sl_graph_shape_numel(sl_onnx_lower_shape(l, in[i]), 1) != want.dim[0])
                return sl_onnx_lower_refuse(l, "input %d has not one element per feature", i);
            SL_TRY(sl_onnx_emit_reshape(l, in[i], &want, &in[i]));
        }
    SL_TRY(sl_onnx_emit_open(l, &e, op));
    sl_onnx_emit_float(&e, "eps", sl_onnx_attr_float(l->node, eps, 1e-5));
    SL_TRY(sl_onnx_emit(l, &e, in[2] >= 0 ? 3 : 2, in, &y));
    SL_TRY(sl_onnx_emit_reshape(l, y, &whole, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

sl_err sl_onnx_map_layernorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return normalise(l, row->ours, "epsilon", 3);
}

sl_err sl_onnx_map_rmsnorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return normalise(l, row->ours, "epsilon", 2);
}

sl_err sl_onnx_map_gelu(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int x;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_choice(&e, "approx",
                        sl_onnx_attr_is(l->node, "approximate", "tanh", false) ? "tanh" : "erf");
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Nearest neighbour by whole factors; the rule by which torch exports it. */
sl_err sl_onnx_map_resize(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_onnx_konst *scales, *sizes;
    struct sl_onnx_emit e;
    int64_t factor[SPATIAL];
    int x;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape shape = *sl_onnx_lower_shape(l, x);
    SL_TRY(sl_onnx_lower_konst(l, 2, &scales));
    SL_TRY(sl_onnx_lower_konst(l, 3, &sizes));
    if (!sl_onnx_attr_is(l->node, "mode", "nearest", true))
        return sl_onnx_lower_refuse(l, "only the mode 'nearest' is supported");
    if (shape.rank != 4 || sl_onnx_attr(l->node, "axes"))
        return sl_onnx_lower_refuse(l, "an image [B,C,H,W] is needed");
    for (int i = 0; i < 4; i++) {
        double by = 1;
        struct sl_dim own = sl_graph_shape_dim(&shape, i);
        if (scales && scales->count == 4)
            by = sl_onnx_konst_number(scales, i);
        else if (sizes && sizes->count == 4)
            by = sizes->i && sizes->i[i].batch != own.batch
                     ? 0
                     : sl_onnx_konst_number(sizes, i) / (double)own.n;
        if (by < 1 || by != floor(by) || by > 1024 || (i < 2 && by != 1))
            return sl_onnx_lower_refuse(l,
                                        "a factor of %g on axis %d; whole factors of images are "
                                        "supported",
                                        by, i);
        if (i >= 2)
            factor[i - 2] = (int64_t)by;
    }
    bool asymmetric =
        sl_onnx_attr_is(l->node, "coordinate_transformation_mode", "asymmetric", false);
    bool half = sl_onnx_attr_is(l->node, "coordinate_transformation_mode", "half_pixel", true);
    bool down = sl_onnx_attr_is(l->node, "nearest_mode", "floor", false);
    bool near = sl_onnx_attr_is(l->node, "nearest_mode", "round_prefer_floor", true) ||
                sl_onnx_attr_is(l->node, "nearest_mode", "round_prefer_ceil", false);
    if (!(asymmetric && down) && !(half && near))
        return sl_onnx_lower_refuse(l, "this rule of coordinates is not supported; asymmetric with "
                                       "floor is");
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "factor", SPATIAL, factor);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}
