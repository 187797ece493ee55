/* Constant folding by element: arithmetic, comparisons, casts, reductions. */
#include "onnx/fold_math.h"

#include <math.h>

sl_err sl_onnx_fold_need(const struct sl_onnx_fold *f, int input) {
    if (input >= f->node->in_count || !f->in[input])
        return sl_fail(SL_ERR_INPUT, "input %d is missing", input);
    return SL_OK;
}

sl_err sl_onnx_fold_axis(const struct sl_onnx_fold *f, int64_t axis, int rank, int *out) {
    (void)f;
    if (axis < -rank || axis >= rank)
        return sl_fail(SL_ERR_INPUT, "axis %lld of %d axes", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return SL_OK;
}

/* Makes a constant of the shape that all inputs broadcast to. */
static sl_err broadcast(const struct sl_onnx_fold *f, int type, struct sl_onnx_konst **out) {
    int64_t dim[SL_ONNX_RANK] = {0};
    unsigned stretch = 0;
    int rank = 0;
    for (int i = 0; i < f->node->in_count; i++) {
        SL_TRY(sl_onnx_fold_need(f, i));
        rank = f->in[i]->rank > rank ? f->in[i]->rank : rank;
    }
    for (int axis = 0; axis < rank; axis++)
        dim[axis] = 1;
    for (int i = 0; i < f->node->in_count; i++)
        for (int axis = 0; axis < f->in[i]->rank; axis++) {
            int64_t n = f->in[i]->dim[axis], *wide = &dim[rank - f->in[i]->rank + axis];
            if (*wide != 1 && n != 1 && n != *wide)
                return sl_fail(SL_ERR_INPUT, "constants of sizes %lld and %lld do not broadcast",
                               (long long)n, (long long)*wide);
            if (*wide == 1)
                *wide = n;
        }
    for (int i = 0; i < f->node->in_count; i++)
        stretch |= f->in[i]->stretch << (rank - f->in[i]->rank);
    for (int axis = 0; axis < rank; axis++)
        if ((stretch >> axis & 1) && dim[axis] != 1)
            return sl_fail(SL_ERR_INPUT, "sizes B and %lld do not broadcast", (long long)dim[axis]);
    SL_TRY(sl_onnx_konst_new(f->arena, type, rank, dim, out));
    (*out)->stretch = stretch;
    return SL_OK;
}

/* Returns the element of a narrow constant that matches element `at` of a wide one. */
static int64_t narrow_at(const struct sl_onnx_konst *narrow, const struct sl_onnx_konst *wide,
                         int64_t at) {
    int64_t offset = 0, step = 1;
    for (int axis = wide->rank - 1, own = narrow->rank - 1; axis >= 0; axis--, own--) {
        int64_t index = at % wide->dim[axis];
        at /= wide->dim[axis];
        if (own >= 0) {
            offset += (narrow->dim[own] == 1 ? 0 : index) * step;
            step *= narrow->dim[own];
        }
    }
    return offset;
}

/* ---- two inputs: integers may contain B ---- */

enum math {
    ADD,
    SUB,
    MUL,
    DIV,
    MOD,
    POW,
    MIN,
    MAX,
    EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    AND,
    OR,
    XOR
};

/* Returns how x WHAT y depends on the sample number; a and b are the values without it. */
static int64_t sample_of(enum math what, int64_t x, int64_t y, struct sl_dim a, struct sl_dim b) {
    int64_t out = SL_ONNX_UNKNOWN;
    bool known = x != SL_ONNX_UNKNOWN && y != SL_ONNX_UNKNOWN && !a.batch && !b.batch;
    if (x == 0 && y == 0)
        return 0;
    if (known && what == ADD && !__builtin_add_overflow(x, y, &out))
        return out;
    if (known && what == SUB && !__builtin_sub_overflow(x, y, &out))
        return out;
    if (known && what == MUL && y == 0 && !__builtin_mul_overflow(x, b.n, &out))
        return out;
    if (known && what == MUL && x == 0 && !__builtin_mul_overflow(y, a.n, &out))
        return out;
    return SL_ONNX_UNKNOWN;
}

static sl_err no_batch(void) {
    return sl_fail(SL_ERR_REFUSED, "this arithmetic on the batch size has no result in sizes of "
                                   "the form n or n B");
}

static sl_err overflow(void) { return sl_fail(SL_ERR_INPUT, "whole numbers overflow"); }

static int64_t whole_power(int64_t a, int64_t b) {
    double power = pow((double)a, (double)b);
    return fabs(power) < 9e15 ? (int64_t)power : 0;
}

/* Computes with n B: sums, differences and quotients of n B and n B; products of n and n B. */
static sl_err with_batch(enum math what, struct sl_dim a, struct sl_dim b, struct sl_dim *out) {
    bool both = a.batch && b.batch;
    *out = (struct sl_dim){0, true};
    switch (what) {
    case ADD:
        if (both && !__builtin_add_overflow(a.n, b.n, &out->n))
            return SL_OK;
        *out = a.batch ? a : b;
        return (a.batch ? b.n : a.n) == 0 ? SL_OK : no_batch();
    case SUB:
        if (both && !__builtin_sub_overflow(a.n, b.n, &out->n)) {
            out->batch = out->n != 0;
            return SL_OK;
        }
        *out = a;
        return !b.batch && b.n == 0 ? SL_OK : no_batch();
    case MUL: return both || __builtin_mul_overflow(a.n, b.n, &out->n) ? no_batch() : SL_OK;
    case DIV:
        if (b.n == 0 || !a.batch || a.n % b.n)
            return no_batch();
        *out = (struct sl_dim){a.n / b.n, !b.batch};
        return SL_OK;
    case EQUAL: *out = (struct sl_dim){both && a.n == b.n, false}; return SL_OK;
    /* B is at least 1 and counts samples, so n B with n >= 1 is not below 1 */
    case GREATER: *out = (struct sl_dim){a.n > 0, false}; break;
    case LESS: *out = (struct sl_dim){b.n > 0, false}; break;
    default: return no_batch();
    }
    bool sure = what == GREATER ? a.batch && !b.batch && b.n <= 0 : b.batch && !a.batch && a.n <= 0;
    return sure ? SL_OK : no_batch();
}

static sl_err whole(enum math what, struct sl_dim x, struct sl_dim y, struct sl_dim *out) {
    int64_t a = x.n, b = y.n, *n = &out->n;
    if (x.batch || y.batch)
        return with_batch(what, x, y, out);
    *out = (struct sl_dim){0, false};
    switch (what) {
    case ADD: return __builtin_add_overflow(a, b, n) ? overflow() : SL_OK;
    case SUB: return __builtin_sub_overflow(a, b, n) ? overflow() : SL_OK;
    case MUL: return __builtin_mul_overflow(a, b, n) ? overflow() : SL_OK;
    case DIV:
    case MOD:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return sl_fail(SL_ERR_INPUT, "division by zero");
        *n = what == DIV ? a / b : a % b;
        if (what == MOD && *n && (*n < 0) != (b < 0))
            *n += b;
        break;
    case POW: *n = whole_power(a, b); break;
    case MIN: *n = a < b ? a : b; break;
    case MAX: *n = a > b ? a : b; break;
    case EQUAL: *n = a == b; break;
    case LESS: *n = a < b; break;
    case LESS_EQUAL: *n = a <= b; break;
    case GREATER: *n = a > b; break;
    case GREATER_EQUAL: *n = a >= b; break;
    case AND: *n = a && b; break;
    case OR: *n = a || b; break;
    case XOR: *n = !a != !b; break;
    }
    return SL_OK;
}

static double real(enum math what, double a, double b) {
    switch (what) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case MOD: return fmod(a, b);
    case POW: return pow(a, b);
    case MIN: return a < b || isnan(a) ? a : b;
    case MAX: return a > b || isnan(a) ? a : b;
    case EQUAL: return a == b;
    case LESS: return a < b;
    case LESS_EQUAL: return a <= b;
    case GREATER: return a > b;
    case GREATER_EQUAL: return a >= b;
    default: return NAN;
    }
}

