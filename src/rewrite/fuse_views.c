/* Merges consecutive ops that move elements: reshapes, transposes, scales, repeats. */
#include "rewrite/fuse.h"

#include <math.h>
#include <string.h>

/* Replaces reshape(reshape(x)), a reshape to the same shape, and identity. */
sl_err sl_rewrite_views(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    const struct sl_node *inner;
    if (sl_rewrite_is(node, "identity")) {
        *out = f->map[node->in[0]];
        return SL_OK;
    }
    if (!sl_rewrite_is(node, "reshape"))
        return SL_OK;
    const struct sl_shape *shape = sl_rewrite_shape(f, node->out[0]);
    if (sl_graph_shape_equal(sl_rewrite_shape(f, node->in[0]), shape)) {
        *out = f->map[node->in[0]];
        return SL_OK;
    }
    inner = sl_rewrite_made_by(f, node->in[0], "reshape");
    return inner ? sl_rewrite_reshape(f, f->map[inner->in[0]], shape, out) : SL_OK;
}

/* Returns how many of the first axes of `wide` make the first of `narrow`, if all others are equal;
 * else 0. */
static int merged(const struct sl_shape *wide, const struct sl_shape *narrow) {
    int more = wide->rank - narrow->rank;
    if (more < 1 || narrow->rank < 2)
        return 0;
    for (int i = 1; i < narrow->rank; i++)
        if (!sl_graph_dim_equal(sl_graph_shape_dim(narrow, i), sl_graph_shape_dim(wide, i + more)))
            return 0;
    return more + 1;
}

/* Replaces reshape(transpose(reshape(x))) by one transpose, if the first reshape merges the first
 * axes, which the transpose keeps, and the second divides them again. */
static sl_err divided(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int perm[SL_MAX_RANK];
    const struct sl_node *turn = sl_rewrite_made_by(f, node->in[0], "transpose");
    const struct sl_node *first = turn ? sl_rewrite_made_by(f, turn->in[0], "reshape") : NULL;
    if (!first || sl_rewrite_ints(turn, "perm")->at[0] != 0)
        return SL_OK;
    const struct sl_shape *wide = sl_rewrite_shape(f, first->in[0]);
    const struct sl_shape *narrow = sl_rewrite_shape(f, first->out[0]);
    const struct sl_shape *back = sl_rewrite_shape(f, node->out[0]);
    int count = merged(wide, narrow);
    if (!count || back->rank != wide->rank)
        return SL_OK;
    for (int i = 0; i < wide->rank; i++)
        perm[i] = i < count ? i : (int)sl_rewrite_ints(turn, "perm")->at[i - count + 1] + count - 1;
    for (int i = 0; i < wide->rank; i++)
        if (!sl_graph_dim_equal(sl_graph_shape_dim(back, i), sl_graph_shape_dim(wide, perm[i])))
            return SL_OK;
    return sl_rewrite_transpose(f, f->map[first->in[0]], perm, out);
}

/* Replaces transpose(transpose(x)), and a transpose that only moves axes of size 1. */
sl_err sl_rewrite_transposes(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    int perm[SL_MAX_RANK];
    if (sl_rewrite_is(node, "reshape"))
        return divided(f, node, out);
    if (!sl_rewrite_is(node, "transpose"))
        return SL_OK;
    const struct sl_ints *own = sl_rewrite_ints(node, "perm");
    const struct sl_node *inner = sl_rewrite_made_by(f, node->in[0], "transpose");
    bool same = true;
    for (int i = 0; i < own->count; i++) {
        perm[i] = (int)(inner ? sl_rewrite_ints(inner, "perm")->at[own->at[i]] : own->at[i]);
        same = same && perm[i] == i;
    }
    int source = inner ? inner->in[0] : node->in[0];
    if (same) {
        *out = f->map[source];
        return SL_OK;
    }
    if (inner)
        return sl_rewrite_transpose(f, f->map[source], perm, out);
    const struct sl_shape *shape = sl_rewrite_shape(f, source);
    int last = -1;
    bool order = true; /* the axes whose size is not 1 stay in order */
    for (int i = 0; i < own->count; i++)
        if (shape->dim[perm[i]] != 1 || (shape->batch >> perm[i] & 1)) {
            order = order && perm[i] > last;
            last = perm[i];
        }
    if (!order)
        return SL_OK;
    return sl_rewrite_reshape(f, f->map[source], sl_rewrite_shape(f, node->out[0]), out);
}

/* Replaces 1 x and x + 0 with constants. */
static void neutral(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    double number;
    for (int i = 0; i < 2; i++)
        if (sl_rewrite_number(f, node->in[i], &number) &&
            number == (sl_rewrite_is(node, "mul") ? 1 : 0) &&
            sl_graph_shape_equal(sl_rewrite_shape(f, node->in[1 - i]),
                                 sl_rewrite_shape(f, node->out[0])))
            *out = f->map[node->in[1 - i]];
}

