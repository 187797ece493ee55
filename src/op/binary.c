/* Functions of two tensors with numpy's broadcasting, comparisons, and a choice between two.
 *
 *   NAME      a b       y = f(a, b)
 *   NAME_da   dy a b    dy df/da, in the shape of y; sum_to then sums it to the shape of a
 *   NAME_db   dy a b    the same for b
 *
 * Truth values are ints: results are 1 or 0; in inputs any int but 0 is true. If the inputs of
 * max or min are equal, each side gets half of the gradient, as in PyTorch. */
#include "op/common.h"

#include <math.h>

/* Walks over up to three inputs that are broadcast to output 0. */
struct walks {
    struct sl_broadcast at[3];
    int count;
};

static struct walks walks_open(const struct sl_ref *r) {
    struct walks w = {.count = r->in_count};
    for (int i = 0; i < w.count; i++)
        sl_op_broadcast_open(&w.at[i], &r->in[i].shape, &r->out[0].shape);
    return w;
}

static void walks_next(struct walks *w) {
    for (int i = 0; i < w->count; i++)
        sl_op_broadcast_next(&w->at[i]);
}

typedef double slope_fn(double dy, double a, double b);

static void ref_slope(const struct sl_ref *r, slope_fn *f) {
    struct walks w = walks_open(r);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++, walks_next(&w))
        r->out[0].f[i] = f(r->in[0].f[i], r->in[1].f[w.at[1].offset], r->in[2].f[w.at[2].offset]);
}

/* dy has the shape of y; a and b broadcast to it. */
static sl_err infer_slope(struct sl_infer *c) {
    c->out[0] = c->in[0];
    return SL_OK;
}

/* The larger of two numbers; NaN if either is NaN. */
static double larger(double a, double b) { return a > b || isnan(a) ? a : b; }
/* 1 if `a` is the larger one, 1/2 if they are equal, else 0. */
static double share(double a, double b) {
    if (a == b)
        return 0.5;
    return a > b ? 1 : 0;
}

#define SLOPE(op, side, f)                                                                         \
    static void ref_##op##_##side(const struct sl_ref *r) { ref_slope(r, f); }                     \
    const struct sl_op sl_op_##op##_##side = {                                                     \
        .name = #op "_" #side,                                                                     \
        .brief = "gradient of " #op ", before the sum over broadcast axes",                        \
        .inputs = "dy a b",                                                                        \
        .outputs = #side,                                                                          \
        .internal = true,                                                                          \
        .infer = infer_slope,                                                                      \
        .flops = flops_##op,                                                                       \
        .ref = ref_##op##_##side,                                                                  \
    };