static sl_err binary(const struct sl_onnx_fold *f, enum math what) {
    struct sl_onnx_konst *out;
    SL_TRY(sl_onnx_fold_need(f, 0));
    if (f->node->in_count != 2)
        return SL_OK; /* not computed here: the node is lowered */
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *b = f->in[1];
    if (!a->f != !b->f && what != POW)
        return sl_fail(SL_ERR_INPUT, "inputs of types %s and %s", sl_proto_type_name(a->type),
                       sl_proto_type_name(b->type));
    SL_TRY(broadcast(f, what >= EQUAL ? SL_ONNX_BOOL : a->type, &out));
    for (int64_t i = 0; i < out->count; i++) {
        int64_t x = narrow_at(a, out, i), y = narrow_at(b, out, i);
        if (a->per_sample || b->per_sample) {
            int64_t sample =
                sample_of(what, sl_onnx_konst_per_sample(a, x), sl_onnx_konst_per_sample(b, y),
                          a->i ? a->i[x] : (struct sl_dim){0}, b->i ? b->i[y] : (struct sl_dim){0});
            sl_onnx_konst_set_sample(f->arena, out, i, sample);
            if (sample == SL_ONNX_UNKNOWN)
                continue;
        }
        if (a->f || b->f) {
            double value = real(what, sl_onnx_konst_number(a, x), sl_onnx_konst_number(b, y));
            if (out->f)
                out->f[i] = value;
            else
                out->i[i] = (struct sl_dim){(int64_t)value, false};
        } else {
            SL_TRY(whole(what, a->i[x], b->i[y], &out->i[i]));
        }
    }
    f->out[0] = out;
    return SL_OK;
}

