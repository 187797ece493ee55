/* Recognizes attention and rotary positions that are written as formulas.
 *
 *   q [B,H,T,D]   k, v [B,Hk,S,D], perhaps repeated to H heads
 *
 *   matmul(softmax(scale matmul(q, k') + mask), v)    -> attention
 *   x cos + (-x2, x1) sin                             -> rope */
#include "op/rope.h"
#include "rewrite/fuse.h"

#include <math.h>

static const int heads_last[] = {0, 2, 1, 3}; /* permutes [B,H,T,D] to [B,T,H,D] and back */

/* ---- masks ---- */

struct mask {
    bool causal;
    int padding; /* an int value [B,1,1,S] of `from`; -1: none */
};

enum form { ALL, CAUSAL, OTHER };

/* Finds which keys a constant allows. Its elements are truth values, or numbers that are 0 or very
 * negative. */
static enum form form_of(const struct sl_rewrite_constant *c, bool truth, int64_t rows,
                         int64_t columns) {
    bool all = true, causal = true;
    if (!sl_rewrite_is_matrix(c))
        return OTHER;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double x = sl_rewrite_at(c, i, j);
            bool allowed = truth ? x != 0 : x == 0;
            if (!truth && !allowed && !(x <= -1e4))
                return OTHER;
            all = all && allowed;
            causal = causal && allowed == (j <= i + columns - rows);
        }
    return all ? ALL : causal ? CAUSAL : OTHER;
}

static bool is_padding(const struct sl_rewrite *f, int value, int64_t columns) {
    const struct sl_shape *shape = sl_rewrite_shape(f, value);
    return shape->rank == 4 && shape->batch == 1 && shape->dim[0] == 1 && shape->dim[1] == 1 &&
           shape->dim[2] == 1 && shape->dim[3] == columns;
}

static bool read_truth(const struct sl_rewrite *f, int value, const struct sl_shape *scores,
                       struct mask *m) {
    struct sl_rewrite_constant c;
    int64_t rows = scores->dim[2], columns = scores->dim[3];
    const struct sl_node *wide;
    while ((wide = sl_rewrite_made_by(f, value, "broadcast_to")) != NULL)
        value = wide->in[0];
    if (sl_rewrite_constant(f, value, &c)) {
        enum form form = form_of(&c, true, rows, columns);
        m->causal = m->causal || form == CAUSAL;
        return form != OTHER;
    }
    const struct sl_node *both = sl_rewrite_made_by(f, value, "logical_and");
    if (both)
        return read_truth(f, both->in[0], scores, m) && read_truth(f, both->in[1], scores, m);
    if (m->padding >= 0 || !is_padding(f, value, columns))
        return false;
    m->padding = value;
    return true;
}

static bool read_mask(const struct sl_rewrite *f, int value, const struct sl_shape *scores,
                      struct mask *m) {
    struct sl_rewrite_constant c;
    double zero, low;
    const struct sl_node *where = sl_rewrite_made_by(f, value, "where");
    if (sl_rewrite_constant(f, value, &c)) {
        enum form form = form_of(&c, false, scores->dim[2], scores->dim[3]);
        m->causal = m->causal || form == CAUSAL;
        return form != OTHER;
    }
    return where && sl_rewrite_number(f, where->in[1], &zero) && zero == 0 &&
           sl_rewrite_number(f, where->in[2], &low) && low <= -1e4 &&
           read_truth(f, where->in[0], scores, m);
}

/* ---- attention ---- */

static int without_scale(const struct sl_rewrite *f, int value, double *by) {
    const struct sl_node *scale = sl_rewrite_made_by(f, value, "scale");
    if (scale)
        *by *= sl_rewrite_float(scale, "by");
    return scale ? scale->in[0] : value;
}

/* Returns k if the value is its transpose [B,H,D,S]; else -1. */
static int turned_back(const struct sl_rewrite *f, int value, double *by) {
    value = without_scale(f, value, by);
    const struct sl_node *turn = sl_rewrite_made_by(f, value, "transpose");
    const struct sl_ints *perm = turn ? sl_rewrite_ints(turn, "perm") : NULL;
    if (!turn || perm->count != 4)
        return -1;
    if (perm->at[0] == 0 && perm->at[1] == 1 && perm->at[2] == 3 && perm->at[3] == 2)
        return without_scale(f, turn->in[0], by);
    return -1;
}

