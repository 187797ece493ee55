/* matmul: y = a b + bias; a and b may each be transposed.
 *
 *   a    [..., m, k]    ta: [..., k, m]
 *   b    [k, n]         tb: [n, k];  or [..., k, n] with the leading sizes of a
 *   bias [n]
 *   y    [..., m, n]
 *
 * With a two-dimensional b (a weight), the leading sizes of a become rows of one large product.
 */
#include "op/common.h"

enum { TA, TB };

struct sizes {
    int64_t batch, m, n, k;
    bool shared; /* b is two-dimensional */
};

static struct sizes sizes_of(const struct sl_shape *a, const struct sl_shape *b,
                             const union sl_attr *attr) {
    int64_t rows = a->dim[a->rank - 2], columns = a->dim[a->rank - 1];
    struct sizes s = {
        .batch = 1,
        .m = attr[TA].i ? columns : rows,
        .k = attr[TA].i ? rows : columns,
        .n = b->dim[b->rank - (attr[TB].i ? 2 : 1)],
        .shared = b->rank == 2,
    };
    for (int i = 0; i < a->rank - 2; i++)
        s.batch *= a->dim[i];
    return s;
}

static sl_err check_shapes(const struct sl_infer *c) {
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    const struct sl_shape *a = &c->in[0], *b = &c->in[1];
    sl_graph_shape_text(a, left);
    sl_graph_shape_text(b, right);
    if (a->rank < 2 || b->rank < 2)
        return sl_graph_infer_fail(c, "both sides need rank 2 or more: %s x %s", left, right);
    if (b->rank != 2 && b->rank != a->rank)
        return sl_graph_infer_fail(c, "the right side must have rank 2 or %d: %s x %s", a->rank,
                                   left, right);
    struct sl_dim ka = sl_graph_shape_dim(a, c->attr[TA].i ? -2 : -1);
    struct sl_dim kb = sl_graph_shape_dim(b, c->attr[TB].i ? -1 : -2);
    if (!sl_graph_dim_equal(ka, kb))
        return sl_graph_infer_fail(c, "inner sizes differ: %s%s x %s%s", left,
                                   c->attr[TA].i ? " transposed" : "", right,
                                   c->attr[TB].i ? " transposed" : "");
    for (int i = 0; b->rank > 2 && i < a->rank - 2; i++)
        if (!sl_graph_dim_equal(sl_graph_shape_dim(a, i), sl_graph_shape_dim(b, i)))
            return sl_graph_infer_fail(c, "leading sizes differ: %s x %s", left, right);
    if (c->attr[TA].i && b->rank == 2 && a->rank > 2)
        return sl_graph_infer_fail(c, "ta needs a left side of rank 2: %s", left);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(sl_op_need_float(c, 2));
    SL_TRY(check_shapes(c));
    struct sl_dim n = sl_graph_shape_dim(&c->in[1], c->attr[TB].i ? -2 : -1);
    char bias[SL_SHAPE_TEXT];
    if (c->present[2] &&
        (c->in[2].rank != 1 || !sl_graph_dim_equal(sl_graph_shape_dim(&c->in[2], 0), n)))
        return sl_graph_infer_fail(c, "bias %s does not match %lld columns",
                                   sl_graph_shape_text(&c->in[2], bias), (long long)n.n);
    c->out[0] = c->in[0];
    sl_graph_shape_set(&c->out[0], c->out[0].rank - 2,
                       sl_graph_shape_dim(&c->in[0], c->attr[TA].i ? -1 : -2));
    sl_graph_shape_set(&c->out[0], c->out[0].rank - 1, n);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) {
    struct sizes s = sizes_of(&v->in[0], &v->in[1], v->attr);
    return 2.0 * (double)s.batch * (double)s.m * (double)s.n * (double)s.k;
}

static int emit(struct sl_grad *g, int a, int b, bool ta, bool tb) {
    int in[2] = {a, b};
    union sl_attr attr[2] = {{.i = ta}, {.i = tb}};
    return sl_graph_grad_emit(g, "matmul", 2, in, attr);
}

/*  y = a b:   da = dy b'   db = a' dy;  y = a' b: da = b dy'  db = a dy;
 *  y = a b':  da = dy b    db = dy' a;  y = a'b': da = b' dy' db = dy' a' */
static int grad(struct sl_grad *g, int input) {
    bool ta = g->attr[TA].i, tb = g->attr[TB].i;
    int a = g->in[0], b = g->in[1], dy = g->dout[0];
    if (input == 2)
        return sl_op_grad_sum_to(g, dy, g->in[2]);
    if (input == 0)
        return ta ? emit(g, b, dy, tb, true) : emit(g, dy, b, false, !tb);
    if (sl_graph_grad_shape(g, b)->rank == 2) { /* leading sizes are rows */
        a = sl_op_grad_rows(g, a);
        dy = sl_op_grad_rows(g, dy);
    }
    return tb ? emit(g, dy, a, true, ta) : emit(g, a, dy, !ta, false);
}

static void ref(const struct sl_ref *r) {
    struct sizes s = sizes_of(&r->in[0].shape, &r->in[1].shape, r->attr);
    bool ta = r->attr[TA].i, tb = r->attr[TB].i;
    for (int64_t l = 0; l < s.batch; l++) {
        const double *a = r->in[0].f + l * s.m * s.k;
        const double *b = r->in[1].f + (s.shared ? 0 : l * s.k * s.n);
        double *y = r->out[0].f + l * s.m * s.n;
        for (int64_t i = 0; i < s.m; i++)
            for (int64_t j = 0; j < s.n; j++) {
                double sum = r->in[2].f ? r->in[2].f[j] : 0;
                for (int64_t k = 0; k < s.k; k++)
                    sum += a[ta ? k * s.m + i : i * s.k + k] * b[tb ? j * s.k + k : k * s.n + j];
                y[i * s.n + j] = sum;
            }
    }
}

static const struct sl_attr_desc attrs[] = {
    {"ta", SL_ATTR_BOOL, "0", NULL},
    {"tb", SL_ATTR_BOOL, "0", NULL},
    {0},
};

const struct sl_op sl_op_matmul = {
    .name = "matmul",
    .brief = "matrix product, batched, either side transposed, with a bias",
    .inputs = "a b bias?",
    .outputs = "y",
    .attrs = attrs,
    .layer = SL_LAYER_PRODUCT,
    .infer = infer,
    .flops = flops,
    .grad = grad,
    .ref = ref,
};