#define BINARY(name_, brief_, cost, y, to_a, to_b)                                                 \
    static double y_of_##name_(double a, double b) { return y; }                                   \
    static double da_of_##name_(double dy, __attribute__((unused)) double a, double b) {           \
        return dy * (to_a);                                                                        \
    }                                                                                              \
    static double db_of_##name_(double dy, double a, double b) { return dy * (to_b); }             \
    static void ref_##name_(const struct sl_ref *r) { sl_op_ref_zip_broadcast(r, y_of_##name_); }  \
    static double flops_##name_(const struct sl_op_view *v) {                                      \
        return (cost) * (double)sl_op_numel(&v->out[0]);                                           \
    }                                                                                              \
    static int grad_##name_(struct sl_grad *g, int input) {                                        \
        int in[3] = {g->dout[0], g->in[0], g->in[1]};                                              \
        const char *op = input == 0 ? #name_ "_da" : #name_ "_db";                                 \
        return sl_op_grad_sum_to(g, sl_graph_grad_emit(g, op, 3, in, NULL), g->in[input]);         \
    }                                                                                              \
    const struct sl_op sl_op_##name_ = {                                                           \
        .name = #name_,                                                                            \
        .brief = (brief_),                                                                         \
        .inputs = "a b",                                                                           \
        .outputs = "y",                                                                            \
        .infer = sl_op_infer_broadcast,                                                            \
        .flops = flops_##name_,                                                                    \
        .grad = grad_##name_,                                                                      \
        .ref = ref_##name_,                                                                        \
    };                                                                                             \
    SLOPE(name_, da, da_of_##name_)                                                                \
    SLOPE(name_, db, db_of_##name_)

BINARY(div, "a / b with broadcasting", 1, a / b, 1 / b, -a / (b * b))
BINARY(max, "the larger of a and b, with broadcasting", 1, larger(a, b), share(a, b), share(b, a))
BINARY(min, "the smaller of a and b, with broadcasting", 1, -larger(-a, -b), share(b, a),
       share(a, b))
BINARY(pow, "a to the power of b, with broadcasting", 20, pow(a, b), b *pow(a, b - 1),
       a > 0 ? pow(a, b) * log(a) : 0)

/* ---- comparisons and logic: the result is 0 or 1 ---- */

static sl_err infer_truth(struct sl_infer *c) {
    if (c->in_dtype[0] != c->in_dtype[1])
        return sl_graph_infer_fail(c, "input 0 is %s, input 1 is %s",
                                   c->in_dtype[0] == SL_INT ? "int" : "float",
                                   c->in_dtype[1] == SL_INT ? "int" : "float");
    c->out_dtype[0] = SL_INT;
    sl_err err = sl_graph_shape_broadcast(&c->in[0], &c->in[1], &c->out[0]);
    return err == SL_OK ? err : sl_err_context(err, "%s", c->op->name);
}

static sl_err infer_logic(struct sl_infer *c) {
    for (int i = 0; i < c->in_count; i++)
        SL_TRY(sl_op_need_int(c, i));
    if (c->in_count == 2)
        return infer_truth(c);
    c->out[0] = c->in[0];
    c->out_dtype[0] = SL_INT;
    return SL_OK;
}

static double number_at(const struct sl_array *array, int64_t i) {
    return array->f ? array->f[i] : array->i[i];
}

static void ref_truth(const struct sl_ref *r, bool (*f)(double a, double b)) {
    struct walks w = walks_open(r);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++, walks_next(&w))
        r->out[0].i[i] = f(number_at(&r->in[0], w.at[0].offset),
                           r->in_count > 1 ? number_at(&r->in[1], w.at[1].offset) : 0);
}

#define TRUTH(name_, brief_, inputs_, infer_, y)                                                   \
    static bool y_of_##name_(double a, __attribute__((unused)) double b) { return y; }             \
    static void ref_##name_(const struct sl_ref *r) { ref_truth(r, y_of_##name_); }                \
    const struct sl_op sl_op_##name_ = {                                                           \
        .name = #name_,                                                                            \
        .brief = (brief_),                                                                         \
        .inputs = (inputs_),                                                                       \
        .outputs = "y",                                                                            \
        .infer = (infer_),                                                                         \
        .flops = sl_op_flops_elementwise,                                                          \
        .ref = ref_##name_,                                                                        \
    };

TRUTH(equal, "1 where a = b, else 0", "a b", infer_truth, a == b)
TRUTH(greater, "1 where a > b, else 0", "a b", infer_truth, a > b)
TRUTH(greater_equal, "1 where a >= b, else 0", "a b", infer_truth, a >= b)
TRUTH(less, "1 where a < b, else 0", "a b", infer_truth, a < b)
TRUTH(less_equal, "1 where a <= b, else 0", "a b", infer_truth, a <= b)
TRUTH(logical_and, "1 where a and b are true", "a b", infer_logic, a != 0 && b != 0)
TRUTH(logical_not, "1 where a is not true", "a", infer_logic, a == 0)
TRUTH(logical_or, "1 where a or b is true", "a b", infer_logic, a != 0 || b != 0)
TRUTH(logical_xor, "1 where one of a and b is true", "a b", infer_logic, (a != 0) != (b != 0))

