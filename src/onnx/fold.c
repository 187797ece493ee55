/* Constant folding of operators that move elements: shapes, slices, joins. */
#include "onnx/fold_math.h"

#include <math.h>

void sl_onnx_fold_copy(const struct sl_onnx_fold *f, struct sl_onnx_konst *to, int64_t at,
                       const struct sl_onnx_konst *from, int64_t source) {
    if (to->f) {
        to->f[at] = from->f[source];
        return;
    }
    to->i[at] = from->i[source];
    if (from->per_sample || to->per_sample)
        sl_onnx_konst_set_sample(f->arena, to, at, sl_onnx_konst_per_sample(from, source));
}

struct sl_onnx_blocks sl_onnx_fold_blocks(const struct sl_onnx_konst *a, int axis) {
    struct sl_onnx_blocks b = {1, a->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        b.outer *= a->dim[i];
    for (int i = axis + 1; i < a->rank; i++)
        b.inner *= a->dim[i];
    return b;
}

/* Makes a constant with the same elements and another shape. */
static sl_err with_shape(const struct sl_onnx_fold *f, int rank, const int64_t *dim,
                         unsigned stretch) {
    struct sl_onnx_konst *out = SL_NEW(f->arena, struct sl_onnx_konst, 1);
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dim[i];
    if (rank > SL_ONNX_RANK || count != f->in[0]->count)
        return sl_fail(SL_ERR_INPUT, "%lld elements do not fit the new shape",
                       (long long)f->in[0]->count);
    *out = *f->in[0];
    out->rank = rank;
    out->stretch = stretch;
    memcpy(out->dim, dim, sizeof *dim * (size_t)rank);
    f->out[0] = out;
    return SL_OK;
}

static sl_err fold_identity(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    return with_shape(f, f->in[0]->rank, f->in[0]->dim, f->in[0]->stretch);
}

static sl_err fold_constant(const struct sl_onnx_fold *f) {
    const struct sl_proto_attr *attr = f->node->attr_count ? &f->node->attrs[0] : NULL;
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

/* Reads sizes from a constant list. A size B becomes 1 in dim and a bit of *stretch; *plain is
 * false if a size is a multiple of B. */
static sl_err sizes_of(const struct sl_onnx_konst *list, int64_t dim[SL_ONNX_RANK],
                       unsigned *stretch, bool *plain) {
    *stretch = 0;
    *plain = list->i != NULL;
    if (list->count > SL_ONNX_RANK)
        return sl_fail(SL_ERR_REFUSED, "more than %d axes", SL_ONNX_RANK);
    for (int64_t i = 0; i < list->count && *plain; i++) {
        dim[i] = list->i[i].n;
        *stretch |= (unsigned)list->i[i].batch << i;
        *plain = !sl_onnx_konst_per_sample(list, i) && (!list->i[i].batch || dim[i] == 1);
    }
    return SL_OK;
}

static sl_err fold_constant_of_shape(const struct sl_onnx_fold *f) {
    const struct sl_proto_attr *value = sl_proto_attr(f->node, "value");
    int64_t dim[SL_ONNX_RANK];
    unsigned stretch;
    bool plain;
    struct sl_onnx_konst *element = NULL;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sizes_of(f->in[0], dim, &stretch, &plain));
    if (!plain)
        return sl_fail(SL_ERR_REFUSED, "a size that is a multiple of the batch");
    int type = value && value->t ? value->t->type : SL_ONNX_FLOAT;
    SL_TRY(sl_onnx_konst_new(f->arena, type, (int)f->in[0]->count, dim, &f->out[0]));
    f->out[0]->stretch = stretch;
    if (!value || !value->t || value->t->count != 1)
        return SL_OK;
    element = sl_onnx_konst_of_tensor(f->arena, value->t);
    SL_TRY(
        sl_onnx_konst_load(f->arena, &(struct sl_proto_file){.open_fd = -1, .path = ""}, element));
    for (int64_t i = 0; i < f->out[0]->count; i++)
        sl_onnx_fold_copy(f, f->out[0], i, element, 0);
    return SL_OK;
}

/* Reshapes a constant. An axis of size B must stay the first one; otherwise the node is lowered. */
static sl_err fold_reshape(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], known = 1;
    unsigned stretch;
    bool plain;
    int free_axis = -1;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    SL_TRY(sizes_of(f->in[1], dim, &stretch, &plain));
    int rank = (int)f->in[1]->count;
    for (int i = 0; i < rank && plain; i++) {
        if (dim[i] == 0 && i < f->in[0]->rank && !sl_proto_attr_int(f->node, "allowzero", 0)) {
            dim[i] = f->in[0]->dim[i];
            stretch |= f->in[0]->stretch & 1u << i;
        }
        if (dim[i] < 0)
            free_axis = i;
        else
            known *= dim[i];
    }
    if (!plain || f->in[0]->stretch > 1)
        return SL_OK;
    if (free_axis >= 0)
        dim[free_axis] = known ? f->in[0]->count / known : 0;
    if (free_axis == 0 && f->in[0]->stretch && stretch == 0 && dim[0] == 1)
        stretch = 1;
    if (stretch != f->in[0]->stretch)
        return SL_OK;
    return with_shape(f, rank, dim, stretch);
}

