/* Folding that moves elements: shapes, slices, ranges. */
#include "onnx/fold_math.h"

#include <math.h>

static void copy(struct sl_onnx_konst *to, int64_t at, const struct sl_onnx_konst *from,
                 int64_t source) {
    if (to->f)
        to->f[at] = from->f[source];
    else
        to->i[at] = from->i[source];
}

/* The same elements under another shape. */
static sl_err with_shape(const struct sl_onnx_fold *f, int rank, const int64_t *dim) {
    struct sl_onnx_konst *out = SL_NEW(f->arena, struct sl_onnx_konst, 1);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dim[i];
    if (rank > SL_ONNX_RANK || count != f->in[0]->count)
        return sl_fail(SL_ERR_INPUT, "%lld elements do not fit the new shape",
                       (long long)f->in[0]->count);
    *out = *f->in[0];
    out->rank = rank;
    memcpy(out->dim, dim, sizeof *dim * (size_t)rank);
    f->out[0] = out;
    return SL_OK;
}

static sl_err fold_identity(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    return with_shape(f, f->in[0]->rank, f->in[0]->dim);
}

static sl_err fold_constant(const struct sl_onnx_fold *f) {
    const struct sl_onnx_attr *attr = f->node->attr_count ? &f->node->attrs[0] : NULL;
    const int64_t none[1] = {0};
    if (attr && strcmp(attr->name, "value") == 0 && attr->t) {
        f->out[0] = sl_onnx_konst_of_tensor(f->arena, attr->t);
        return SL_OK;
    }
    if (attr && strncmp(attr->name, "value_float", 11) == 0) {
        int64_t count = attr->float_count;
        bool list = strcmp(attr->name, "value_floats") == 0;
        SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_FLOAT, list, &count, &f->out[0]));
        for (int64_t i = 0; i < f->out[0]->count; i++)
            f->out[0]->f[i] = (double)(list ? attr->floats[i] : attr->f);
        return SL_OK;
    }
    if (attr && strncmp(attr->name, "value_int", 9) == 0) {
        int64_t count = attr->int_count;
        bool list = strcmp(attr->name, "value_ints") == 0;
        SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_INT64, list, &count, &f->out[0]));
        for (int64_t i = 0; i < f->out[0]->count; i++)
            f->out[0]->i[i].n = list ? attr->ints[i] : attr->i;
        return SL_OK;
    }
    return sl_onnx_konst_new(f->arena, SL_ONNX_NONE, 1, none, &f->out[0]);
}

/* Sizes given as a constant list. */
static sl_err sizes_of(const struct sl_onnx_konst *list, int64_t dim[SL_ONNX_RANK]) {
    if (list->count > SL_ONNX_RANK)
        return sl_fail(SL_ERR_REFUSED, "more than %d axes", SL_ONNX_RANK);
    for (int64_t i = 0; i < list->count; i++)
        SL_TRY(sl_onnx_konst_int(list, i, &dim[i]));
    return SL_OK;
}

static sl_err fold_constant_of_shape(const struct sl_onnx_fold *f) {
    const struct sl_onnx_attr *value = sl_onnx_attr(f->node, "value");
    int64_t dim[SL_ONNX_RANK];
    struct sl_onnx_konst *element = NULL;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sizes_of(f->in[0], dim));
    int type = value && value->t ? value->t->type : SL_ONNX_FLOAT;
    SL_TRY(sl_onnx_konst_new(f->arena, type, (int)f->in[0]->count, dim, &f->out[0]));
    if (!value || !value->t || value->t->count != 1)
        return SL_OK;
    element = sl_onnx_konst_of_tensor(f->arena, value->t);
    SL_TRY(
        sl_onnx_konst_load(f->arena, &(struct sl_onnx_file){.open_fd = -1, .path = ""}, element));
    for (int64_t i = 0; i < f->out[0]->count; i++)
        copy(f->out[0], i, element, 0);
    return SL_OK;
}

