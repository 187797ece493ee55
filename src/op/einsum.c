/* einsum: sums of products over labelled axes, like numpy.einsum with lists of labels.
 *
 *   einsum(x, y, left=[0,1,2], right=[0,2,3], out=[0,1,3])    "bij,bjk->bik"
 *
 * It has no kernel: it becomes one matrix product with the transposes that it needs.
 *
 *   labels in both and in out   batch     a [batch, m, k] b [batch, k, n] -> [batch, m, n]
 *   labels in both only         k         summed by the product; none: a product element by element
 *   labels in one and in out    m, n
 *   labels in one only          summed first */
#include "op/common.h"

#include "graph/graph.h"

enum { LEFT, RIGHT, OUT };

/* One operand while it is rewritten: a label per axis. */
struct side {
    int value;
    struct sl_ints labels;
};

static int find_label(const struct sl_ints *list, int64_t label) {
    for (int i = 0; i < list->count; i++)
        if (list->at[i] == label)
            return i;
    return -1;
}

static struct sl_shape shape_of(const struct sl_graph *graph, const struct side *s) {
    return sl_graph_value(graph, s->value)->shape;
}

static sl_err check_list(const struct sl_infer *c, const struct sl_ints *list, int rank,
                         const char *name) {
    if (list->count != rank)
        return sl_graph_infer_fail(c, "%s has %d labels for %d axes", name, list->count, rank);
    for (int i = 0; i < list->count; i++)
        if (find_label(list, list->at[i]) != i)
            return sl_graph_infer_fail(c, "label %lld is twice in %s; a diagonal is not supported",
                                       (long long)list->at[i], name);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    const struct sl_ints *out = &c->attr[OUT].ints;
    char left[SL_SHAPE_TEXT], right[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(check_list(c, &c->attr[LEFT].ints, c->in[0].rank, "left"));
    SL_TRY(check_list(c, &c->attr[RIGHT].ints, c->in[1].rank, "right"));
    SL_TRY(check_list(c, out, out->count, "out"));
    for (int i = 0; i < c->attr[LEFT].ints.count; i++) {
        int other = find_label(&c->attr[RIGHT].ints, c->attr[LEFT].ints.at[i]);
        if (other >= 0 && !sl_graph_dim_equal(sl_graph_shape_dim(&c->in[0], i),
                                              sl_graph_shape_dim(&c->in[1], other)))
            return sl_graph_infer_fail(c, "label %lld has different sizes in %s and %s",
                                       (long long)c->attr[LEFT].ints.at[i],
                                       sl_graph_shape_text(&c->in[0], left),
                                       sl_graph_shape_text(&c->in[1], right));
    }
    c->out[0] = (struct sl_shape){.rank = out->count};
    for (int i = 0; i < out->count; i++) {
        int from[2] = {find_label(&c->attr[LEFT].ints, out->at[i]),
                       find_label(&c->attr[RIGHT].ints, out->at[i])};
        if (from[0] < 0 && from[1] < 0)
            return sl_graph_infer_fail(c, "label %lld of out is in no operand",
                                       (long long)out->at[i]);
        int side = from[0] < 0;
        sl_graph_shape_set(&c->out[0], i, sl_graph_shape_dim(&c->in[side], from[side]));
    }
    return SL_OK;
}

/* Replaces the operand by op(operand). */
static sl_err apply(struct sl_graph *graph, const struct sl_node_spec *like, const char *op,
                    const union sl_attr *attr, struct side *s) {
    struct sl_node_spec spec = *like;
    int in = s->value;
    spec.op = graph->find_op(sl_str(op));
    spec.in_count = 1;
    spec.in = &in;
    spec.attr = attr;
    return sl_graph_node(graph, &spec, &s->value);
}

/* Permutes the axes into the order of `want`, which has the same labels. */
static sl_err turn(struct sl_graph *graph, const struct sl_node_spec *like, struct side *s,
                   const struct sl_ints *want) {
    union sl_attr perm = {.ints = {.count = want->count}};
    bool same = true;
    for (int i = 0; i < want->count; i++) {
        perm.ints.at[i] = find_label(&s->labels, want->at[i]);
        same &= perm.ints.at[i] == i;
    }
    s->labels = *want;
    return same ? SL_OK : apply(graph, like, "transpose", &perm, s);
}

/* Sums over the labels that neither `a` nor `b` has. */
static sl_err sum_own(struct sl_graph *graph, const struct sl_node_spec *like, struct side *s,
                      const struct sl_ints *a, const struct sl_ints *b) {
    union sl_attr attr[2] = {{.ints = {0}}, {.i = 0}};
    struct sl_ints kept = {0};
    for (int i = 0; i < s->labels.count; i++) {
        bool needed = find_label(a, s->labels.at[i]) >= 0 || find_label(b, s->labels.at[i]) >= 0;
        struct sl_ints *list = needed ? &kept : &attr[0].ints;
        list->at[list->count++] = needed ? s->labels.at[i] : i;
    }
    if (!attr[0].ints.count)
        return SL_OK;
    s->labels = kept;
    return apply(graph, like, "reduce_sum", attr, s);
}

/* Appends those labels of `from` that are in `other` (or are not: in_other) and in `out` (or are
 * not: in_out). */
static void pick(struct sl_ints *to, const struct sl_ints *from, const struct sl_ints *other,
                 bool in_other, const struct sl_ints *out, bool in_out) {
    for (int i = 0; i < from->count; i++)
        if ((find_label(other, from->at[i]) >= 0) == in_other &&
            (find_label(out, from->at[i]) >= 0) == in_out)
            to->at[to->count++] = from->at[i];
}

/* Merges the axes into [batch, first, second]; without a batch: [first, second]. */
static sl_err merge(struct sl_graph *graph, const struct sl_node_spec *like, struct side *s,
                    int batch, int middle) {
    struct sl_shape shape = shape_of(graph, s);
    union sl_attr attr = {.shape = {0}};
    struct sl_shape *to = &attr.shape;
    if (batch)
        sl_graph_shape_set(to, to->rank++, sl_graph_shape_product(&shape, 0, batch));
    sl_graph_shape_set(to, to->rank++, sl_graph_shape_product(&shape, batch, middle));
    sl_graph_shape_set(to, to->rank++, sl_graph_shape_product(&shape, middle, shape.rank));
    return apply(graph, like, "reshape", &attr, s);
}

static sl_err expand(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    const struct sl_ints *want = &spec->attr[OUT].ints, none = {0};
    struct side a = {spec->in[0], spec->attr[LEFT].ints};
    struct side b = {spec->in[1], spec->attr[RIGHT].ints};
    struct sl_ints order[2] = {{0}}, result = {0}, m = {0}, n = {0};
    struct sl_shape shape, left, right;
    SL_TRY(sum_own(graph, spec, &a, &b.labels, want));
    SL_TRY(sum_own(graph, spec, &b, &a.labels, want));
    pick(&order[0], &a.labels, &b.labels, true, want, true);
    int batch = order[0].count;
    order[1] = result = order[0];
    pick(&m, &a.labels, &b.labels, false, &none, false);
    pick(&n, &b.labels, &a.labels, false, &none, false);
    pick(&order[0], &m, &none, false, &none, false);
    pick(&order[0], &a.labels, &b.labels, true, want, false);
    pick(&order[1], &a.labels, &b.labels, true, want, false);
    pick(&order[1], &n, &none, false, &none, false);
    pick(&result, &m, &none, false, &none, false);
    pick(&result, &n, &none, false, &none, false);
    SL_TRY(turn(graph, spec, &a, &order[0]));
    SL_TRY(turn(graph, spec, &b, &order[1]));
    left = shape_of(graph, &a);
    right = shape_of(graph, &b);
    shape = (struct sl_shape){.rank = result.count};
    for (int i = 0; i < result.count; i++) {
        int at = i - result.count; /* the axes of n are the last ones of b, in this order */
        bool left_has = i < batch + m.count;
        sl_graph_shape_set(&shape, i,
                           sl_graph_shape_dim(left_has ? &left : &right, left_has ? i : at));
    }
    SL_TRY(merge(graph, spec, &a, batch, batch + m.count));
    SL_TRY(merge(graph, spec, &b, batch, b.labels.count - n.count));
    int pair[2] = {a.value, b.value}, value;
    bool contracts = order[0].count > batch + m.count;
    struct sl_node_spec product = *spec;
    product.op = graph->find_op(contracts ? SL_STR("matmul") : SL_STR("mul"));
    product.in = pair;
    product.attr = NULL;
    SL_TRY(sl_graph_node(graph, &product, &value));
    struct side y = {value, result};
    SL_TRY(apply(graph, spec, "reshape", &(union sl_attr){.shape = shape}, &y));
    SL_TRY(turn(graph, spec, &y, want));
    *out = y.value;
    return SL_OK;
}

static const struct sl_attr_desc attrs[] = {
    {"left", SL_ATTR_INTS, NULL, NULL},
    {"right", SL_ATTR_INTS, NULL, NULL},
    {"out", SL_ATTR_INTS, "", NULL},
    {0},
};

SL_OP_ROW(einsum, "sums of products over labelled axes", "a b", "y", .attrs = attrs, .infer = infer,
          .expand = expand)