static sl_err fold_flatten(const struct sl_onnx_fold *f) {
    int64_t dim[2] = {1, 1}, axis = sl_proto_attr_int(f->node, "axis", 1);
    SL_TRY(sl_onnx_fold_need(f, 0));
    axis += axis < 0 ? f->in[0]->rank : 0;
    for (int i = 0; i < f->in[0]->rank; i++)
        dim[i >= axis] *= f->in[0]->dim[i];
    return with_shape(f, 2, dim, 0);
}

static sl_err fold_squeeze(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK];
    bool drop[SL_ONNX_RANK] = {false};
    unsigned stretch = 0;
    int rank = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0], *axes = f->node->in_count > 1 ? f->in[1] : NULL;
    for (int i = 0; i < a->rank; i++)
        drop[i] = !axes && a->dim[i] == 1 && !(a->stretch >> i & 1);
    for (int64_t i = 0; axes && i < axes->count; i++) {
        int64_t axis;
        int at;
        SL_TRY(sl_onnx_konst_int(axes, i, &axis));
        SL_TRY(sl_onnx_fold_axis(f, axis, a->rank, &at));
        if (a->stretch >> at & 1)
            return sl_fail(SL_ERR_REFUSED, "axis %d has not size 1", at);
        drop[at] = true;
    }
    for (int i = 0; i < a->rank; i++)
        if (!drop[i]) {
            stretch |= (a->stretch >> i & 1) << rank;
            dim[rank++] = a->dim[i];
        }
    return with_shape(f, rank, dim, stretch);
}

static sl_err fold_unsqueeze(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK];
    bool added[SL_ONNX_RANK] = {false};
    unsigned stretch = 0;
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
    for (int i = 0, from = 0; i < rank; i++) {
        bool own = !added[i] && from < f->in[0]->rank;
        stretch |= own ? (f->in[0]->stretch >> from & 1) << i : 0;
        dim[i] = own ? f->in[0]->dim[from++] : 1;
    }
    return with_shape(f, (int)rank, dim, stretch);
}

static sl_err fold_concat(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], total = 0, done = 0;
    int axis;
    for (int i = 0; i < f->node->in_count; i++)
        SL_TRY(sl_onnx_fold_need(f, i));
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_axis(f, sl_proto_attr_int(f->node, "axis", 0), f->in[0]->rank, &axis));
    memcpy(dim, f->in[0]->dim, sizeof dim);
    unsigned stretch = f->in[0]->stretch;
    for (int i = 0; i < f->node->in_count; i++) {
        for (int at = 0; at < f->in[0]->rank; at++)
            if (f->in[i]->rank != f->in[0]->rank || !f->in[i]->f != !f->in[0]->f ||
                f->in[i]->stretch != stretch || (at != axis && f->in[i]->dim[at] != dim[at]))
                return sl_fail(SL_ERR_INPUT, "input %d does not match input 0", i);
        total += f->in[i]->dim[axis];
    }
    if (stretch >> axis & 1)
        return f->node->in_count == 1 ? fold_identity(f) : SL_OK;
    dim[axis] = total;
    SL_TRY(sl_onnx_konst_new(f->arena, f->in[0]->type, f->in[0]->rank, dim, &f->out[0]));
    f->out[0]->stretch = stretch;
    for (int i = 0; i < f->node->in_count; i++) {
        struct sl_onnx_blocks b = sl_onnx_fold_blocks(f->in[i], axis);
        for (int64_t outer = 0; outer < b.outer; outer++)
            for (int64_t at = 0; at < b.axis * b.inner; at++)
                sl_onnx_fold_copy(f, f->out[0], (outer * total + done) * b.inner + at, f->in[i],
                                  outer * b.axis * b.inner + at);
        done += b.axis;
    }
    return SL_OK;
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Elements from, from + step, ... of one axis; there are `count`. */
struct range {
    int64_t from, step, count;
};