#define BINARY(name, what)                                                                         \
    static sl_err fold_##name(const struct sl_onnx_fold *f) { return binary(f, what); }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(mod, MOD)
BINARY(pow, POW)
BINARY(min, MIN)
BINARY(max, MAX)
BINARY(equal, EQUAL)
BINARY(less, LESS)
BINARY(less_equal, LESS_EQUAL)
BINARY(greater, GREATER)
BINARY(greater_equal, GREATER_EQUAL)
BINARY(and, AND)
BINARY(or, OR)
BINARY(xor, XOR)

/* ---- one input ---- */

static double reciprocal(double x) { return 1 / x; }
static double negative(double x) { return -x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double logistic(double x) { return 1 / (1 + exp(-x)); }

static sl_err unary(const struct sl_onnx_fold *f, double (*of)(double)) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    for (int64_t i = 0; i < a->count; i++) {
        if (a->f)
            f->out[0]->f[i] = of(a->f[i]);
        else if (a->i[i].batch || sl_onnx_konst_per_sample(a, i))
            return no_batch();
        else
            f->out[0]->i[i].n = (int64_t)of((double)a->i[i].n);
    }
    return SL_OK;
}

#define UNARY(name, function)                                                                      \
    static sl_err fold_##name(const struct sl_onnx_fold *f) { return unary(f, function); }
UNARY(abs, fabs)
UNARY(ceil, ceil)
UNARY(cos, cos)
UNARY(erf, erf)
UNARY(exp, exp)
UNARY(floor, floor)
UNARY(log, log)
UNARY(neg, negative)
UNARY(reciprocal, reciprocal)
UNARY(round, rint)
UNARY(sigmoid, logistic)
UNARY(sign, sign)
UNARY(sin, sin)
UNARY(sqrt, sqrt)
UNARY(tanh, tanh)

static sl_err fold_not(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_BOOL, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    for (int64_t i = 0; i < a->count; i++) {
        f->out[0]->i[i].n = sl_onnx_konst_number(a, i) == 0;
        if (sl_onnx_konst_per_sample(a, i))
            sl_onnx_konst_set_sample(f->arena, f->out[0], i, SL_ONNX_UNKNOWN);
    }
    return SL_OK;
}

static sl_err fold_is_nan(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_BOOL, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    for (int64_t i = 0; a->f && i < a->count; i++)
        f->out[0]->i[i].n = isnan(a->f[i]) != 0;
    return SL_OK;
}

static sl_err fold_cast(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    int to = (int)sl_proto_attr_int(f->node, "to", SL_ONNX_NONE);
    if (strcmp(f->node->op, "CastLike") == 0) {
        SL_TRY(sl_onnx_fold_need(f, 1));
        to = f->in[1]->type;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, to, a->rank, a->dim, &f->out[0]));
    f->out[0]->stretch = a->stretch;
    for (int64_t i = 0; i < a->count; i++) {
        struct sl_onnx_konst *out = f->out[0];
        if (sl_onnx_konst_per_sample(a, i))
            sl_onnx_konst_set_sample(f->arena, out, i,
                                     out->i && to != SL_ONNX_BOOL ? sl_onnx_konst_per_sample(a, i)
                                                                  : SL_ONNX_UNKNOWN);
        if (out->i && a->i)
            out->i[i] = a->i[i];
        else if (a->i && a->i[i].batch)
            return no_batch();
        else if (out->f)
            out->f[i] = to == SL_ONNX_FLOAT ? (double)(float)sl_onnx_konst_number(a, i)
                                            : sl_onnx_konst_number(a, i);
        else if (fabs(a->f[i]) < 9e18)
            out->i[i].n = (int64_t)a->f[i];
        if (to == SL_ONNX_BOOL && !out->i[i].batch)
            out->i[i].n = sl_onnx_konst_number(a, i) != 0;
    }
    return SL_OK;
}