static sl_err fold_reshape(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], known = 1;
    int free_axis = -1;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    SL_TRY(sizes_of(f->in[1], dim));
    for (int64_t i = 0; i < f->in[1]->count; i++) {
        if (dim[i] == 0 && i < f->in[0]->rank && !sl_onnx_attr_int(f->node, "allowzero", 0))
            dim[i] = f->in[0]->dim[i];
        if (dim[i] < 0)
            free_axis = (int)i;
        else
            known *= dim[i];
    }
    if (free_axis >= 0)
        dim[free_axis] = known ? f->in[0]->count / known : 0;
    return with_shape(f, (int)f->in[1]->count, dim);
}

static sl_err fold_flatten(const struct sl_onnx_fold *f) {
    int64_t dim[2] = {1, 1}, axis = sl_onnx_attr_int(f->node, "axis", 1);
    SL_TRY(sl_onnx_fold_need(f, 0));
    axis += axis < 0 ? f->in[0]->rank : 0;
    for (int i = 0; i < f->in[0]->rank; i++)
        dim[i >= axis] *= f->in[0]->dim[i];
    return with_shape(f, 2, dim);
}

static sl_err fold_squeeze(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK];
    bool drop[SL_ONNX_RANK] = {false};
    int rank = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0], *axes = f->node->in_count > 1 ? f->in[1] : NULL;
    for (int i = 0; i < a->rank; i++)
        drop[i] = !axes && a->dim[i] == 1;
    for (int64_t i = 0; axes && i < axes->count; i++) {
        int64_t axis;
        int at;
        SL_TRY(sl_onnx_konst_int(axes, i, &axis));
        SL_TRY(sl_onnx_fold_axis(f, axis, a->rank, &at));
        drop[at] = true;
    }
    for (int i = 0; i < a->rank; i++)
        if (!drop[i])
            dim[rank++] = a->dim[i];
    return with_shape(f, rank, dim);
}

static sl_err fold_unsqueeze(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK];
    bool added[SL_ONNX_RANK] = {false};
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    int64_t rank = f->in[0]->rank + f->in[1]->count;
    if (rank > SL_ONNX_RANK)
        return sl_fail(SL_ERR_REFUSED, "more than %d axes", SL_ONNX_RANK);
    for (int64_t i = 0; i < f->in[1]->count; i++) {
        int64_t axis;
        int at;
        SL_TRY(sl_onnx_konst_int(f->in[1], i, &axis));
        SL_TRY(sl_onnx_fold_axis(f, axis, (int)rank, &at));
        added[at] = true;
    }
    for (int i = 0, from = 0; i < rank; i++)
        dim[i] = added[i] || from >= f->in[0]->rank ? 1 : f->in[0]->dim[from++];
    return with_shape(f, (int)rank, dim);
}

/* ---- blocks: outer x axis x inner ---- */

struct blocks {
    int64_t outer, axis, inner;
};

static struct blocks blocks_of(const struct sl_onnx_konst *a, int axis) {
    struct blocks b = {1, a->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        b.outer *= a->dim[i];
    for (int i = axis + 1; i < a->rank; i++)
        b.inner *= a->dim[i];
    return b;
}

static sl_err fold_concat(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], total = 0, done = 0;
    int axis;
    for (int i = 0; i < f->node->in_count; i++)
        SL_TRY(sl_onnx_fold_need(f, i));
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_axis(f, sl_onnx_attr_int(f->node, "axis", 0), f->in[0]->rank, &axis));
    memcpy(dim, f->in[0]->dim, sizeof dim);
    for (int i = 0; i < f->node->in_count; i++) {
        for (int at = 0; at < f->in[0]->rank; at++)
            if (f->in[i]->rank != f->in[0]->rank || !f->in[i]->f != !f->in[0]->f ||
                (at != axis && f->in[i]->dim[at] != dim[at]))
                return sl_fail(SL_ERR_INPUT, "input %d does not match input 0", i);
        total += f->in[i]->dim[axis];
    }
    dim[axis] = total;
    SL_TRY(sl_onnx_konst_new(f->arena, f->in[0]->type, f->in[0]->rank, dim, &f->out[0]));
    for (int i = 0; i < f->node->in_count; i++) {
        struct blocks b = blocks_of(f->in[i], axis);
        for (int64_t outer = 0; outer < b.outer; outer++)
            for (int64_t at = 0; at < b.axis * b.inner; at++)
                copy(f->out[0], (outer * total + done) * b.inner + at, f->in[i],
                     outer * b.axis * b.inner + at);
        done += b.axis;
    }
    return SL_OK;
}