static sl_err take(const struct sl_onnx_fold *f, const struct sl_onnx_konst *a, int axis,
                   struct range r, struct sl_onnx_konst **out) {
    int64_t dim[SL_ONNX_RANK];
    struct sl_onnx_blocks b = sl_onnx_fold_blocks(a, axis);
    memcpy(dim, a->dim, sizeof dim);
    dim[axis] = r.count;
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, dim, out));
    (*out)->stretch = a->stretch;
    for (int64_t outer = 0; outer < b.outer; outer++)
        for (int64_t i = 0; i < r.count; i++)
            for (int64_t at = 0; at < b.inner; at++)
                sl_onnx_fold_copy(f, *out, (outer * r.count + i) * b.inner + at, a,
                                  (outer * b.axis + r.from + i * r.step) * b.inner + at);
    return SL_OK;
}

/* Cuts out[0] along the i-th listed axis. An axis of size B can only be kept whole: *whole becomes
 * false if the slice does not keep all of it, and then the result is not a constant. */
static sl_err slice_axis(const struct sl_onnx_fold *f, int64_t i, bool *whole) {
    const struct sl_onnx_konst *axes = f->node->in_count > 3 ? f->in[3] : NULL;
    const struct sl_onnx_konst *steps = f->node->in_count > 4 ? f->in[4] : NULL;
    int64_t from, to, which = i, step = 1;
    int axis;
    SL_TRY(sl_onnx_konst_int(f->in[1], i, &from));
    if (axes)
        SL_TRY(sl_onnx_konst_int(axes, i, &which));
    if (steps)
        SL_TRY(sl_onnx_konst_int(steps, i, &step));
    SL_TRY(sl_onnx_fold_axis(f, which, f->in[0]->rank, &axis));
    if (f->out[0]->stretch >> axis & 1) {
        struct sl_dim end =
            f->in[2]->i && i < f->in[2]->count ? f->in[2]->i[i] : (struct sl_dim){0};
        *whole = from == 0 && step == 1 && (end.batch ? end.n == 1 : end.n >= INT32_MAX);
        return SL_OK;
    }
    SL_TRY(sl_onnx_konst_int(f->in[2], i, &to));
    int64_t n = f->out[0]->dim[axis];
    if (step == 0)
        return sl_fail(SL_ERR_INPUT, "a step of 0");
    bool up = step > 0;
    /* Longer steps leave the axis, too. */
    int64_t stride = up ? (step < n ? step : n + 1) : (step > -n ? -step : n + 1);
    from = clamp(from < 0 ? from + n : from, up ? 0 : -1, up ? n : n - 1);
    to = clamp(to < 0 && to >= -n ? to + n : to, up ? 0 : -1, n);
    int64_t count = ((up ? to - from : from - to) + stride - 1) / stride;
    step = up ? stride : -stride;
    return take(f, f->out[0], axis, (struct range){from, step, count > 0 ? count : 0}, &f->out[0]);
}

static sl_err fold_slice(const struct sl_onnx_fold *f) {
    bool whole = true;
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_onnx_fold_need(f, i));
    SL_TRY(fold_identity(f));
    for (int64_t i = 0; i < f->in[1]->count && whole; i++)
        SL_TRY(slice_axis(f, i, &whole));
    if (!whole)
        f->out[0] = NULL;
    return SL_OK;
}

static sl_err fold_split(const struct sl_onnx_fold *f) {
    int axis;
    int64_t from = 0, size;
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *sizes = f->node->in_count > 1 ? f->in[1] : NULL;
    SL_TRY(sl_onnx_fold_axis(f, sl_proto_attr_int(f->node, "axis", 0), f->in[0]->rank, &axis));
    for (int i = 0; i < f->node->out_count && !(f->in[0]->stretch >> axis & 1); i++) {
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
    const struct sl_proto_attr *attr = sl_proto_attr(f->node, "perm");
    int64_t dim[SL_ONNX_RANK], stride[SL_ONNX_RANK], step[SL_ONNX_RANK], size = 1;
    unsigned stretch = 0;
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
        stretch |= (a->stretch >> from & 1) << i;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, dim, &f->out[0]));
    f->out[0]->stretch = stretch;
    for (int64_t i = 0; i < f->out[0]->count; i++) {
        int64_t at = i, source = 0;
        for (int axis = a->rank - 1; axis >= 0; at /= dim[axis--])
            source += at % dim[axis] * step[axis];
        sl_onnx_fold_copy(f, f->out[0], i, a, source < a->count ? source : 0);
    }
    return SL_OK;
}

