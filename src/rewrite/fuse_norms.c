/* Recognizes activations and norms that are written as formulas. */
#include "rewrite/fuse.h"

#include <math.h>
#include <string.h>

/* silu: x sigmoid(x) */
sl_err sl_rewrite_silu(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int x;
    const struct sl_node *gate =
        sl_rewrite_is(node, "mul") ? sl_rewrite_side(f, node, "sigmoid", &x) : NULL;
    if (!gate || gate->in[0] != x)
        return SL_OK;
    return sl_rewrite_emit(f, "silu", 1, &f->map[x], NULL, out);
}

/* If the value is 1 + g, or half of it: returns the node g = `inner` and multiplies *by by the
 * factor. */
static const struct sl_node *one_plus(const struct sl_rewrite *f, int value, const char *inner,
                                      double *by) {
    const struct sl_node *scale = sl_rewrite_made_by(f, value, "scale");
    const struct sl_node *one = sl_rewrite_made_by(f, scale ? scale->in[0] : value, "offset");
    const struct sl_node *g = one ? sl_rewrite_made_by(f, one->in[0], inner) : NULL;
    *by = scale ? sl_rewrite_float(scale, "by") : 1;
    return g && sl_rewrite_float(one, "by") == 1 ? g : NULL;
}

/* If the value is 0.5 x (1 + g), with the half anywhere: returns the node g = `inner`, and x; else
 * NULL. */
static const struct sl_node *half_of(const struct sl_rewrite *f, const struct sl_node *node,
                                     const char *inner, int *x) {
    double half = 1, by;
    if (sl_rewrite_is(node, "scale")) {
        half = sl_rewrite_float(node, "by");
        node = sl_rewrite_made_by(f, node->in[0], "mul");
    }
    for (int i = 0; i < 2 && sl_rewrite_is(node, "mul"); i++) {
        const struct sl_node *g = one_plus(f, node->in[i], inner, &by);
        const struct sl_node *scale = sl_rewrite_made_by(f, node->in[1 - i], "scale");
        *x = node->in[1 - i];
        if (!g)
            continue;
        if (sl_rewrite_near(half * by, 0.5))
            return g;
        if (scale && sl_rewrite_near(half * by * sl_rewrite_float(scale, "by"), 0.5)) {
            *x = scale->in[0];
            return g;
        }
    }
    return NULL;
}

/* gelu: 0.5 x (1 + erf(x / sqrt 2)) */
sl_err sl_rewrite_gelu_erf(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int x;
    const struct sl_node *erf = half_of(f, node, "erf", &x);
    const struct sl_node *scale = erf ? sl_rewrite_made_by(f, erf->in[0], "scale") : NULL;
    union sl_attr attr[1] = {{.i = 1}}; /* erf */
    if (!scale || scale->in[0] != x || fabs(sl_rewrite_float(scale, "by") - sqrt(0.5)) > 1e-5)
        return SL_OK;
    return sl_rewrite_emit(f, "gelu", 1, &f->map[x], attr, out);
}

/* Is the value x^3, as a power or as products? */
static bool is_cube(const struct sl_rewrite *f, int value, int x) {
    int other;
    const struct sl_node *power = sl_rewrite_made_by(f, value, "power");
    const struct sl_node *mul = sl_rewrite_made_by(f, value, "mul");
    const struct sl_node *square = mul ? sl_rewrite_side(f, mul, "mul", &other) : NULL;
    return (power && power->in[0] == x && sl_rewrite_float(power, "by") == 3) ||
           (square && other == x && square->in[0] == x && square->in[1] == x);
}

