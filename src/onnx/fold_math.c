/* Folding by element: arithmetic, comparisons, casts, reductions. */
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

/* The shape that all inputs broadcast to. */
static sl_err broadcast(const struct sl_onnx_fold *f, int type, struct sl_onnx_konst **out) {
    int64_t dim[SL_ONNX_RANK] = {0};
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
    return sl_onnx_konst_new(f->arena, type, rank, dim, out);
}

/* The element of a narrow constant that matches element `at` of a wide one. */
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

/* ---- two inputs: whole numbers may hold B ---- */

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

static sl_err no_batch(void) {
    return sl_fail(SL_ERR_REFUSED, "this arithmetic on the batch size has no result in sizes of "
                                   "the form n or n B");
}

static sl_err overflow(void) { return sl_fail(SL_ERR_INPUT, "whole numbers overflow"); }

static int64_t whole_power(int64_t a, int64_t b) {
    double power = pow((double)a, (double)b);
    return fabs(power) < 9e15 ? (int64_t)power : 0;
}

/* n B with n and n B with n: sums, differences, quotients; n B times n. */
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
    /* B is at least 1 and counts samples: n B with n >= 1 is not below 1. */
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
        return SL_OK; /* not computed here */
    SL_TRY(sl_onnx_fold_need(f, 1));
    const struct sl_onnx_konst *a = f->in[0], *b = f->in[1];
    if (!a->f != !b->f && what != POW)
        return sl_fail(SL_ERR_INPUT, "inputs of types %s and %s", sl_onnx_type_name(a->type),
                       sl_onnx_type_name(b->type));
    SL_TRY(broadcast(f, what >= EQUAL ? SL_ONNX_BOOL : a->type, &out));
    for (int64_t i = 0; i < out->count; i++) {
        int64_t x = narrow_at(a, out, i), y = narrow_at(b, out, i);
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
static double logistic(double x) { return 1 / (1 + exp(-x)); }

static sl_err unary(const struct sl_onnx_fold *f, double (*of)(double)) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_new(f->arena, a->type, a->rank, a->dim, &f->out[0]));
    for (int64_t i = 0; i < a->count; i++) {
        if (a->f)
            f->out[0]->f[i] = of(a->f[i]);
        else if (a->i[i].batch)
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
UNARY(sin, sin)
UNARY(sqrt, sqrt)
UNARY(tanh, tanh)

static sl_err fold_not(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    SL_TRY(sl_onnx_konst_new(f->arena, SL_ONNX_BOOL, a->rank, a->dim, &f->out[0]));
    for (int64_t i = 0; i < a->count; i++)
        f->out[0]->i[i].n = sl_onnx_konst_number(a, i) == 0;
    return SL_OK;
}

static sl_err fold_cast(const struct sl_onnx_fold *f) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    int to = (int)sl_onnx_attr_int(f->node, "to", SL_ONNX_NONE);
    if (strcmp(f->node->op, "CastLike") == 0) {
        SL_TRY(sl_onnx_fold_need(f, 1));
        to = f->in[1]->type;
    }
    SL_TRY(sl_onnx_konst_new(f->arena, to, a->rank, a->dim, &f->out[0]));
    for (int64_t i = 0; i < a->count; i++) {
        struct sl_onnx_konst *out = f->out[0];
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
        bool first = sl_onnx_konst_number(f->in[0], narrow_at(f->in[0], out, i)) != 0;
        const struct sl_onnx_konst *from = f->in[first ? 1 : 2];
        int64_t at = narrow_at(from, out, i);
        if (out->f)
            out->f[i] = from->f[at];
        else
            out->i[i] = from->i[at];
    }
    f->out[0] = out;
    return SL_OK;
}

/* ---- reductions of whole numbers over all axes: sizes ---- */

static sl_err reduce(const struct sl_onnx_fold *f, enum math what, int64_t start) {
    SL_TRY(sl_onnx_fold_need(f, 0));
    const struct sl_onnx_konst *a = f->in[0];
    int64_t one[SL_ONNX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    bool keep = sl_onnx_attr_int(f->node, "keepdims", 1);
    if (!a->i || a->rank > 1)
        return SL_OK; /* not computed here */
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
    {"Abs", fold_abs},
    {"Add", fold_add},
    {"And", fold_and},
    {"Cast", fold_cast},
    {"CastLike", fold_cast},
    {"Ceil", fold_ceil},
    {"Cos", fold_cos},
    {"Div", fold_div},
    {"Equal", fold_equal},
    {"Erf", fold_erf},
    {"Exp", fold_exp},
    {"Floor", fold_floor},
    {"Greater", fold_greater},
    {"GreaterOrEqual", fold_greater_equal},
    {"Less", fold_less},
    {"LessOrEqual", fold_less_equal},
    {"Log", fold_log},
    {"Max", fold_max},
    {"Min", fold_min},
    {"Mod", fold_mod},
    {"Mul", fold_mul},
    {"Neg", fold_neg},
    {"Not", fold_not},
    {"Or", fold_or},
    {"Pow", fold_pow},
    {"Reciprocal", fold_reciprocal},
    {"ReduceMax", fold_reduce_max},
    {"ReduceMin", fold_reduce_min},
    {"ReduceProd", fold_reduce_prod},
    {"ReduceSum", fold_reduce_sum},
    {"Round", fold_round},
    {"Sigmoid", fold_sigmoid},
    {"Sin", fold_sin},
    {"Sqrt", fold_sqrt},
    {"Sub", fold_sub},
    {"Tanh", fold_tanh},
    {"Where", fold_where},
    {"Xor", fold_xor},
    {0},
};
