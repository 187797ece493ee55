/* Shapes with a symbolic micro-batch. */
#include "graph/shape.h"

#include <stdio.h>

struct sl_dim sl_graph_shape_dim(const struct sl_shape *shape, int axis) {
    if (axis < 0)
        axis += shape->rank;
    SL_ASSERT(axis >= 0 && axis < shape->rank);
    return (struct sl_dim){shape->dim[axis], (shape->batch >> axis & 1) != 0};
}

void sl_graph_shape_set(struct sl_shape *shape, int axis, struct sl_dim dim) {
    SL_ASSERT(axis >= 0 && axis < SL_MAX_RANK);
    shape->dim[axis] = dim.n;
    shape->batch &= ~(1u << axis);
    shape->batch |= (unsigned)dim.batch << axis;
}

bool sl_graph_dim_equal(struct sl_dim a, struct sl_dim b) {
    return a.n == b.n && a.batch == b.batch;
}

bool sl_graph_shape_equal(const struct sl_shape *a, const struct sl_shape *b) {
    if (a->rank != b->rank || a->batch != b->batch)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int64_t sl_graph_shape_numel(const struct sl_shape *shape, int64_t batch) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->dim[i] * ((shape->batch >> i & 1) ? batch : 1);
    return count;
}

struct sl_dim sl_graph_shape_product(const struct sl_shape *shape, int from, int to) {
    struct sl_dim product = {1, false};
    for (int i = from; i < to; i++) {
        struct sl_dim dim = sl_graph_shape_dim(shape, i);
        SL_ASSERT(!(product.batch && dim.batch));
        product.n *= dim.n;
        product.batch |= dim.batch;
    }
    return product;
}

struct sl_shape sl_graph_shape_at(const struct sl_shape *shape, int64_t batch) {
    struct sl_shape out = *shape;
    for (int i = 0; i < shape->rank; i++)
        out.dim[i] *= (shape->batch >> i & 1) ? batch : 1;
    out.batch = 0;
    return out;
}

sl_err sl_graph_shape_check(const struct sl_shape *shape) {
    char text[SL_SHAPE_TEXT];
    int64_t count = 1;
    if (shape->batch & (shape->batch - 1))
        return sl_fail(SL_ERR_INPUT, "shape %s has B in two places",
                       sl_graph_shape_text(shape, text));
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i] <= 0)
            return sl_fail(SL_ERR_INPUT, "shape %s has a size that is not positive",
                           sl_graph_shape_text(shape, text));
        if (shape->dim[i] > SL_MAX_NUMEL / count)
            return sl_fail(SL_ERR_INPUT, "shape %s has more than 2^48 elements",
                           sl_graph_shape_text(shape, text));
        count *= shape->dim[i];
    }
    return SL_OK;
}

sl_err sl_graph_shape_broadcast(const struct sl_shape *a, const struct sl_shape *b,
                                struct sl_shape *out) {
    struct sl_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    for (int i = 1; i <= result.rank; i++) {
        struct sl_dim one = {1, false};
        struct sl_dim x = i <= a->rank ? sl_graph_shape_dim(a, -i) : one;
        struct sl_dim y = i <= b->rank ? sl_graph_shape_dim(b, -i) : one;
        if (!sl_graph_dim_equal(x, y) && !sl_graph_dim_equal(x, one) && !sl_graph_dim_equal(y, one))
            return sl_fail(SL_ERR_INPUT, "shapes %s and %s do not broadcast",
                           sl_graph_shape_text(a, left), sl_graph_shape_text(b, right));
        sl_graph_shape_set(&result, result.rank - i, sl_graph_dim_equal(x, one) ? y : x);
    }
    *out = result;
    return SL_OK;
}

const char *sl_graph_shape_text(const struct sl_shape *shape, char out[SL_SHAPE_TEXT]) {
    int used = snprintf(out, SL_SHAPE_TEXT, "[");
    for (int i = 0; i < shape->rank; i++) {
        const char *comma = i ? "," : "";
        bool batch = shape->batch >> i & 1;
        size_t room = (size_t)(SL_SHAPE_TEXT - used);
        if (batch && shape->dim[i] == 1)
            used += snprintf(out + used, room, "%sB", comma);
        else
            used += snprintf(out + used, room, "%s%s%lld", comma, batch ? "B*" : "",
                             (long long)shape->dim[i]);
    }
    snprintf(out + used, (size_t)(SL_SHAPE_TEXT - used), "]");
    return out;
}