/* Replaces scale(scale(x)), and factors and terms that change nothing. */
sl_err sl_rewrite_scales(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    if (sl_rewrite_is(node, "mul") || sl_rewrite_is(node, "add")) {
        neutral(f, node, out);
        return SL_OK;
    }
    const struct sl_node *inner =
        sl_rewrite_is(node, "scale") ? sl_rewrite_made_by(f, node->in[0], "scale") : NULL;
    if (!inner)
        return SL_OK;
    union sl_attr by[1] = {{.f = sl_rewrite_float(node, "by") * sl_rewrite_float(inner, "by")}};
    return sl_rewrite_emit(f, "scale", 1, &f->map[inner->in[0]], by, out);
}

/* Removes repeats before ops that broadcast their inputs themselves. */
sl_err sl_rewrite_broadcasts(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    static const char *const ops[] = {
        "add",   "sub",     "mul",  "div",        "min",           "max",         "where",
        "equal", "greater", "less", "less_equal", "greater_equal", "logical_and", "logical_or"};
    int in[3];
    bool fits = false, any = false;
    for (int i = 0; i < SL_COUNT(ops); i++)
        fits = fits || sl_rewrite_is(node, ops[i]);
    for (int i = 0; i < node->in_count && fits; i++) {
        const struct sl_node *wide = sl_rewrite_made_by(f, node->in[i], "broadcast_to");
        in[i] = wide ? wide->in[0] : node->in[i];
        any = any || wide;
    }
    if (!any)
        return SL_OK;
    struct sl_shape shape = *sl_rewrite_shape(f, in[0]), other;
    for (int i = 1; i < node->in_count; i++) {
        other = shape;
        if (sl_graph_shape_broadcast(&other, sl_rewrite_shape(f, in[i]), &shape) != SL_OK)
            return SL_OK;
    }
    if (!sl_graph_shape_equal(&shape, sl_rewrite_shape(f, node->out[0])))
        return SL_OK;
    for (int i = 0; i < node->in_count; i++)
        in[i] = f->map[in[i]];
    return sl_rewrite_emit(f, node->op->name, node->in_count, in, node->attr, out);
}

/* ---- matrix products with more axes than needed ---- */

/* Replaces matmul(reshape(a), reshape(b)), where both merge the first two axes of [N,H,M,K] and
 * [N,H,K,P], by the product with four axes, reshaped. The pattern of attention then finds its
 * heads. */
sl_err sl_rewrite_heads(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    if (!sl_rewrite_is(node, "matmul") || node->in_count != 2)
        return SL_OK;
    const struct sl_node *a = sl_rewrite_made_by(f, node->in[0], "reshape");
    const struct sl_node *b = sl_rewrite_made_by(f, node->in[1], "reshape");
    if (!a || !b || sl_rewrite_shape(f, node->out[0])->rank != 3)
        return SL_OK;
    const struct sl_shape *left = sl_rewrite_shape(f, a->in[0]),
                          *right = sl_rewrite_shape(f, b->in[0]);
    if (left->rank != 4 || right->rank != 4 || !merged(left, sl_rewrite_shape(f, node->in[0])) ||
        !merged(right, sl_rewrite_shape(f, node->in[1])))
        return SL_OK;
    for (int i = 0; i < 2; i++)
        if (!sl_graph_dim_equal(sl_graph_shape_dim(left, i), sl_graph_shape_dim(right, i)))
            return SL_OK;
    SL_TRY(sl_rewrite_emit(f, "matmul", 2, (int[]){f->map[a->in[0]], f->map[b->in[0]]}, node->attr,
                           out));
    return sl_rewrite_reshape(f, *out, sl_rewrite_shape(f, node->out[0]), out);
}

/* Replaces where(not(x = x), 0, x) with x = softmax(...): the result is NaN only if the input of
 * softmax was. */
sl_err sl_rewrite_guard(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    double zero;
    if (!sl_rewrite_is(node, "where"))
        return SL_OK;
    const struct sl_node *no = sl_rewrite_made_by(f, node->in[0], "logical_not");
    const struct sl_node *same = no ? sl_rewrite_made_by(f, no->in[0], "equal") : NULL;
    if (!same || same->in[0] != same->in[1] || same->in[0] != node->in[2] ||
        !sl_rewrite_number(f, node->in[1], &zero) || zero != 0)
        return SL_OK;
    const struct sl_node *soft = sl_rewrite_made_by(f, node->in[2], "softmax");
    const struct sl_node *sum = soft ? sl_rewrite_made_by(f, soft->in[0], "add") : NULL;
    for (int i = 0; sum && i < 2; i++) { /* a mask of finite numbers never forbids a whole row */
        struct sl_rewrite_constant c;
        const struct sl_node *mask = sl_rewrite_made_by(f, sum->in[i], "where");
        bool finite = false;
        if (sl_rewrite_constant(f, sum->in[i], &c)) {
            finite = true;
            for (int64_t k = 0; k < (c.f ? sl_graph_shape_numel(&c.shape, 1) : 1); k++)
                finite = finite && isfinite(c.f ? c.f[k] : c.all);
        } else if (mask) {
            double a, b;
            finite = sl_rewrite_number(f, mask->in[1], &a) && isfinite(a) &&
                     sl_rewrite_number(f, mask->in[2], &b) && isfinite(b);
        }
        if (finite)
            *out = f->map[node->in[2]];
    }
    if (soft && !sum)
        *out = f->map[node->in[2]];
    return SL_OK;
}