static sl_err fold_gather(const struct sl_onnx_fold *f) {
    int64_t dim[2 * SL_ONNX_RANK];
    int axis, rank = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *index = f->in[1];
    SL_TRY(sl_onnx_fold_axis(f, sl_onnx_attr_int(f->node, "axis", 0), a->rank, &axis));
    struct blocks b = blocks_of(a, axis);
    for (int i = 0; i < axis; i++)
        dim[rank++] = a->dim[i];
    for (int i = 0; i < index->rank; i++)
        dim[rank++] = index->dim[i];
    for (int i = axis + 1; i < a->rank; i++)
        dim[rank++] = a->dim[i];
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, rank, dim, &f->out[0]));
    for (int64_t i = 0; i < index->count; i++) {
        int64_t row;
        SL_TRY(sl_onnx_konst_int(index, i, &row));
        row += row < 0 ? b.axis : 0;
        if (row < 0 || row >= b.axis)
            return sl_fail(SL_ERR_INPUT, "index %lld of an axis of size %lld", (long long)row,
                           (long long)b.axis);
        for (int64_t outer = 0; outer < b.outer; outer++)
            for (int64_t at = 0; at < b.inner; at++)
                copy(f->out[0], (outer * index->count + i) * b.inner + at, a,
                     (outer * b.axis + row) * b.inner + at);
    }
    return SL_OK;
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Elements from, from + step, ... of one axis; `count` of them. */
struct range {
    int64_t from, step, count;
};

static sl_err take(const struct sl_onnx_fold *f, const struct sl_onnx_konst *a, int axis,
                   struct range r, struct sl_onnx_konst **out) {
    int64_t dim[SL_ONNX_RANK];
    struct blocks b = blocks_of(a, axis);
    memcpy(dim, a->dim, sizeof dim);
    dim[axis] = r.count;
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, dim, out));
    for (int64_t outer = 0; outer < b.outer; outer++)
        for (int64_t i = 0; i < r.count; i++)
            for (int64_t at = 0; at < b.inner; at++)
                copy(*out, (outer * r.count + i) * b.inner + at, a,
                     (outer * b.axis + r.from + i * r.step) * b.inner + at);
    return SL_OK;
}

static sl_err fold_slice(const struct sl_onnx_fold *f) {
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_onnx_fold_need(f, i));
    const struct sl_onnx_konst *axes = f->node->in_count > 3 ? f->in[3] : NULL;
    const struct sl_onnx_konst *steps = f->node->in_count > 4 ? f->in[4] : NULL;
    SL_TRY(fold_identity(f));
    for (int64_t i = 0; i < f->in[1]->count; i++) {
        int64_t from, to, which = i, step = 1;
        int axis;
        SL_TRY(sl_onnx_konst_int(f->in[1], i, &from));
        SL_TRY(sl_onnx_konst_int(f->in[2], i, &to));
        if (axes)
            SL_TRY(sl_onnx_konst_int(axes, i, &which));
        if (steps)
            SL_TRY(sl_onnx_konst_int(steps, i, &step));
        SL_TRY(sl_onnx_fold_axis(f, which, f->in[0]->rank, &axis));
        int64_t n = f->out[0]->dim[axis];
        if (step == 0 || step < -n - 1)
            return sl_fail(SL_ERR_INPUT, "a step of %lld", (long long)step);
        from = clamp(from < 0 ? from + n : from, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
        to = clamp(to < 0 && to >= -n ? to + n : to, step > 0 ? 0 : -1, n);
        int64_t count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
        SL_TRY(take(f, f->out[0], axis, (struct range){from, step, count > 0 ? count : 0},
                    &f->out[0]));
    }
    return SL_OK;
}

