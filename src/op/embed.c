/* embed: y[i] = table[indices[i]]; the indices may have any shape.
 *
 *   table [V,C]   indices [...]   y [...,C]       dtable [V,C]: rows of dy added up, i ascending
 *
 * The row `padding` gets no gradient from this use (like padding_idx of torch.nn.Embedding); -1:
 * there is no such row. */
#include "op/common.h"

#include <string.h>

static sl_err infer(struct sl_infer *c) {
    char table[SL_SHAPE_TEXT], indices[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    sl_graph_shape_text(&c->in[0], table);
    sl_graph_shape_text(&c->in[1], indices);
    if (c->in[0].rank != 2 || c->in[0].batch)
        return sl_graph_infer_fail(c, "the table must be [rows,columns], it is %s (indices %s)",
                                   table, indices);
    if (c->attr[0].i < -1 || c->attr[0].i >= c->in[0].dim[0])
        return sl_graph_infer_fail(c, "'padding' %lld is no row of the table %s",
                                   (long long)c->attr[0].i, table);
    if (c->in[1].rank >= SL_MAX_RANK)
        return sl_graph_infer_fail(c, "indices %s have too many sizes for a table %s", indices,
                                   table);
    c->out[0] = c->in[1];
    sl_graph_shape_set(&c->out[0], c->out[0].rank++, sl_graph_shape_dim(&c->in[0], 1));
    return SL_OK;
}

/* Bytes moved: counts only the rows of the table that are read. */
static double bytes(const struct sl_op_view *v) {
    return 4.0 * ((double)sl_op_numel(&v->in[1]) + 2.0 * (double)sl_op_numel(&v->out[0]));
}

static int grad(struct sl_grad *g, int input) {
    if (input != 0)
        return -1;
    union sl_attr attr[2] = {{.i = sl_graph_grad_shape(g, g->in[0])->dim[0]}, g->attr[0]};
    return sl_graph_grad_emit(g, "embed_dw", 2, (int[]){g->dout[0], g->in[1]}, attr);
}

static void ref(const struct sl_ref *r) {
    int64_t rows = r->in[0].shape.dim[0], n = r->in[0].shape.dim[1];
    int64_t count = sl_op_numel(&r->in[1].shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = r->in[1].i[i];
        SL_ASSERT(row >= 0 && row < rows); /* data readers have checked the bound of inputs */
        memcpy(r->out[0].f + i * n, r->in[0].f + row * n, (size_t)n * sizeof(double));
    }
}

static const struct sl_attr_desc attrs[] = {{"padding", SL_ATTR_INT, "-1", NULL}, {0}};

SL_OP_ROW(embed, "rows of a table by index", "table indices", "y", .attrs = attrs,
          .divide = SL_DIVIDE_TABLE, .layer = SL_LAYER_EMBED, .infer = infer,
          .flops = sl_op_flops_none, .bytes = bytes, .grad = grad, .ref = ref)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(2, 0, c->attr[0].i, sl_graph_shape_dim(&c->in[0], -1).n);
    return SL_OK;
}

static double flops_dw(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static void ref_dw(const struct sl_ref *r) {
    int64_t n = r->out[0].shape.dim[1], count = sl_op_numel(&r->in[1].shape);
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < n && r->in[1].i[i] != r->attr[1].i; j++)
            r->out[0].f[r->in[1].i[i] * n + j] += r->in[0].f[i * n + j];
}

static const struct sl_attr_desc attrs_dw[] = {
    {"rows", SL_ATTR_INT, NULL, NULL}, {"padding", SL_ATTR_INT, "-1", NULL}, {0}};

SL_OP_ROW(embed_dw, "gradient of embed with respect to the table", "dy indices", "dw",
          .attrs = attrs_dw, .internal = true, .layer = SL_LAYER_EMBED, .infer = infer_dw,
          .flops = flops_dw, .ref = ref_dw)