/* Returns [B,Hk,S,D] if the value is reshape(broadcast_to(reshape(x))), which repeats heads. */
static int without_repeats(const struct sl_rewrite *f, int value) {
    const struct sl_node *flat = sl_rewrite_made_by(f, value, "reshape");
    const struct sl_node *wide = flat ? sl_rewrite_made_by(f, flat->in[0], "broadcast_to") : NULL;
    const struct sl_node *thin = wide ? sl_rewrite_made_by(f, wide->in[0], "reshape") : NULL;
    if (!thin)
        return value;
    const struct sl_shape *x = sl_rewrite_shape(f, thin->in[0]), *y = sl_rewrite_shape(f, value);
    const struct sl_shape *five = sl_rewrite_shape(f, thin->out[0]);
    const struct sl_shape *more = sl_rewrite_shape(f, wide->out[0]);
    if (x->rank != 4 || y->rank != 4 || five->rank != 5 || five->dim[2] != 1 ||
        five->dim[1] != x->dim[1] || more->dim[1] != x->dim[1] || five->dim[3] != x->dim[2] ||
        more->dim[3] != x->dim[2] || y->dim[2] != x->dim[2] || y->dim[3] != x->dim[3])
        return value;
    return thin->in[0];
}

static bool is_heads(const struct sl_rewrite *f, int value) {
    const struct sl_shape *shape = sl_rewrite_shape(f, value);
    return shape->rank == 4 && shape->batch == 1 && shape->dim[0] == 1;
}

/* Finds q, k and the scale of scores = scale q k'. */
static bool read_scores(const struct sl_rewrite *f, int value, int qk[2], double *by) {
    *by = 1;
    const struct sl_node *product = sl_rewrite_made_by(f, without_scale(f, value, by), "matmul");
    if (!product || product->in_count != 2 || sl_rewrite_int(product, "ta"))
        return false;
    qk[0] = without_scale(f, product->in[0], by);
    qk[1] = sl_rewrite_int(product, "tb") ? without_scale(f, product->in[1], by)
                                          : turned_back(f, product->in[1], by);
    if (qk[1] < 0 || !is_heads(f, qk[0]) || !is_heads(f, qk[1]))
        return false;
    qk[1] = without_repeats(f, qk[1]);
    return true;
}

static sl_err emit_attention(struct sl_rewrite *f, const int qkv[3], const struct mask *m,
                             double by, int *out) {
    int in[4] = {-1, -1, -1, -1};
    union sl_attr attr[2] = {{.i = m->causal}, {.f = by}};
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_rewrite_transpose(f, f->map[qkv[i]], heads_last, &in[i]));
    if (m->padding >= 0) {
        struct sl_shape shape = {.rank = 2, .batch = 1, .dim = {1}};
        shape.dim[1] = sl_rewrite_shape(f, m->padding)->dim[3];
        SL_TRY(sl_rewrite_reshape(f, f->map[m->padding], &shape, &in[3]));
    }
    SL_TRY(sl_rewrite_emit(f, "attention", in[3] >= 0 ? 4 : 3, in, attr, out));
    return sl_rewrite_transpose(f, *out, heads_last, out);
}

sl_err sl_rewrite_attention(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    struct mask m = {.padding = -1};
    int qkv[3];
    double by;
    if (!sl_rewrite_is(node, "matmul") || node->in_count != 2 || sl_rewrite_int(node, "ta") ||
        sl_rewrite_int(node, "tb") || !is_heads(f, node->in[1]))
        return SL_OK;
    const struct sl_node *soft = sl_rewrite_made_by(f, node->in[0], "softmax");
    if (!soft || !is_heads(f, soft->out[0]))
        return SL_OK;
    const struct sl_shape *scores = sl_rewrite_shape(f, soft->out[0]);
    const struct sl_node *sum = sl_rewrite_made_by(f, soft->in[0], "add");
    bool fits = !sum && read_scores(f, soft->in[0], qkv, &by);
    for (int i = 0; sum && i < 2 && !fits; i++) {
        m = (struct mask){.padding = -1};
        fits = read_scores(f, sum->in[i], qkv, &by) && read_mask(f, sum->in[1 - i], scores, &m);
    }
    qkv[2] = without_repeats(f, node->in[1]);
    if (!fits || by == 0 ||
        !sl_graph_shape_equal(sl_rewrite_shape(f, qkv[1]), sl_rewrite_shape(f, qkv[2])) ||
        sl_rewrite_shape(f, qkv[0])->dim[1] % sl_rewrite_shape(f, qkv[1])->dim[1])
        return SL_OK;
    return emit_attention(f, qkv, &m, by, out);
}

/* ---- rope ---- */

/* Returns x if the value is concat(neg(second half of x), first half of x) over the last axis; else
 * -1. */
