/* Constant folding by index: sizes, ranges, look-ups, running sums. */
#include "onnx/fold_math.h"

#include <math.h>

static sl_err fold_size(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_INT64, 0, NULL, &f->out[0]));
    f->out[0]->i[0].n = f->in[0]->count;
    return SL_OK;
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

static sl_err fold_shape(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    int64_t rank = f->in[0]->rank, from = sl_proto_attr_int(f->node, "start", 0);
    int64_t to = sl_proto_attr_int(f->node, "end", rank);
    from = clamp(from < 0 ? from + rank : from, 0, rank);
    to = clamp(to < 0 ? to + rank : to, from, rank);
    int64_t count = to - from;
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_INT64, 1, &count, &f->out[0]));
    for (int64_t i = 0; i < count; i++)
        f->out[0]->i[i] = sl_onnx_konst_dim(f->in[0], (int)(from + i));
    return SL_OK;
}

/* Makes 0, 1, ... B - 1: the numbers of the samples. */
static sl_err samples(const struct sl_onnx_fold *f) {
    const int64_t one = 1;
    double from = sl_onnx_konst_number(f->in[0], 0), step = sl_onnx_konst_number(f->in[2], 0);
    struct sl_dim to = f->in[1]->i[0];
    if (from != 0 || step != 1 || to.n != 1 || !f->in[0]->i || sl_onnx_konst_has_batch(f->in[0]))
        return sl_fail(SL_ERR_REFUSED, "a range up to the batch size must be 0, 1, ... B - 1");
    SL_TRY(sl_onnx_konst_new(f->arena, f->in[0]->type, 1, &one, &f->out[0]));
    f->out[0]->stretch = 1;
    sl_onnx_konst_set_sample(f->arena, f->out[0], 0, 1);
    return SL_OK;
}

static sl_err fold_range(const struct sl_onnx_fold *f) {
    for (int i = 0; i < 3; i++) {
        SL_TRY(sl_onnx_fold_need(f, i));
        if (f->in[i]->count != 1 || (i != 1 && sl_onnx_konst_has_batch(f->in[i])))
            return sl_fail(SL_ERR_REFUSED, "a range needs three plain numbers");
    }
    if (f->in[1]->i && sl_onnx_konst_per_sample(f->in[1], 0))
        return sl_fail(SL_ERR_REFUSED, "a range needs three plain numbers");
    if (f->in[1]->i && f->in[1]->i[0].batch)
        return samples(f);
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
    bool upper = sl_proto_attr_int(f->node, "upper", 1);
    if (f->node->in_count > 1 && f->in[1])
        SL_TRY(sl_onnx_konst_int(f->in[1], 0, &k));
    if (a->rank < 2)
        return sl_fail(SL_ERR_INPUT, "a matrix is needed");
    if (a->stretch >> (a->rank - 2))
        return SL_OK;
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    int64_t columns = a->dim[a->rank - 1], rows = a->dim[a->rank - 2];
    for (int64_t i = 0; i < a->count; i++) {
        int64_t column = i % columns, row = i / columns % rows;
        if (upper ? column - row >= k : column - row <= k)
            sl_onnx_fold_copy(f, f->out[0], i, a, i);
    }
    return SL_OK;
}

/* Returns element `at` of a list of indices; a negative one counts from the end. */
static sl_err index_at(const struct sl_onnx_konst *index, int64_t at, int64_t size, int64_t *out) {
    SL_TRY(sl_onnx_konst_int(index, at, out));
    *out += *out < 0 ? size : 0;
    if (*out < 0 || *out >= size)
        return sl_fail(SL_ERR_INPUT, "index %lld of an axis of size %lld", (long long)*out,
                       (long long)size);
    return SL_OK;
}

static sl_err fold_gather(const struct sl_onnx_fold *f) {
    int64_t dim[2 * SL_ONNX_RANK];
    unsigned stretch = 0;
    int axis, rank = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *index = f->in[1];
    SL_TRY(sl_onnx_fold_axis(f, sl_proto_attr_int(f->node, "axis", 0), a->rank, &axis));
    if ((a->stretch >> axis & 1) || index->per_sample || a->rank - 1 + index->rank > SL_ONNX_RANK)
        return SL_OK;
    struct sl_onnx_blocks b = sl_onnx_fold_blocks(a, axis);
    for (int i = 0; i < a->rank; i++) {
        for (int k = 0; i == axis && k < index->rank; k++) {
            stretch |= (index->stretch >> k & 1) << rank;
            dim[rank++] = index->dim[k];
        }
        if (i == axis)
            continue;
        stretch |= (a->stretch >> i & 1) << rank;
        dim[rank++] = a->dim[i];
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, rank, dim, &f->out[0]));
    f->out[0]->stretch = stretch;
    for (int64_t i = 0; i < index->count; i++) {
        int64_t row;
        SL_TRY(index_at(index, i, b.axis, &row));
        for (int64_t outer = 0; outer < b.outer; outer++)
            for (int64_t at = 0; at < b.inner; at++)
                sl_onnx_fold_copy(f, f->out[0], (outer * index->count + i) * b.inner + at, a,
                                  (outer * b.axis + row) * b.inner + at);
    }
    return SL_OK;
}