/* gelu: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
sl_err sl_rewrite_gelu_tanh(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int x, other;
    const struct sl_node *tanh = half_of(f, node, "tanh", &x);
    const struct sl_node *scale = tanh ? sl_rewrite_made_by(f, tanh->in[0], "scale") : NULL;
    const struct sl_node *sum = scale ? sl_rewrite_made_by(f, scale->in[0], "add") : NULL;
    const struct sl_node *cubic = sum ? sl_rewrite_side(f, sum, "scale", &other) : NULL;
    union sl_attr attr[1] = {{.i = 0}}; /* tanh */
    if (!cubic || other != x || !is_cube(f, cubic->in[0], x) ||
        fabs(sl_rewrite_float(cubic, "by") - 0.044715) > 1e-7 ||
        fabs(sl_rewrite_float(scale, "by") - 0.7978845608) > 1e-6)
        return SL_OK;
    return sl_rewrite_emit(f, "gelu", 1, &f->map[x], attr, out);
}

/* ---- norms ---- */

/* Returns the node if the value is the mean over the last axis, which is kept. */
static const struct sl_node *mean_of(const struct sl_rewrite *f, int value) {
    const struct sl_node *mean = sl_rewrite_made_by(f, value, "reduce_mean");
    if (!mean || !sl_rewrite_int(mean, "keep"))
        return NULL;
    const struct sl_ints *axes = sl_rewrite_ints(mean, "axes");
    int rank = sl_rewrite_shape(f, mean->in[0])->rank;
    return axes->count == 1 && (axes->at[0] == rank - 1 || axes->at[0] == -1) ? mean : NULL;
}

/* Is the value x x, or x to the power of 2? */
static bool is_square(const struct sl_rewrite *f, int value, int x) {
    const struct sl_node *mul = sl_rewrite_made_by(f, value, "mul");
    const struct sl_node *power = sl_rewrite_made_by(f, value, "power");
    return (mul && mul->in[0] == x && mul->in[1] == x) ||
           (power && power->in[0] == x && sl_rewrite_float(power, "by") == 2);
}

/* Is the value x / sqrt(mean(x^2) + eps), in any form? Sets x and eps. */
static bool is_normed(const struct sl_rewrite *f, int value, int *x, double *eps) {
    const struct sl_node *mul = sl_rewrite_made_by(f, value, "mul"), *root = NULL;
    const struct sl_node *div = sl_rewrite_made_by(f, value, "div");
    if (mul && sl_rewrite_side(f, mul, "power", x)) {
        const struct sl_node *power = sl_rewrite_side(f, mul, "power", x);
        double by = sl_rewrite_float(power, "by");
        root = by == -1 ? sl_rewrite_made_by(f, power->in[0], "sqrt") : by == -0.5 ? power : NULL;
    } else if (mul && sl_rewrite_side(f, mul, "rsqrt", x)) {
        root = sl_rewrite_side(f, mul, "rsqrt", x);
    } else if (div) {
        *x = div->in[0];
        root = sl_rewrite_made_by(f, div->in[1], "sqrt");
    }
    const struct sl_node *sum = root ? sl_rewrite_made_by(f, root->in[0], "offset") : NULL;
    const struct sl_node *mean = sum ? mean_of(f, sum->in[0]) : NULL;
    if (!mean || !is_square(f, mean->in[0], *x))
        return false;
    *eps = sl_rewrite_float(sum, "by");
    return *eps > 0;
}

/* Returns, in `to`, a value of one axis that may scale rows of x; -1: it may not. */
static int vector_for(const struct sl_rewrite *f, int value, const struct sl_shape *x) {
    const struct sl_shape *shape = sl_rewrite_shape(f, value);
    if (shape->rank != 1 || shape->batch || shape->dim[0] != x->dim[x->rank - 1])
        return -1;
    return f->map[value];
}

/* layernorm: w (x - mean) / sqrt(variance + eps) + b */
sl_err sl_rewrite_layernorm(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int x = -1, in[3];
    union sl_attr attr[1] = {{.f = 0}};
    if (!sl_rewrite_is(node, "add"))
        return SL_OK;
    for (int i = 0; i < 2; i++) {
        const struct sl_node *mul = sl_rewrite_made_by(f, node->in[i], "mul");
        for (int k = 0; mul && k < 2; k++) {
            int centred;
            if (!is_normed(f, mul->in[k], &centred, &attr[0].f))
                continue;
            const struct sl_node *sub = sl_rewrite_made_by(f, centred, "sub");
            const struct sl_node *mean = sub ? mean_of(f, sub->in[1]) : NULL;
            if (!mean || mean->in[0] != sub->in[0])
                continue;
            x = sub->in[0];
            in[0] = f->map[x];
            in[1] = vector_for(f, mul->in[1 - k], sl_rewrite_shape(f, x));
            in[2] = vector_for(f, node->in[1 - i], sl_rewrite_shape(f, x));
            if (in[1] >= 0 && in[2] >= 0)
                return sl_rewrite_emit(f, "layernorm", 3, in, attr, out);
        }
    }
    return SL_OK;
}

