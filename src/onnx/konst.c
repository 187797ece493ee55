/* Constant tensors: makes, loads and queries them. */
#include "onnx/konst.h"

sl_err sl_onnx_konst_new(struct sl_arena *arena, int type, int rank, const int64_t *dim,
                         struct sl_onnx_konst **out) {
    struct sl_onnx_konst *konst = SL_NEW(arena, struct sl_onnx_konst, 1);
    konst->type = type;
    konst->rank = rank;
    konst->count = 1;
    *out = konst;
    if (rank > SL_ONNX_RANK)
        return sl_fail(SL_ERR_REFUSED, "a constant has %d axes, the limit is %d", rank,
                       SL_ONNX_RANK);
    for (int i = 0; i < rank; i++) {
        konst->dim[i] = dim[i];
        if (dim[i] < 0 || (dim[i] && konst->count > SL_ONNX_KONST_MAX / dim[i]))
            return sl_fail(SL_ERR_REFUSED,
                           "a constant has size %lld on axis %d; constants of at "
                           "most %lld elements are computed",
                           (long long)dim[i], i, (long long)SL_ONNX_KONST_MAX);
        konst->count *= dim[i];
    }
    if (sl_proto_type_is_float(type))
        konst->f = SL_NEW(arena, double, konst->count + 1);
    else if (sl_proto_type_is_int(type))
        konst->i = SL_NEW(arena, struct sl_dim, konst->count + 1);
    else
        return sl_fail(SL_ERR_REFUSED, "constants of type %s are not computed",
                       sl_proto_type_name(type));
    return SL_OK;
}

struct sl_onnx_konst *sl_onnx_konst_of_tensor(struct sl_arena *arena,
                                              const struct sl_proto_tensor *tensor) {
    struct sl_onnx_konst *konst = SL_NEW(arena, struct sl_onnx_konst, 1);
    konst->type = tensor->type;
    konst->rank = tensor->rank;
    memcpy(konst->dim, tensor->dim, sizeof konst->dim);
    konst->count = tensor->count;
    konst->from = tensor;
    return konst;
}

sl_err sl_onnx_konst_load(struct sl_arena *arena, struct sl_proto_file *file,
                          struct sl_onnx_konst *konst) {
    struct sl_onnx_konst *full;
    if (konst->f || konst->i)
        return SL_OK;
    SL_TRY(sl_onnx_konst_new(arena, konst->type, konst->rank, konst->dim, &full));
    konst->f = full->f;
    if (konst->f)
        return sl_proto_read_floats(file, konst->from, 0, konst->count, konst->f);
    int64_t *whole = sl_realloc(NULL, sizeof *whole * (size_t)(konst->count + 1));
    sl_err err = sl_proto_read_ints(file, konst->from, 0, konst->count, whole);
    for (int64_t i = 0; err == SL_OK && i < konst->count; i++)
        full->i[i] = (struct sl_dim){whole[i], false};
    konst->i = err == SL_OK ? full->i : NULL;
    free(whole);
    return err;
}

sl_err sl_onnx_konst_int(const struct sl_onnx_konst *konst, int64_t at, int64_t *out) {
    if (!konst->i || at >= konst->count)
        return sl_fail(SL_ERR_REFUSED, "a whole number is needed");
    if (konst->i[at].batch || sl_onnx_konst_per_sample(konst, at))
        return sl_fail(SL_ERR_REFUSED, "a number is needed that does not depend on the batch size");
    *out = konst->i[at].n;
    return SL_OK;
}

void sl_onnx_konst_set_sample(struct sl_arena *arena, struct sl_onnx_konst *konst, int64_t at,
                              int64_t per_sample) {
    if (!konst->per_sample && per_sample)
        konst->per_sample = SL_NEW(arena, int64_t, konst->count + 1);
    if (konst->per_sample)
        konst->per_sample[at] = per_sample;
}

int64_t sl_onnx_konst_per_sample(const struct sl_onnx_konst *konst, int64_t at) {
    return konst->per_sample ? konst->per_sample[at] : 0;
}

struct sl_dim sl_onnx_konst_dim(const struct sl_onnx_konst *konst, int axis) {
    return (struct sl_dim){konst->dim[axis], konst->stretch >> axis & 1};
}

double sl_onnx_konst_number(const struct sl_onnx_konst *konst, int64_t at) {
    return konst->f ? konst->f[at] : (double)konst->i[at].n;
}

bool sl_onnx_konst_has_batch(const struct sl_onnx_konst *konst) {
    for (int64_t i = 0; konst->i && i < konst->count; i++)
        if (konst->i[i].batch || sl_onnx_konst_per_sample(konst, i))
            return true;
    return false;
}

bool sl_onnx_konst_uniform(const struct sl_onnx_konst *konst, double *value) {
    if ((!konst->f && !konst->i) || konst->count == 0 || sl_onnx_konst_has_batch(konst))
        return false;
    *value = sl_onnx_konst_number(konst, 0);
    for (int64_t i = 1; i < konst->count; i++)
        if (sl_onnx_konst_number(konst, i) != *value)
            return false;
    return true;
}
