/* Comparing two checkpoints tensor by tensor. */
#include "ckpt/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double half(unsigned bits) {
    int exponent = (int)(bits >> 10 & 31);
    double mantissa = (double)(bits & 1023), sign = bits >> 15 ? -1 : 1;
    if (exponent == 31)
        return mantissa != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24));
}

#define DEFINE_AS(type)                                                                            \
    static double as_##type(const void *at) {                                                      \
        type x;                                                                                    \
        memcpy(&x, at, sizeof x);                                                                  \
        return (double)x;                                                                          \
    }
DEFINE_AS(double)
DEFINE_AS(float)
DEFINE_AS(int64_t)
DEFINE_AS(uint64_t)
DEFINE_AS(int32_t)
DEFINE_AS(uint32_t)
DEFINE_AS(int16_t)
DEFINE_AS(uint16_t)

static double element(enum sl_st_dtype dtype, const unsigned char *at) {
    const unsigned char wide[4] = {0, 0, at[0], dtype == SL_ST_BF16 ? at[1] : 0};
    switch (dtype) {
    case SL_ST_F64: return as_double(at);
    case SL_ST_F32: return as_float(at);
    case SL_ST_BF16: return as_float(wide);
    case SL_ST_F16: return half((unsigned)as_uint16_t(at));
    case SL_ST_I64: return as_int64_t(at);
    case SL_ST_U64: return as_uint64_t(at);
    case SL_ST_I32: return as_int32_t(at);
    case SL_ST_U32: return as_uint32_t(at);
    case SL_ST_I16: return as_int16_t(at);
    case SL_ST_U16: return as_uint16_t(at);
    case SL_ST_I8: return at[0] < 128 ? at[0] : at[0] - 256;
    default: return at[0];
    }
}

static void compare_bytes(const struct sl_ckpt_tensor *tensor, const unsigned char *a,
                          const unsigned char *b, struct sl_ckpt_difference *out) {
    int64_t size = sl_st_dtype_bytes((enum sl_st_dtype)tensor->dtype);
    *out = (struct sl_ckpt_difference){.name = tensor->name, .reason = ""};
    out->count = sl_ckpt_tensor_bytes(tensor) / size;
    for (int64_t i = 0; i < out->count; i++) {
        if (memcmp(a + i * size, b + i * size, (size_t)size) == 0)
            continue;
        double x = element((enum sl_st_dtype)tensor->dtype, a + i * size);
        double y = element((enum sl_st_dtype)tensor->dtype, b + i * size);
        double distance = fabs(x - y);
        if (out->elements++ == 0) {
            out->first = i;
            out->a = x;
            out->b = y;
        }
        if (distance > out->largest || isnan(distance))
            out->largest = distance;
    }
}

static bool same_shape(const struct sl_ckpt_tensor *a, const struct sl_ckpt_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
}

static void add_difference(struct sl_ckpt_comparison *all, const struct sl_ckpt_difference *found) {
    if (all->differing++ == 0)
        all->first = *found;
    if (!*found->reason &&
        (!all->largest_name || found->largest > all->largest || isnan(found->largest))) {
        all->largest = found->largest;
        all->largest_name = found->name;
    }
}

static sl_err compare_pair(struct sl_ckpt_comparison *all, const struct sl_ckpt_tensor *a,
                           const struct sl_ckpt_tensor *b) {
    struct sl_ckpt_difference found = {.name = a->name, .reason = "another type or shape"};
    if (!same_shape(a, b)) {
        add_difference(all, &found);
        return SL_OK;
    }
    size_t size = (size_t)sl_ckpt_tensor_bytes(a);
    unsigned char *bytes_a = sl_realloc(NULL, size + 1), *bytes_b = sl_realloc(NULL, size + 1);
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_ckpt_read(all->a, a, bytes_a));
    SL_TRY_OUT(sl_ckpt_read(all->b, b, bytes_b));
    all->size_bytes += (int64_t)size;
    compare_bytes(a, bytes_a, bytes_b, &found);
    if (found.elements)
        add_difference(all, &found);
out:
    free(bytes_a);
    free(bytes_b);
    return err;
}

static const struct sl_ckpt_tensor *next(const struct sl_ckpt_comparison *all,
                                         const struct sl_ckpt *ckpt, int64_t *at) {
    for (; *at < sl_ckpt_count(ckpt); ++*at) {
        const struct sl_ckpt_tensor *tensor = sl_ckpt_at(ckpt, *at);
        if (!all->weights_only || sl_ckpt_group_of(ckpt, tensor) == SL_CKPT_WEIGHTS)
            return tensor;
    }
    return NULL;
}

/* Walks both lists at once; they are sorted by name. */
sl_err sl_ckpt_compare(struct sl_ckpt_comparison *all) {
    for (int64_t i = 0, k = 0;;) {
        const struct sl_ckpt_tensor *a = next(all, all->a, &i), *b = next(all, all->b, &k);
        if (!a && !b)
            return SL_OK;
        int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
        all->tensors++;
        if (order == 0) {
            SL_TRY(compare_pair(all, a, b));
            i++;
            k++;
            continue;
        }
        struct sl_ckpt_difference found = {.name = order < 0 ? a->name : b->name,
                                           .reason = order < 0 ? "only in the first"
                                                               : "only in the second"};
        add_difference(all, &found);
        i += order < 0;
        k += order > 0;
    }
}

bool sl_ckpt_same_place(const struct sl_ckpt_comparison *all) {
    return sl_ckpt_step(all->a) == sl_ckpt_step(all->b) &&
           sl_ckpt_seed(all->a) == sl_ckpt_seed(all->b) &&
           sl_ckpt_cursor(all->a) == sl_ckpt_cursor(all->b);
}
