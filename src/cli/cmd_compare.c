/* sluice compare: two checkpoints, bit for bit. */
#include "base/json.h"
#include "ckpt/ckpt.h"
#include "cli/command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How one tensor differs. */
struct difference {
    const char *name;
    const char *reason;             /* "" when shapes agree and values differ */
    int64_t elements, count, first; /* that differ, of how many, the first one's place */
    double a, b, largest;           /* its values; the largest difference of the tensor */
};

struct comparison {
    struct sl_ckpt *a, *b;
    bool weights_only;
    int64_t tensors, size_bytes, differing;
    struct difference first;
    double largest; /* over all tensors */
    const char *largest_name;
};

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
                          const unsigned char *b, struct difference *out) {
    int64_t size = sl_st_dtype_bytes((enum sl_st_dtype)tensor->dtype);
    *out = (struct difference){.name = tensor->name, .reason = ""};
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

static void note_difference(struct comparison *all, const struct difference *found) {
    if (all->differing++ == 0)
        all->first = *found;
    if (!*found->reason &&
        (!all->largest_name || found->largest > all->largest || isnan(found->largest))) {
        all->largest = found->largest;
        all->largest_name = found->name;
    }
}

static sl_err compare_pair(struct comparison *all, const struct sl_ckpt_tensor *a,
                           const struct sl_ckpt_tensor *b) {
    struct difference found = {.name = a->name, .reason = "another type or shape"};
    if (!same_shape(a, b)) {
        note_difference(all, &found);
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
        note_difference(all, &found);
out:
    free(bytes_a);
    free(bytes_b);
    return err;
}

static const struct sl_ckpt_tensor *next(const struct comparison *all, const struct sl_ckpt *ckpt,
                                         int64_t *at) {
    for (; *at < sl_ckpt_count(ckpt); ++*at) {
        const struct sl_ckpt_tensor *tensor = sl_ckpt_at(ckpt, *at);
        if (!all->weights_only || sl_ckpt_group_of(ckpt, tensor) == SL_CKPT_WEIGHTS)
            return tensor;
    }
    return NULL;
}

/* Both lists are sorted: walk them together. */
static sl_err compare_tensors(struct comparison *all) {
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
        struct difference found = {.name = order < 0 ? a->name : b->name,
                                   .reason =
                                       order < 0 ? "only in the first" : "only in the second"};
        note_difference(all, &found);
        i += order < 0;
        k += order > 0;
    }
}

static bool same_place(const struct comparison *all) {
    return sl_ckpt_step(all->a) == sl_ckpt_step(all->b) &&
           sl_ckpt_seed(all->a) == sl_ckpt_seed(all->b) &&
           sl_ckpt_cursor(all->a) == sl_ckpt_cursor(all->b);
}

static void put_text(struct sl_text *text, const struct comparison *all) {
    char human[SL_HUMAN_BYTES];
    const struct difference *first = &all->first;
    if (!all->differing && same_place(all)) {
        sl_text_printf(text, "equal: step %lld, %lld tensors, %s\n",
                       (long long)sl_ckpt_step(all->a), (long long)all->tensors,
                       sl_human_bytes(all->size_bytes, human));
        return;
    }
    if (!same_place(all))
        sl_text_printf(text, "step %lld and %lld, seed %llu and %llu, cursor %lld and %lld\n",
                       (long long)sl_ckpt_step(all->a), (long long)sl_ckpt_step(all->b),
                       (unsigned long long)sl_ckpt_seed(all->a),
                       (unsigned long long)sl_ckpt_seed(all->b), (long long)sl_ckpt_cursor(all->a),
                       (long long)sl_ckpt_cursor(all->b));
    sl_text_printf(text, "%lld of %lld tensors differ\n", (long long)all->differing,
                   (long long)all->tensors);
    if (!all->differing)
        return;
    if (*first->reason)
        sl_text_printf(text, "first: '%s': %s\n", first->name, first->reason);
    else
        sl_text_printf(text, "first: '%s': %lld of %lld elements; element %lld is %.9g and %.9g\n",
                       first->name, (long long)first->elements, (long long)first->count,
                       (long long)first->first, first->a, first->b);
    if (all->largest_name)
        sl_text_printf(text, "largest difference: %.9g in '%s'\n", all->largest, all->largest_name);
}

static void put_json(struct sl_text *text, const struct comparison *all) {
    struct sl_json_out json = {.text = text, .indent = 2};
    const struct difference *first = &all->first;
    sl_json_open(&json, '{');
    sl_json_put_bool(&json, "equal", !all->differing && same_place(all));
    sl_json_put_bool(&json, "same_step_seed_cursor", same_place(all));
    sl_json_put_int(&json, "step_a", sl_ckpt_step(all->a));
    sl_json_put_int(&json, "step_b", sl_ckpt_step(all->b));
    sl_json_put_int(&json, "tensors", all->tensors);
    sl_json_put_int(&json, "bytes", all->size_bytes);
    sl_json_put_int(&json, "differing", all->differing);
    if (all->differing) {
        sl_json_put_string(&json, "first", first->name);
        sl_json_put_string(&json, "reason", *first->reason ? first->reason : "values");
        sl_json_put_int(&json, "first_elements", first->elements);
        sl_json_put_double(&json, "first_largest", first->largest);
        sl_json_put_double(&json, "largest", all->largest);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static sl_err run(const struct sl_args *args) {
    struct comparison all = {.weights_only = sl_args_has(args, "--weights")};
    struct sl_text text = {0};
    int64_t step = -1;
    sl_err err = SL_OK;
    SL_TRY(sl_args_int(args, "--step", 0, INT64_MAX, &step));
    SL_TRY_OUT(sl_ckpt_open(args->positional[0], step, &all.a));
    SL_TRY_OUT(sl_ckpt_open(args->positional[1], step, &all.b));
    SL_TRY_OUT(compare_tensors(&all));
    if (sl_args_has(args, "--json"))
        put_json(&text, &all);
    else
        put_text(&text, &all);
    SL_TRY_OUT(sl_cli_print(&text));
    if (all.differing || !same_place(&all))
        err = sl_fail(SL_ERR_REFUSED, "compare: %s and %s differ", sl_ckpt_dir(all.a),
                      sl_ckpt_dir(all.b));
out:
    sl_text_free(&text);
    sl_ckpt_close(all.a);
    sl_ckpt_close(all.b);
    return err;
}

static const struct sl_option options[] = {
    {"--step", "N", "compare step N of both (default: the latest of each)", false},
    {"--weights", NULL, "leave out optimizer state and older weight versions", false},
    {0},
};

const struct sl_command sl_cli_cmd_compare = {
    .name = "compare",
    .synopsis = "RUN_A RUN_B [--step N] [--weights] [--json]",
    .brief = "compare checkpoints bit for bit",
    .detail =
        "RUN is a run's directory, its ckpt/ or one step's directory. Tensors are compared by "
        "name,\nso the number of workers and the cut do not matter; every checksum is "
        "verified.\nExit status 0: equal, also in step, seed and data cursor; 1: they differ.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