static sl_err fold_gather_elements(const struct sl_onnx_fold *f) {
    int axis;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *index = f->in[1];
    SL_TRY(sl_onnx_fold_axis(f, sl_proto_attr_int(f->node, "axis", 0), a->rank, &axis));
    if (a->rank != index->rank || a->stretch != index->stretch || (a->stretch >> axis & 1))
        return SL_OK;
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, index->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    for (int64_t i = 0; i < index->count; i++) {
        int64_t at = i, source = 0, step = 1, row;
        SL_TRY(index_at(index, i, a->dim[axis], &row));
        for (int k = a->rank - 1; k >= 0; at /= index->dim[k--]) {
            int64_t place = k == axis ? row : at % index->dim[k];
            if (place >= a->dim[k])
                return sl_fail(SL_ERR_INPUT, "the indices reach beyond axis %d", k);
            source += place * step;
            step *= a->dim[k];
        }
        sl_onnx_fold_copy(f, f->out[0], i, a, source);
    }
    return SL_OK;
}

/* Returns where one row of indices points to. A sample number counts as 0 on an axis of size B. */
static sl_err place_of(const struct sl_onnx_konst *a, const struct sl_onnx_konst *index,
                       int64_t row, int64_t *out) {
    int64_t parts = index->dim[index->rank - 1], at;
    *out = 0;
    for (int64_t k = 0; k < parts; k++) {
        bool sample = sl_onnx_konst_per_sample(index, row * parts + k) == 1;
        if (!sample)
            SL_TRY(index_at(index, row * parts + k, a->dim[k], &at));
        *out = *out * a->dim[k] + (sample ? 0 : at);
    }
    return SL_OK;
}

static sl_err fold_gather_nd(const struct sl_onnx_fold *f) {
    int64_t dim[2 * SL_ONNX_RANK], inner = 1;
    int rank = 0;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *index = f->in[1];
    int64_t parts = index->rank ? index->dim[index->rank - 1] : 0;
    if (sl_proto_attr_int(f->node, "batch_dims", 0) || parts < 1 || parts > a->rank ||
        a->stretch > 1 || index->rank - 1 + a->rank - parts > SL_ONNX_RANK)
        return SL_OK;
    /* axis 0 of size B must be indexed by the sample number, or not at all */
    for (int64_t i = 0; i < index->count; i++)
        if ((sl_onnx_konst_per_sample(index, i) == 1) != (i % parts == 0 && a->stretch))
            return SL_OK;
    for (int i = 0; i < index->rank - 1; i++)
        dim[rank++] = index->dim[i];
    for (int i = (int)parts; i < a->rank; i++) {
        inner *= a->dim[i];
        dim[rank++] = a->dim[i];
    }
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, rank, dim, &f->out[0]));
    f->out[0]->stretch = index->stretch;
    for (int64_t row = 0; row < index->count / parts; row++) {
        int64_t from;
        SL_TRY(place_of(a, index, row, &from));
        for (int64_t i = 0; i < inner; i++)
            sl_onnx_fold_copy(f, f->out[0], row * inner + i, a, from * inner + i);
    }
    return SL_OK;
}

static sl_err fold_cumsum(const struct sl_onnx_fold *f) {
    int64_t which;
    int axis;
    SL_TRY(sl_onnx_fold_need(f, 0));
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_int(f->in[1], 0, &which));
    SL_TRY(sl_onnx_fold_axis(f, which, a->rank, &axis));
    bool exclusive = sl_proto_attr_int(f->node, "exclusive", 0) != 0;
    bool reverse = sl_proto_attr_int(f->node, "reverse", 0) != 0;
    if ((a->stretch >> axis & 1) || sl_onnx_konst_has_batch(a))
        return SL_OK;
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    struct sl_onnx_blocks b = sl_onnx_fold_blocks(a, axis);
    for (int64_t line = 0; line < b.outer * b.inner; line++) {
        double sum = 0;
        for (int64_t i = 0; i < b.axis; i++) {
            int64_t k = reverse ? b.axis - 1 - i : i;
            int64_t at = (line / b.inner * b.axis + k) * b.inner + line % b.inner;
            double before = sum;
            sum += sl_onnx_konst_number(a, at);
            if (a->f)
                f->out[0]->f[at] = exclusive ? before : sum;
            else
                f->out[0]->i[at].n = (int64_t)(exclusive ? before : sum);
        }
    }
    return SL_OK;
}

const struct sl_onnx_fold_row sl_onnx_fold_index[] = {
    {"CumSum", fold_cumsum, true},
    {"Gather", fold_gather, true},
    {"GatherElements", fold_gather_elements, true},
    {"GatherND", fold_gather_nd, true},
    {"Range", fold_range, false},
    {"Shape", fold_shape, true},
    {"Size", fold_size, false},
    {"Trilu", fold_trilu, true},
    {0},
};
