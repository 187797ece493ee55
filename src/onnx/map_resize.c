/* Lowers Resize: nearest neighbour by integer factors becomes `upsample`; every other rule
 * becomes a product with a constant matrix for each axis that changes.
 *
 *   y = M x along one axis, M [out, in]: row i has the weights of the elements that y[i] reads */
#include "onnx/map.h"

#include <math.h>

struct axis_rule {
    int axis;
    int64_t in, out;
    double scale;    /* out / in, as stated in the file */
    double from, to; /* bounds of tf_crop_and_resize */
};

static const char *text_attr(const struct sl_onnx_lower *l, const char *name,
                             const char *fallback) {
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, name);
    return attr && attr->s.length ? sl_arena_dup(l->arena, attr->s.at, attr->s.length) : fallback;
}

/* Returns the coordinate of element i of the result in the input. */
static sl_err coordinate(struct sl_onnx_lower *l, const struct axis_rule *r, int64_t i,
                         double *out) {
    const char *mode =
        text_attr(l, "coordinate_transformation_mode",
                  strcmp(l->node->op, "Upsample") == 0 ? "asymmetric" : "half_pixel");
    double x = (double)i, in = (double)r->in, wide = r->scale * in;
    if (strcmp(mode, "half_pixel") == 0)
        *out = (x + 0.5) / r->scale - 0.5;
    else if (strcmp(mode, "half_pixel_symmetric") == 0)
        *out = in / 2 * (1 - (double)r->out / wide) + (x + 0.5) / r->scale - 0.5;
    else if (strcmp(mode, "pytorch_half_pixel") == 0)
        *out = r->out > 1 ? (x + 0.5) / r->scale - 0.5 : 0;
    else if (strcmp(mode, "align_corners") == 0)
        *out = wide > 1 ? x * (in - 1) / (wide - 1) : 0;
    else if (strcmp(mode, "asymmetric") == 0)
        *out = x / r->scale;
    else if (strcmp(mode, "tf_crop_and_resize") == 0)
        *out = r->out > 1
                   ? r->from * (in - 1) + x * (r->to - r->from) * (in - 1) / ((double)r->out - 1)
                   : 0.5 * (r->from + r->to) * (in - 1);
    else
        return sl_onnx_lower_refuse(l, "this rule of coordinates: %s", mode);
    return SL_OK;
}

