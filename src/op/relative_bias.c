/* relative_bias: the numbers that T5 adds to the scores of attention, one per head and bucket of
 * distances.
 *
 *   table [buckets,heads]   y [heads,queries,keys]: y[h,i,j] = table[bucket(j - i), h] */
#include "op/common.h"
#include "op/relative.h"

#include <string.h>

enum { QUERIES, KEYS, BOTH_SIDES, MAX_DISTANCE, BUCKETS };

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    const struct sl_shape *table = &c->in[0];
    int64_t least = c->attr[BOTH_SIDES].i ? 4 : 2;
    SL_TRY(sl_op_need_float(c, 0));
    if (table->rank != 2 || table->batch || table->dim[0] < least || c->attr[QUERIES].i < 1 ||
        c->attr[KEYS].i < 1 || c->attr[MAX_DISTANCE].i <= table->dim[0] / least)
        return sl_graph_infer_fail(c,
                                   "the table must be [buckets,heads] with %lld buckets or more, "
                                   "queries, keys and max_distance larger; it is %s",
                                   (long long)least, sl_graph_shape_text(table, text));
    c->out[0] = SL_SHAPE(3, 0, table->dim[1], c->attr[QUERIES].i, c->attr[KEYS].i);
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[5];
    memcpy(attr, g->attr, sizeof attr[0] * BUCKETS);
    attr[BUCKETS].i = sl_graph_grad_shape(g, g->in[input])->dim[0];
    return sl_graph_grad_emit(g, "relative_bias_dw", 1, &g->dout[0], attr);
}

/* Visits y or dy, [heads,queries,keys]. */
static void visit(const struct sl_ref *r, const struct sl_shape *y, double *table, double *bias,
                  int64_t buckets, bool into_table) {
    struct sl_relative relative = {buckets, r->attr[MAX_DISTANCE].i, r->attr[BOTH_SIDES].i != 0};
    int64_t heads = y->dim[0];
    for (int64_t i = 0; i < sl_op_numel(y); i++) {
        int64_t key = i % y->dim[2], query = i / y->dim[2] % y->dim[1];
        int64_t at =
            sl_op_relative_bucket(&relative, key - query) * heads + i / (y->dim[1] * y->dim[2]);
        if (into_table)
            table[at] += bias[i];
        else
            bias[i] = table[at];
    }
}

static void ref(const struct sl_ref *r) {
    visit(r, &r->out[0].shape, r->in[0].f, r->out[0].f, r->in[0].shape.dim[0], false);
}

static void ref_dw(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    visit(r, &r->in[0].shape, r->out[0].f, r->in[0].f, r->out[0].shape.dim[0], true);
}

#define ATTRS                                                                                      \
    {"queries", SL_ATTR_INT, NULL, NULL}, {"keys", SL_ATTR_INT, NULL, NULL},                       \
        {"both_sides", SL_ATTR_BOOL, "1", NULL}, {                                                 \
        "max_distance", SL_ATTR_INT, "128", NULL                                                   \
    }

static const struct sl_attr_desc attrs[] = {ATTRS, {0}};
static const struct sl_attr_desc attrs_dw[] = {ATTRS, {"buckets", SL_ATTR_INT, NULL, NULL}, {0}};

SL_OP_ROW(relative_bias, "bias of attention by the bucket of the distance", "table", "y",
          .attrs = attrs, .infer = infer, .flops = sl_op_flops_none, .grad = grad, .ref = ref)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(2, 0, c->attr[BUCKETS].i, c->in[0].dim[0]);
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

SL_OP_ROW(relative_bias_dw, "gradient of relative_bias", "dy", "dw", .attrs = attrs_dw,
          .internal = true, .infer = infer_dw, .flops = flops_dw, .ref = ref_dw)