static int half_turned(const struct sl_rewrite *f, int value) {
    const struct sl_node *join = sl_rewrite_made_by(f, value, "concat");
    if (!join || join->in_count != 2)
        return -1;
    const struct sl_shape *shape = sl_rewrite_shape(f, value);
    int64_t last = shape->rank - 1, d = shape->dim[last], axis = sl_rewrite_int(join, "axis");
    const struct sl_node *neg = sl_rewrite_made_by(f, join->in[0], "neg");
    const struct sl_node *high = neg ? sl_rewrite_made_by(f, neg->in[0], "slice") : NULL;
    const struct sl_node *low = sl_rewrite_made_by(f, join->in[1], "slice");
    if (!high || !low || high->in[0] != low->in[0] || (axis != last && axis != -1) || d % 2 ||
        sl_rewrite_shape(f, high->in[0])->dim[last] != d)
        return -1;
    bool halves = sl_rewrite_int(high, "axis") == last && sl_rewrite_int(low, "axis") == last &&
                  sl_rewrite_int(high, "from") == d / 2 && sl_rewrite_int(high, "to") >= d &&
                  sl_rewrite_int(low, "from") == 0 && sl_rewrite_int(low, "to") == d / 2;
    return halves ? high->in[0] : -1;
}

/* Finds base and scale of the angles scale t base^(-2 i / D) whose cosines and sines are in the
 * tables. */
static bool read_angles(const struct sl_rewrite_constant *cosine,
                        const struct sl_rewrite_constant *sine, int64_t t, int64_t d,
                        double out[2]) {
    if (!sl_rewrite_is_matrix(cosine) || !sl_rewrite_is_matrix(sine) || t < 2 || !cosine->f ||
        !sine->f)
        return false;
    double first = atan2(sl_rewrite_at(sine, 1, 0), sl_rewrite_at(cosine, 1, 0));
    double second = d > 2 ? atan2(sl_rewrite_at(sine, 1, 1), sl_rewrite_at(cosine, 1, 1)) : 0;
    double base = d > 2 && second > 0 ? pow(first / second, (double)d / 2) : 10000;
    if (!(first > 0) || !(base > 1) || !isfinite(base))
        return false;
    if (fabs(base - rint(base)) < 1e-4 * base)
        base = rint(base);
    if (fabs(first - 1) < 1e-6)
        first = 1;
    for (int64_t p = 0; p < t; p++)
        for (int64_t i = 0; i < d; i++) {
            double angle = (double)p * first * pow(base, -2.0 * (double)(i % (d / 2)) / (double)d);
            double most = 1e-5 + 3e-7 * (double)p;
            if (fabs(cos(angle) - sl_rewrite_at(cosine, p, i)) > most ||
                fabs(sin(angle) - sl_rewrite_at(sine, p, i)) > most)
                return false;
        }
    out[0] = base;
    out[1] = first;
    return true;
}

sl_err sl_rewrite_rope(struct sl_rewrite *f, const struct sl_node *node, int *out) {
    struct sl_rewrite_constant table[2];
    double angles[2];
    if (!sl_rewrite_is(node, "add"))
        return SL_OK;
    for (int i = 0; i < 2; i++) {
        const struct sl_node *plain = sl_rewrite_made_by(f, node->in[i], "mul");
        const struct sl_node *turn = sl_rewrite_made_by(f, node->in[1 - i], "mul");
        for (int k = 0; plain && turn && k < 4; k++) { /* tries which sides are the tables */
            int x = plain->in[k & 1], turned = half_turned(f, turn->in[k >> 1]);
            if (turned != x || !is_heads(f, x) ||
                !sl_rewrite_constant(f, plain->in[!(k & 1)], &table[0]) ||
                !sl_rewrite_constant(f, turn->in[!(k >> 1)], &table[1]))
                continue;
            const struct sl_shape *shape = sl_rewrite_shape(f, x);
            if (!read_angles(&table[0], &table[1], shape->dim[2], shape->dim[3], angles))
                continue;
            union sl_attr attr[SL_ROPE_ATTRS] = {[SL_ROPE_BASE] = {.f = angles[0]},
                                                 [SL_ROPE_STYLE] = {.i = SL_ROPE_HALF},
                                                 [SL_ROPE_SCALE] = {.f = angles[1]},
                                                 [SL_ROPE_RAMP] = {.i = SL_ROPE_NO_RAMP},
                                                 [SL_ROPE_HIGH] = {.f = 1}};
            SL_TRY(sl_rewrite_transpose(f, f->map[x], heads_last, out));
            SL_TRY(sl_rewrite_emit(f, "rope", 1, out, attr, out));
            return sl_rewrite_transpose(f, *out, heads_last, out);
        }
    }
    return SL_OK;
}
