/* embed_bag: the table rows of a bag of indices, summed, averaged or concatenated (the sparse
 * branches of DLRM; concat as in Jeon et al. 2025 (GraphPipe), appendix A.2).
 *
 *   table [V,C]   indices [...,bag]   sum, mean: y [...,C]   concat: y [...,bag*C]
 */
#include "op/common.h"

#include <string.h>

enum { SUM, MEAN, CONCAT };

static sl_err infer(struct sl_infer *c) {
    char table[SL_SHAPE_TEXT], indices[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    sl_graph_shape_text(&c->in[0], table);
    sl_graph_shape_text(&c->in[1], indices);
    if (c->in[0].rank != 2 || c->in[0].batch)
        return sl_graph_infer_fail(c, "the table must be [rows,columns], it is %s (indices %s)",
                                   table, indices);
    if (c->in[1].rank < 1 || sl_graph_shape_dim(&c->in[1], -1).batch)
        return sl_graph_infer_fail(
            c, "the last size of indices %s must be that of a bag (table %s)", indices, table);
    struct sl_dim width = sl_graph_shape_dim(&c->in[0], 1), bag = sl_graph_shape_dim(&c->in[1], -1);
    if (c->attr[0].i == CONCAT && bag.n > SL_MAX_NUMEL / width.n)
        return sl_graph_infer_fail(c, "bags of %s from %s are too wide", indices, table);
    if (c->attr[0].i == CONCAT)
        width.n *= bag.n;
    c->out[0] = c->in[1];
    sl_graph_shape_set(&c->out[0], c->out[0].rank - 1, width);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) {
    if (v->attr[0].i == CONCAT)
        return 0;
    return (double)sl_op_numel(&v->in[1]) * (double)v->in[0].dim[1];
}

/* Bytes moved: counts only the rows of the table that are read. */
static double bytes(const struct sl_op_view *v) {
    double rows = (double)sl_op_numel(&v->in[1]);
    return 4.0 * (rows + rows * (double)v->in[0].dim[1] + (double)sl_op_numel(&v->out[0]));
}

static int grad(struct sl_grad *g, int input) {
    if (input != 0)
        return -1;
    const struct sl_shape *table = sl_graph_grad_shape(g, g->in[0]);
    union sl_attr attr[2] = {{.i = table->dim[0]}, {.i = g->attr[0].i}};
    return sl_graph_grad_emit(g, "embed_bag_dw", 2, (int[]){g->dout[0], g->in[1]}, attr);
}

/* Returns the offset in a row of y (or dy) of element i of the k-th table row of the bag. */
static int64_t place(int64_t mode, int64_t bag, int64_t k, int64_t n, int64_t i) {
    return mode == CONCAT ? (i * bag + k) * n : i * n;
}

static void ref(const struct sl_ref *r) {
    struct sl_op_rowset bags = sl_op_rows_of(&r->in[1].shape);
    int64_t rows = r->in[0].shape.dim[0], n = r->in[0].shape.dim[1], mode = r->attr[0].i;
    double factor = mode == MEAN ? 1.0 / (double)bags.n : 1;
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    for (int64_t i = 0; i < bags.count; i++)
        for (int64_t k = 0; k < bags.n; k++) {
            int64_t row = r->in[1].i[i * bags.n + k];
            double *y = r->out[0].f + place(mode, bags.n, k, n, i);
            SL_ASSERT(row >= 0 && row < rows);
            for (int64_t j = 0; j < n; j++)
                y[j] += factor * r->in[0].f[row * n + j];
        }
}

static const struct sl_attr_desc attrs[] = {{"mode", SL_ATTR_ENUM, "sum", "sum|mean|concat"}, {0}};

SL_OP_ROW(embed_bag, "rows of a table for bags of indices, summed, averaged or concatenated",
          "table indices", "y", .attrs = attrs, .layer = SL_LAYER_EMBED, .infer = infer,
          .flops = flops, .bytes = bytes, .grad = grad, .ref = ref)

enum { ROWS, MODE };

static sl_err infer_dw(struct sl_infer *c) {
    int64_t width = sl_graph_shape_dim(&c->in[0], -1).n;
    if (c->attr[MODE].i == CONCAT)
        width /= sl_graph_shape_dim(&c->in[1], -1).n;
    c->out[0] = SL_SHAPE(2, 0, c->attr[ROWS].i, width);
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) {
    return (double)sl_op_numel(&v->in[1]) * (double)v->out[0].dim[1];
}

static void ref_dw(const struct sl_ref *r) {
    struct sl_op_rowset bags = sl_op_rows_of(&r->in[1].shape);
    int64_t n = r->out[0].shape.dim[1], mode = r->attr[MODE].i;
    double factor = mode == MEAN ? 1.0 / (double)bags.n : 1;
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    for (int64_t i = 0; i < bags.count; i++)
        for (int64_t k = 0; k < bags.n; k++) {
            double *dw = r->out[0].f + r->in[1].i[i * bags.n + k] * n;
            const double *dy = r->in[0].f + place(mode, bags.n, k, n, i);
            for (int64_t j = 0; j < n; j++)
                dw[j] += factor * dy[j];
        }
}

static const struct sl_attr_desc attrs_dw[] = {
    {"rows", SL_ATTR_INT, NULL, NULL},
    {"mode", SL_ATTR_ENUM, "sum", "sum|mean|concat"},
    {0},
};

SL_OP_ROW(embed_bag_dw, "gradient of embed_bag with respect to the table", "dy indices", "dw",
          .attrs = attrs_dw, .internal = true, .layer = SL_LAYER_EMBED, .infer = infer_dw,
          .flops = flops_dw, .ref = ref_dw)