/* ---- int <-> float ---- */

static sl_err infer_to_float(struct sl_infer *c) {
    SL_TRY(sl_op_need_int(c, 0));
    c->out[0] = c->in[0];
    return SL_OK;
}

static void ref_to_float(const struct sl_ref *r) {
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++)
        r->out[0].f[i] = r->in[0].i[i];
}

SL_OP_ROW(to_float, "ints as floats", "x", "y", .infer = infer_to_float, .flops = sl_op_flops_none,
          .ref = ref_to_float)

static sl_err infer_to_int(struct sl_infer *c) {
    SL_TRY(sl_op_infer_same(c));
    c->out_dtype[0] = SL_INT;
    return SL_OK;
}

/* Rounds toward zero; a value outside the range of int becomes the nearest int, NaN becomes 0. */
static void ref_to_int(const struct sl_ref *r) {
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++) {
        double x = r->in[0].f[i];
        r->out[0].i[i] = isnan(x) ? 0 : (int32_t)fmin(fmax(x, -2147483648.0), 2147483647.0);
    }
}

SL_OP_ROW(to_int, "floats as ints, rounded toward zero", "x", "y", .infer = infer_to_int,
          .flops = sl_op_flops_none, .ref = ref_to_int)

/* ---- where: y = cond ? a : b, all three with broadcasting ---- */

static sl_err infer_where(struct sl_infer *c) {
    struct sl_shape wide;
    SL_TRY(sl_op_need_int(c, 0));
    if (c->in_dtype[1] != c->in_dtype[2])
        return sl_graph_infer_fail(c, "a is %s, b is %s",
                                   c->in_dtype[1] == SL_INT ? "int" : "float",
                                   c->in_dtype[2] == SL_INT ? "int" : "float");
    sl_err err = sl_graph_shape_broadcast(&c->in[1], &c->in[2], &wide);
    if (err == SL_OK)
        err = sl_graph_shape_broadcast(&c->in[0], &wide, &c->out[0]);
    c->out_dtype[0] = c->in_dtype[1];
    return err == SL_OK ? err : sl_err_context(err, "%s", c->op->name);
}

static int grad_where(struct sl_grad *g, int input) {
    if (input == 0)
        return -1;
    union sl_attr attr[1] = {{.i = input - 1}};
    int dy = sl_graph_grad_emit(g, "where_d", 2, (int[]){g->dout[0], g->in[0]}, attr);
    return sl_op_grad_sum_to(g, dy, g->in[input]);
}

static void ref_where(const struct sl_ref *r) {
    struct walks w = walks_open(r);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++, walks_next(&w)) {
        int side = r->in[0].i[w.at[0].offset] ? 1 : 2;
        sl_op_array_copy(&r->out[0], i, &r->in[side], w.at[side].offset);
    }
}

SL_OP_ROW(where, "a where cond is true, else b, with broadcasting", "cond a b", "y",
          .infer = infer_where, .flops = sl_op_flops_elementwise, .grad = grad_where,
          .ref = ref_where)

/* Gradient of a (side 0: dy where cond is true, else 0) or of b (side 1: dy where cond is false,
 * else 0). */
static void ref_where_d(const struct sl_ref *r) {
    struct walks w = walks_open(r);
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++, walks_next(&w))
        r->out[0].f[i] =
            (r->in[1].i[w.at[1].offset] == 0) == (r->attr[0].i == 1) ? r->in[0].f[i] : 0;
}

static const struct sl_attr_desc attrs_where[] = {{"side", SL_ATTR_INT, NULL, NULL}, {0}};

const struct sl_op sl_op_where_d = {.name = "where_d",
                                    .brief =
                                        "gradient of where, before the sum over broadcast axes",
                                    .inputs = "dy cond",
                                    .outputs = "d",
                                    .attrs = attrs_where,
                                    .internal = true,
                                    .infer = infer_slope,
                                    .flops = sl_op_flops_elementwise,
                                    .ref = ref_where_d};