static sl_err fold_split(const struct sl_onnx_fold *f) {
    int axis;
    int64_t from = 0, size;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *sizes = f->node->in_count > 1 ? f->in[1] : NULL;
    SL_TRY(sl_onnx_fold_axis(f, sl_onnx_attr_int(f->node, "axis", 0), f->in[0]->rank, &axis));
    for (int i = 0; i < f->node->out_count; i++) {
        int64_t n = f->in[0]->dim[axis], each = (n + f->node->out_count - 1) / f->node->out_count;
        size = n - from < each ? n - from : each;
        if (sizes)
            SL_TRY(sl_onnx_konst_int(sizes, i, &size));
        if (size < 0 || size > n - from)
            return sl_fail(SL_ERR_INPUT, "the parts do not fit an axis of size %lld", (long long)n);
        SL_TRY(take(f, f->in[0], axis, (struct range){from, 1, size}, &f->out[i]));
        from += size;
    }
    return SL_OK;
}

static sl_err fold_transpose(const struct sl_onnx_fold *f) {
    const struct sl_onnx_attr *attr = sl_onnx_attr(f->node, "perm");
    int64_t dim[SL_ONNX_RANK], stride[SL_ONNX_RANK], step[SL_ONNX_RANK], size = 1;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    for (int i = a->rank - 1; i >= 0; size *= a->dim[i--])
        stride[i] = size;
    for (int i = 0; i < a->rank; i++) {
        int64_t from = attr ? (i < attr->int_count ? attr->ints[i] : -1) : a->rank - 1 - i;
        if (from < 0 || from >= a->rank)
            return sl_fail(SL_ERR_INPUT, "'perm' is not an order of %d axes", a->rank);
        dim[i] = a->dim[from];
        step[i] = stride[from];
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, dim, &f->out[0]));
    for (int64_t i = 0; i < f->out[0]->count; i++) {
        int64_t at = i, source = 0;
        for (int axis = a->rank - 1; axis >= 0; at /= dim[axis--])
            source += at % dim[axis] * step[axis];
        copy(f->out[0], i, a, source < a->count ? source : 0);
    }
    return SL_OK;
}

static sl_err fold_expand(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], want[SL_ONNX_RANK];
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sizes_of(f->in[1], want));
    int rank = a->rank > (int)f->in[1]->count ? a->rank : (int)f->in[1]->count;
    for (int i = 0; i < rank; i++) {
        int own = i - (rank - a->rank), other = i - (rank - (int)f->in[1]->count);
        int64_t x = own < 0 ? 1 : a->dim[own], y = other < 0 ? 1 : want[other];
        if (x != y && x != 1 && y != 1)
            return sl_fail(SL_ERR_INPUT, "size %lld does not expand to %lld", (long long)x,
                           (long long)y);
        dim[i] = x == 1 ? y : x;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, rank, dim, &f->out[0]));
    for (int64_t i = 0; i < f->out[0]->count; i++) {
        int64_t at = i, source = 0, step = 1;
        for (int axis = rank - 1; axis >= 0; at /= dim[axis--]) {
            int own = axis - (rank - a->rank);
            if (own >= 0) {
                source += (a->dim[own] == 1 ? 0 : at % dim[axis]) * step;
                step *= a->dim[own];
            }
        }
        copy(f->out[0], i, a, source);
    }
    return SL_OK;
}