static sl_err fold_where(const struct sl_onnx_fold *f) {
    struct sl_onnx_konst *out;
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_onnx_fold_need(f, i));
    if (!f->in[1]->f != !f->in[2]->f)
        return sl_fail(SL_ERR_INPUT, "the two choices have different types");
    SL_TRY(broadcast(f, f->in[1]->type, &out));
    for (int64_t i = 0; i < out->count; i++) {
        int64_t which = narrow_at(f->in[0], out, i);
        const struct sl_onnx_konst *from =
            f->in[sl_onnx_konst_number(f->in[0], which) != 0 ? 1 : 2];
        sl_onnx_fold_copy(f, out, i, from, narrow_at(from, out, i));
        if (sl_onnx_konst_per_sample(f->in[0], which))
            sl_onnx_konst_set_sample(f->arena, out, i, SL_ONNX_UNKNOWN);
    }
    f->out[0] = out;
    return SL_OK;
}

/* ---- reductions of integers over all axes: products of sizes ---- */

static sl_err reduce(const struct sl_onnx_fold *f, enum math what, int64_t start) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    int64_t one[SL_ONNX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool keep = sl_proto_attr_int(f->node, "keepdims", 1);
    if (!a->i || a->rank > 1)
        return SL_OK; /* not computed here: the node is lowered */
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, keep ? a->rank : 0, one, &f->out[0]));
    struct sl_dim *total = &f->out[0]->i[0];
    total->n = start;
    for (int64_t i = 0; i < a->count; i++) {
        if (i == 0 && what != ADD && what != MUL)
            *total = a->i[0];
        SL_TRY(whole(what, *total, a->i[i], total));
    }
    return SL_OK;
}

static sl_err fold_reduce_prod(const struct sl_onnx_fold *f) { return reduce(f, MUL, 1); }
static sl_err fold_reduce_sum(const struct sl_onnx_fold *f) { return reduce(f, ADD, 0); }
static sl_err fold_reduce_max(const struct sl_onnx_fold *f) { return reduce(f, MAX, 0); }
static sl_err fold_reduce_min(const struct sl_onnx_fold *f) { return reduce(f, MIN, 0); }

const struct sl_onnx_fold_row sl_onnx_fold_math[] = {
    {"Abs", fold_abs, true},
    {"Add", fold_add, true},
    {"And", fold_and, true},
    {"Cast", fold_cast, true},
    {"CastLike", fold_cast, true},
    {"Ceil", fold_ceil, true},
    {"Cos", fold_cos, true},
    {"Div", fold_div, true},
    {"Equal", fold_equal, true},
    {"Erf", fold_erf, true},
    {"Exp", fold_exp, true},
    {"Floor", fold_floor, true},
    {"Greater", fold_greater, true},
    {"GreaterOrEqual", fold_greater_equal, true},
    {"IsNaN", fold_is_nan, true},
    {"Less", fold_less, true},
    {"LessOrEqual", fold_less_equal, true},
    {"Log", fold_log, true},
    {"Max", fold_max, true},
    {"Min", fold_min, true},
    {"Mod", fold_mod, true},
    {"Mul", fold_mul, true},
    {"Neg", fold_neg, true},
    {"Not", fold_not, true},
    {"Or", fold_or, true},
    {"Pow", fold_pow, true},
    {"Reciprocal", fold_reciprocal, true},
    {"ReduceMax", fold_reduce_max, false},
    {"ReduceMin", fold_reduce_min, false},
    {"ReduceProd", fold_reduce_prod, false},
    {"ReduceSum", fold_reduce_sum, false},
    {"Round", fold_round, true},
    {"Sigmoid", fold_sigmoid, true},
    {"Sign", fold_sign, true},
    {"Sin", fold_sin, true},
    {"Sqrt", fold_sqrt, true},
    {"Sub", fold_sub, true},
    {"Tanh", fold_tanh, true},
    {"Where", fold_where, true},
    {"Xor", fold_xor, true},
    {0},
};