static double cubic(double x, double a) {
    x = fabs(x);
    if (x <= 1)
        return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

static double linear(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Returns the element that the mode `nearest` takes. */
static sl_err nearest(struct sl_onnx_lower *l, double at, double *out) {
    const char *rule = text_attr(
        l, "nearest_mode", strcmp(l->node->op, "Upsample") == 0 ? "floor" : "round_prefer_floor");
    if (strcmp(rule, "floor") == 0)
        *out = floor(at);
    else if (strcmp(rule, "ceil") == 0)
        *out = ceil(at);
    else if (strcmp(rule, "round_prefer_ceil") == 0)
        *out = floor(at + 0.5);
    else if (strcmp(rule, "round_prefer_floor") == 0)
        *out = ceil(at - 0.5);
    else
        return sl_onnx_lower_refuse(l, "this rule of the nearest element: %s", rule);
    return SL_OK;
}

/* Adds the weights of row i. For elements beyond the edge, those at the edge count, or none. */
static void weigh(struct sl_onnx_lower *l, const struct axis_rule *r, double at, double *weights) {
    bool is_cubic = sl_proto_attr_is(l->node, "mode", "cubic", false);
    bool exclude = sl_proto_attr_int(l->node, "exclude_outside", 0) != 0;
    double a = sl_proto_attr_float(l->node, "cubic_coeff_a", -0.75), total = 0;
    bool smooth = sl_proto_attr_int(l->node, "antialias", 0) != 0 && r->scale < 1;
    double shrink = smooth ? r->scale : 1, reach = (is_cubic ? 2 : 1) / shrink;
    int64_t first = (int64_t)floor(at - reach), last = (int64_t)ceil(at + reach);
    for (int64_t k = first; k <= last; k++) {
        double distance = ((double)k - at) * shrink;
        double weight = is_cubic ? cubic(distance, a) : linear(distance);
        int64_t inside = k < 0 ? 0 : k >= r->in ? r->in - 1 : k;
        if (exclude && inside != k)
            continue;
        weights[inside] += weight;
        total += weight;
    }
    for (int64_t k = 0; k < r->in && total != 0; k++)
        weights[k] /= total;
}

static sl_err fill_row(struct sl_onnx_lower *l, const struct axis_rule *r, int64_t i,
                       double *weights) {
    double at, near;
    SL_TRY(coordinate(l, r, i, &at));
    bool crop =
        sl_proto_attr_is(l->node, "coordinate_transformation_mode", "tf_crop_and_resize", false);
    if (crop && (at < 0 || at > (double)(r->in - 1)))
        return sl_onnx_lower_refuse(l, "elements beyond the edge of the image");
    if (!sl_proto_attr_is(l->node, "mode", "nearest", true)) {
        weigh(l, r, at, weights);
        return SL_OK;
    }
    SL_TRY(nearest(l, at, &near));
    near = near < 0 ? 0 : near > (double)(r->in - 1) ? (double)(r->in - 1) : near;
    weights[(int64_t)near] = 1;
    return SL_OK;
}

/* Resizes one axis of x: moves it to the end, multiplies, moves it back. */
static sl_err resize_axis(struct sl_onnx_lower *l, const struct axis_rule *r, int *x) {
    int perm[SL_MAX_RANK], matrix, rank = sl_onnx_lower_shape(l, *x)->rank;
    if (r->in * r->out > SL_ONNX_KONST_MAX)
        return sl_onnx_lower_refuse(l, "an axis of this size");
    double *weights = SL_NEW(l->arena, double, r->in * r->out), *turned;
    for (int64_t i = 0; i < r->out; i++)
        SL_TRY(fill_row(l, r, i, weights + i * r->in));
    turned = SL_NEW(l->arena, double, r->in * r->out);
    for (int64_t i = 0; i < r->in * r->out; i++)
        turned[i % r->in * r->out + i / r->in] = weights[i];
    bool last = r->axis == rank - 1, by_left = r->axis == rank - 2;
    for (int i = 0; i < rank; i++)
        perm[i] = i == r->axis ? rank - 1 : i == rank - 1 ? r->axis : i;
    if (by_left) { /* M x needs no transposition */
        SL_TRY(sl_onnx_emit_constant(l, 2, (int64_t[]){r->out, r->in}, weights, &matrix));
        return sl_onnx_emit_plain(l, "matmul", 2, (int[]){matrix, *x}, x);
    }
    SL_TRY(sl_onnx_emit_constant(l, 2, (int64_t[]){r->in, r->out}, turned, &matrix));
    if (!last)
        SL_TRY(sl_onnx_emit_transpose(l, *x, perm, x));
    SL_TRY(sl_onnx_emit_plain(l, "matmul", 2, (int[]){*x, matrix}, x));
    return last ? SL_OK : sl_onnx_emit_transpose(l, *x, perm, x);
}

/* Lists the axes that change, in the order of the file's list. */
static sl_err rules_of(struct sl_onnx_lower *l, const struct sl_shape *shape, int *count,
                       struct axis_rule *rules) {
    bool old = strcmp(l->node->op, "Upsample") == 0;
    const struct sl_onnx_konst *scales, *sizes = NULL, *region = NULL;
    const struct sl_proto_attr *axes = sl_proto_attr(l->node, "axes");
    SL_TRY(sl_onnx_lower_konst(l, old ? 1 : 2, &scales));
    if (!old)
        SL_TRY(sl_onnx_lower_konst(l, 3, &sizes));
    if (sl_proto_attr_is(l->node, "coordinate_transformation_mode", "tf_crop_and_resize", false))
        SL_TRY(sl_onnx_lower_konst(l, 1, &region));
    bool by_scale = scales && scales->count > 0;
    const struct sl_onnx_konst *list = by_scale ? scales : sizes;
    int64_t want = axes ? axes->int_count : shape->rank;
    if (!list || list->count != want || want > SL_MAX_RANK || (region && region->count < 2 * want))
        return sl_onnx_lower_refuse(l, "one scale or size per axis is needed");
    *count = 0;
    for (int64_t i = 0; i < want; i++) {
        struct axis_rule *r = &rules[*count];
        SL_TRY(sl_onnx_lower_axis(l, axes ? axes->ints[i] : i, shape->rank, &r->axis));
        struct sl_dim own = sl_graph_shape_dim(shape, r->axis);
        double by = sl_onnx_konst_number(list, i), n = (double)own.n;
        bool keeps = by_scale ? by == 1 : by == n && (!list->i || list->i[i].batch == own.batch);
        if (keeps && !region)
            continue;
        if (own.batch || !(by > 0) || (by_scale ? by * n : by) > 1 << 20)
            return sl_onnx_lower_refuse(l, "axis %d cannot change its size", r->axis);
        r->in = own.n;
        r->out = (int64_t)(by_scale ? floor(by * n + 1e-6) : by);
        r->scale = by_scale ? by : by / n;
        r->from = region ? sl_onnx_konst_number(region, i) : 0;
        r->to = region ? sl_onnx_konst_number(region, i + want) : 1;
        if (r->out < 1)
            return sl_onnx_lower_refuse(l, "axis %d has no elements", r->axis);
        *count += 1;
    }
    return SL_OK;
}

/* Uses one scale for all axes: the larger or smaller of those that the sizes give. */
static void keep_ratio(const struct sl_onnx_lower *l, int count, struct axis_rule *rules) {
    bool larger = sl_proto_attr_is(l->node, "keep_aspect_ratio_policy", "not_smaller", false);
    bool smaller = sl_proto_attr_is(l->node, "keep_aspect_ratio_policy", "not_larger", false);
    double scale = count ? rules[0].scale : 1;
    for (int i = 0; i < count; i++)
        if (larger ? rules[i].scale > scale : rules[i].scale < scale)
            scale = rules[i].scale;
    for (int i = 0; i < count && (larger || smaller); i++) {
        rules[i].scale = scale;
        rules[i].out = (int64_t)floor(scale * (double)rules[i].in + 0.5);
    }
}

/* Is it nearest neighbour of an image by integer factors? Then every element is repeated. */
static bool repeats(struct sl_onnx_lower *l, int rank, int count, const struct axis_rule *rules,
                    int64_t factor[2]) {
    factor[0] = factor[1] = 1;
    if (rank != 4 || !sl_proto_attr_is(l->node, "mode", "nearest", true))
        return false;
    for (int i = 0; i < count; i++) {
        if (rules[i].axis < 2 || rules[i].out % rules[i].in)
            return false;
        factor[rules[i].axis - 2] = rules[i].out / rules[i].in;
        for (int64_t k = 0; k < rules[i].out; k++) {
            int64_t want = k * rules[i].in / rules[i].out;
            double at, near;
            if (coordinate(l, &rules[i], k, &at) != SL_OK || nearest(l, at, &near) != SL_OK ||
                fmax(near, 0) != (double)want)
                return false;
        }
    }
    return true;
}

sl_err sl_onnx_map_resize(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct axis_rule rules[SL_MAX_RANK];
    int64_t factor[2];
    int x, count;
    (void)row;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    struct sl_shape shape = *sl_onnx_lower_shape(l, x);
    SL_TRY(rules_of(l, &shape, &count, rules));
    keep_ratio(l, count, rules);
    if (count && repeats(l, shape.rank, count, rules, factor)) {
        struct sl_onnx_emit e;
        SL_TRY(sl_onnx_emit_open(l, &e, "upsample"));
        sl_onnx_emit_ints(&e, "factor", 2, factor);
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
        count = 0;
    }
    for (int i = 0; i < count; i++)
        SL_TRY(resize_axis(l, &rules[i], &x));
    sl_onnx_lower_out(l, 0, x, sl_onnx_lower_val(l, 0)->type);
    return SL_OK;
}