/* rmsnorm: w x / sqrt(mean(x^2) + eps), if it is not the middle of a layernorm */
sl_err sl_rewrite_rmsnorm(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int x, in[2];
    union sl_attr attr[1] = {{.f = 0}};
    if (!sl_rewrite_is(node, "mul"))
        return SL_OK;
    for (int k = 0; k < 2; k++) {
        if (!is_normed(f, node->in[k], &x, &attr[0].f) || sl_rewrite_made_by(f, x, "sub"))
            continue;
        in[0] = f->map[x];
        in[1] = vector_for(f, node->in[1 - k], sl_rewrite_shape(f, x));
        if (in[1] >= 0)
            return sl_rewrite_emit(f, "rmsnorm", 2, in, attr, out);
    }
    return SL_OK;
}

/* If the value is one number per channel, [C,1,...] or [1,C,1,...], returns it as [C]. */
static sl_err channels(struct sl_rewrite *f, int value, const struct sl_shape *image, int *out) {
    const struct sl_shape *shape = sl_rewrite_shape(f, value);
    struct sl_shape one = {.rank = 1};
    int at = shape->rank - (image->rank - 1);
    *out = -1;
    if (at < 0 || at > 1 || shape->batch || shape->dim[at] != image->dim[1] ||
        sl_graph_shape_numel(shape, 1) != image->dim[1])
        return SL_OK;
    one.dim[0] = image->dim[1];
    return sl_rewrite_reshape(f, f->map[value], &one, out);
}

/* groupnorm: w reshape(layernorm(reshape(x), 1)) + b, where rows are groups of channels */
sl_err sl_rewrite_groupnorm(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    double one;
    int in[3];
    if (!sl_rewrite_is(node, "add"))
        return SL_OK;
    for (int i = 0; i < 2; i++) {
        const struct sl_node *mul = sl_rewrite_made_by(f, node->in[i], "mul");
        for (int k = 0; mul && k < 2; k++) {
            const struct sl_node *back = sl_rewrite_made_by(f, mul->in[k], "reshape");
            const struct sl_node *norm =
                back ? sl_rewrite_made_by(f, back->in[0], "layernorm") : NULL;
            const struct sl_node *rows =
                norm ? sl_rewrite_made_by(f, norm->in[0], "reshape") : NULL;
            if (!rows || norm->in_count > 2 || !sl_rewrite_number(f, norm->in[1], &one) || one != 1)
                continue;
            const struct sl_shape *image = sl_rewrite_shape(f, rows->in[0]);
            const struct sl_shape *flat = sl_rewrite_shape(f, norm->in[0]);
            if (image->rank < 3 || image->batch != 1 || flat->rank != 3 || flat->batch != 1 ||
                !sl_graph_shape_equal(image, sl_rewrite_shape(f, back->out[0])) ||
                flat->dim[0] != image->dim[0] || image->dim[1] % flat->dim[1])
                continue;
            SL_TRY(channels(f, mul->in[1 - k], image, &in[1]));
            SL_TRY(channels(f, node->in[1 - i], image, &in[2]));
            in[0] = f->map[rows->in[0]];
            if (in[1] < 0 || in[2] < 0)
                continue;
            union sl_attr attr[2] = {{.i = flat->dim[1]}, {.f = sl_rewrite_float(norm, "eps")}};
            return sl_rewrite_emit(f, "groupnorm", 3, in, attr, out);
        }
    }
    return SL_OK;
}
