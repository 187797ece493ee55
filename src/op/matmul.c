/* matmul: y = a b + bias; a and b may each be transposed.
 *
 *   a    [..., m, k]    ta: [..., k, m]
 *   b    [k, n]         tb: [n, k];  or [..., k, n]
 *   bias [n]
 *   y    [..., m, n]
 *
 * With a two-dimensional b (a weight), the leading sizes of a become rows of one large product.
 * Other leading sizes broadcast as in numpy.matmul, and a vector is a row on the left side and a
 * column on the right side. The kernels see equal leading sizes only: expand() repeats an operand
 * whose leading sizes differ.
 */
#include "op/common.h"

#include "graph/graph.h"

enum { TA, TB };

struct sizes {
    int64_t batch, m, n, k;
    bool shared; /* b is two-dimensional, so all leading sizes share it */
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

/* Returns the shape of a vector as a matrix: a row on the left, a column on the right. */
static struct sl_shape matrix_of(const struct sl_shape *x, bool right) {
    struct sl_shape matrix = *x;
    if (x->rank == 1) {
        sl_graph_shape_set(&matrix, right ? 0 : 1, sl_graph_shape_dim(x, 0));
        sl_graph_shape_set(&matrix, right ? 1 : 0, (struct sl_dim){1, false});
        matrix.rank = 2;
    }
    return matrix;
}

static struct sl_shape leading_of(const struct sl_shape *matrix) {
    struct sl_shape rows = sl_op_shape_without_last(matrix);
    return sl_op_shape_without_last(&rows);
}

/* Checks the shapes and computes the leading sizes of the result. */
static sl_err check_shapes(const struct sl_infer *c, const struct sl_shape *a,
                           const struct sl_shape *b, struct sl_shape *leading) {
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    sl_graph_shape_text(&c->in[0], left);
    sl_graph_shape_text(&c->in[1], right);
    if (c->in[0].rank < 1 || c->in[1].rank < 1 || (c->attr[TA].i && c->in[0].rank < 2) ||
        (c->attr[TB].i && c->in[1].rank < 2))
        return sl_graph_infer_fail(c, "both sides need rank 1, or 2 to be transposed: %s x %s",
                                   left, right);
    struct sl_dim ka = sl_graph_shape_dim(a, c->attr[TA].i ? -2 : -1);
    struct sl_dim kb = sl_graph_shape_dim(b, c->attr[TB].i ? -1 : -2);
    if (!sl_graph_dim_equal(ka, kb))
        return sl_graph_infer_fail(c, "inner sizes differ: %s%s x %s%s", left,
                                   c->attr[TA].i ? " transposed" : "", right,
                                   c->attr[TB].i ? " transposed" : "");
    struct sl_shape la = leading_of(a), lb = leading_of(b);
    if (sl_graph_shape_broadcast(&la, &lb, leading) != SL_OK)
        return sl_graph_infer_fail(c, "leading sizes differ: %s x %s", left, right);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    struct sl_shape a = matrix_of(&c->in[0], false), b = matrix_of(&c->in[1], true);
    struct sl_shape *y = &c->out[0];
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_op_need_float(c, i));
    SL_TRY(check_shapes(c, &a, &b, y));
    struct sl_dim n = sl_graph_shape_dim(&b, c->attr[TB].i ? -2 : -1);
    char bias[SL_SHAPE_TEXT];
    if (c->present[2] && (c->in[2].rank != 1 || c->in[1].rank == 1 ||
                          !sl_graph_dim_equal(sl_graph_shape_dim(&c->in[2], 0), n)))
        return sl_graph_infer_fail(c, "bias %s does not match %lld columns",
                                   sl_graph_shape_text(&c->in[2], bias), (long long)n.n);
    if (c->in[0].rank > 1)
        sl_graph_shape_set(y, y->rank++, sl_graph_shape_dim(&a, c->attr[TA].i ? -1 : -2));
    if (c->in[1].rank > 1)
        sl_graph_shape_set(y, y->rank++, n);
    return SL_OK;
}

/* Expands the operand to a matrix with these leading sizes. */
static sl_err widen(struct sl_graph *graph, int *value, bool right,
                    const struct sl_shape *leading) {
    struct sl_shape x = sl_graph_value(graph, *value)->shape, matrix = matrix_of(&x, right);
    union sl_attr attr = {.shape = matrix};
    if (x.rank == 1)
        SL_TRY(sl_graph_apply(graph, "reshape", 1, value, &attr, value));
    attr.shape = *leading;
    for (int i = -2; i < 0; i++)
        sl_graph_shape_set(&attr.shape, attr.shape.rank++, sl_graph_shape_dim(&matrix, i));
    if (sl_graph_shape_equal(&attr.shape, &matrix))
        return SL_OK;
    return sl_graph_apply(graph, "broadcast_to", 1, value, &attr, value);
}

/* Adds the views and repetitions that the kernels need; *out = -1 if they take these shapes as they
 * are. */
static sl_err expand(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    struct sl_shape x[2], m[2], lead[2], leading;
    int in[3] = {spec->in[0], spec->in[1], spec->in_count > 2 ? spec->in[2] : -1};
    for (int i = 0; i < 2; i++) {
        x[i] = sl_graph_value(graph, in[i])->shape;
        m[i] = matrix_of(&x[i], i == 1);
        lead[i] = leading_of(&m[i]);
    }
    bool rows = m[1].rank == 2 && (m[0].rank == 2 || !spec->attr[TA].i);
    *out = -1;
    if (x[0].rank > 1 && x[1].rank > 1 && (rows || sl_graph_shape_equal(&lead[0], &lead[1])))
        return SL_OK;
    SL_TRY(sl_graph_shape_broadcast(&lead[0], &lead[1], &leading));
    SL_TRY(widen(graph, &in[0], false, rows ? &lead[0] : &leading));
    SL_TRY(widen(graph, &in[1], true, rows ? &lead[1] : &leading));
    struct sl_node_spec plain = *spec;
    plain.in = in;
    SL_TRY(sl_graph_node(graph, &plain, out));
    if (x[0].rank > 1 && x[1].rank > 1)
        return SL_OK;
    union sl_attr attr = {.shape = sl_graph_value(graph, *out)->shape};
    struct sl_shape *y = &attr.shape;
    struct sl_dim n = sl_graph_shape_dim(y, -1);
    y->rank -= (x[0].rank == 1) + (x[1].rank == 1);
    if (x[0].rank == 1 && x[1].rank > 1)
        sl_graph_shape_set(y, y->rank - 1, n);
    y->batch &= (1u << y->rank) - 1;
    return sl_graph_apply(graph, "reshape", 1, out, &attr, out);
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

SL_OP_ROW(matmul, "matrix product, batched, either side transposed, with a bias", "a b bias?", "y",
          .divide = SL_DIVIDE_PRODUCT, .attrs = attrs, .layer = SL_LAYER_PRODUCT, .infer = infer,
          .flops = flops, .grad = grad, .ref = ref, .expand = expand)