static sl_err fold_range(const struct sl_onnx_fold *f) {
    for (int i = 0; i < 3; i++) {
        SL_TRY(sl_onnx_fold_need(f, i));
        if (f->in[i]->count != 1 || sl_onnx_konst_has_batch(f->in[i]))
            return sl_fail(SL_ERR_REFUSED, "a range needs three plain numbers");
    }
    double from = sl_onnx_konst_number(f->in[0], 0), to = sl_onnx_konst_number(f->in[1], 0);
    double step = sl_onnx_konst_number(f->in[2], 0),
           length = step == 0 ? 0 : ceil((to - from) / step);
    int64_t count = length > 0 && length < (double)SL_ONNX_KONST_MAX * 2 ? (int64_t)length : 0;
    SL_TRY(sl_onnx_konst_new(f->arena, f->in[0]->type, 1, &count, &f->out[0]));
    for (int64_t i = 0; i < count; i++) {
        if (f->out[0]->f)
            f->out[0]->f[i] = from + (double)i * step;
        else
            f->out[0]->i[i].n = (int64_t)from + i * (int64_t)step;
    }
    return SL_OK;
}

static sl_err fold_trilu(const struct sl_onnx_fold *f) {
    int64_t k = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    bool upper = sl_onnx_attr_int(f->node, "upper", 1);
    if (f->node->in_count > 1 && f->in[1])
        SL_TRY(sl_onnx_konst_int(f->in[1], 0, &k));
    if (a->rank < 2)
        return sl_fail(SL_ERR_INPUT, "a matrix is needed");
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, a->dim, &f->out[0]));
    int64_t columns = a->dim[a->rank - 1], rows = a->dim[a->rank - 2];
    for (int64_t i = 0; i < a->count; i++) {
        int64_t column = i % columns, row = i / columns % rows;
        if (upper ? column - row >= k : column - row <= k)
            copy(f->out[0], i, a, i);
    }
    return SL_OK;
}

static sl_err fold_size(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_INT64, 0, NULL, &f->out[0]));
    f->out[0]->i[0].n = f->in[0]->count;
    return SL_OK;
}

static sl_err fold_shape(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    int64_t rank = f->in[0]->rank, from = sl_onnx_attr_int(f->node, "start", 0);
    int64_t to = sl_onnx_attr_int(f->node, "end", rank);
    from = clamp(from < 0 ? from + rank : from, 0, rank);
    to = clamp(to < 0 ? to + rank : to, from, rank);
    int64_t count = to - from;
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_INT64, 1, &count, &f->out[0]));
    for (int64_t i = 0; i < count; i++)
        f->out[0]->i[i].n = f->in[0]->dim[from + i];
    return SL_OK;
}

const struct sl_onnx_fold_row sl_onnx_fold_move[] = {
    {"Concat", fold_concat},
    {"Constant", fold_constant},
    {"ConstantOfShape", fold_constant_of_shape},
    {"Expand", fold_expand},
    {"Flatten", fold_flatten},
    {"Gather", fold_gather},
    {"Identity", fold_identity},
    {"Range", fold_range},
    {"Reshape", fold_reshape},
    {"Shape", fold_shape},
    {"Size", fold_size},
    {"Slice", fold_slice},
    {"Split", fold_split},
    {"Squeeze", fold_squeeze},
    {"Transpose", fold_transpose},
    {"Trilu", fold_trilu},
    {"Unsqueeze", fold_unsqueeze},
    {0},
};

static const struct sl_onnx_fold_row *find(const struct sl_onnx_fold_row *table, const char *op) {
    for (; table->op; table++)
        if (strcmp(table->op, op) == 0)
            return table;
    return NULL;
}

sl_err sl_onnx_konst_fold(struct sl_arena *arena, const struct sl_onnx_node *node,
                          const struct sl_onnx_konst *const *in, struct sl_onnx_konst **out,
                          bool *known) {
    const struct sl_onnx_fold_row *row = find(sl_onnx_fold_move, node->op);
    struct sl_onnx_fold fold = {arena, node, in, out};
    if (!row)
        row = find(sl_onnx_fold_math, node->op);
    *known = row && !*node->domain && node->out_count > 0;
    return *known ? row->run(&fold) : SL_OK;
}