/* Copies element `at` of `out` from `a`, at its index modulo the sizes of `a`. */
static void wrap(const struct sl_onnx_fold *f, const struct sl_onnx_konst *a,
                 struct sl_onnx_konst *out, int64_t i) {
    int64_t at = i, source = 0, step = 1;
    for (int axis = out->rank - 1; axis >= 0; at /= out->dim[axis--]) {
        int own = axis - (out->rank - a->rank);
        if (own >= 0) {
            source += at % out->dim[axis] % a->dim[own] * step;
            step *= a->dim[own];
        }
    }
    sl_onnx_fold_copy(f, out, i, a, source);
}

static sl_err fold_expand(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], want[SL_ONNX_RANK];
    unsigned stretch;
    bool plain;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sizes_of(f->in[1], want, &stretch, &plain));
    if (!plain)
        return SL_OK;
    int rank = a->rank > (int)f->in[1]->count ? a->rank : (int)f->in[1]->count;
    stretch = stretch << (rank - (int)f->in[1]->count) | a->stretch << (rank - a->rank);
    for (int i = 0; i < rank; i++) {
        int own = i - (rank - a->rank), other = i - (rank - (int)f->in[1]->count);
        int64_t x = own < 0 ? 1 : a->dim[own], y = other < 0 ? 1 : want[other];
        if ((x != y && x != 1 && y != 1) || ((stretch >> i & 1) && (x != 1 || y != 1)))
            return sl_fail(SL_ERR_INPUT, "size %lld does not expand to %lld", (long long)x,
                           (long long)y);
        dim[i] = x == 1 ? y : x;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, rank, dim, &f->out[0]));
    f->out[0]->stretch = stretch;
    for (int64_t i = 0; i < f->out[0]->count; i++)
        wrap(f, a, f->out[0], i);
    return SL_OK;
}

static sl_err fold_tile(const struct sl_onnx_fold *f) {
    int64_t dim[SL_ONNX_RANK], by[SL_ONNX_RANK];
    unsigned stretch;
    bool plain;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sizes_of(f->in[1], by, &stretch, &plain));
    if (!plain || f->in[1]->count != a->rank)
        return SL_OK;
    for (int i = 0; i < a->rank; i++) {
        if (by[i] < 0 || ((stretch >> i & 1) && a->dim[i] != 1) ||
            ((a->stretch >> i & 1) && by[i] != 1) || (stretch & a->stretch) ||
            __builtin_mul_overflow(a->dim[i], by[i], &dim[i]))
            return SL_OK;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, dim, &f->out[0]));
    f->out[0]->stretch = stretch | a->stretch;
    for (int64_t i = 0; i < f->out[0]->count; i++)
        wrap(f, a, f->out[0], i);
    return SL_OK;
}

const struct sl_onnx_fold_row sl_onnx_fold_move[] = {
    {"Concat", fold_concat, true},
    {"Constant", fold_constant, true},
    {"ConstantOfShape", fold_constant_of_shape, true},
    {"Expand", fold_expand, true},
    {"Flatten", fold_flatten, false},
    {"Identity", fold_identity, true},
    {"Reshape", fold_reshape, true},
    {"Slice", fold_slice, true},
    {"Split", fold_split, true},
    {"Squeeze", fold_squeeze, true},
    {"Tile", fold_tile, true},
    {"Transpose", fold_transpose, true},
    {"Unsqueeze", fold_unsqueeze, true},
    {0},
};

static const struct sl_onnx_fold_row *find(const struct sl_onnx_fold_row *table, const char *op) {
    for (; table->op; table++)
        if (strcmp(table->op, op) == 0)
            return table;
    return NULL;
}

sl_err sl_onnx_konst_fold(struct sl_arena *arena, const struct sl_proto_node *node,
                          const struct sl_onnx_konst *const *in, struct sl_onnx_konst **out,
                          bool *known) {
    const struct sl_onnx_fold_row *row = find(sl_onnx_fold_move, node->op);
    struct sl_onnx_fold fold = {arena, node, in, out};
    if (!row)
        row = find(sl_onnx_fold_math, node->op);
    if (!row)
        row = find(sl_onnx_fold_index, node->op);
    *known = row && !*node->domain && node->out_count > 0;
    for (int i = 0; i < node->in_count && *known; i++)
        *known = row->stretched || !in[i] || in[i]->stretch == 0;
    return *known ? row->run(&fold) : SL_OK;
}
