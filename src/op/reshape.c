/* reshape: a view of the same elements in the same order with another shape. */
#include "op/common.h"

#include <string.h>

static sl_err infer(struct sl_infer *c) {
    char from[SL_SHAPE_TEXT], to[SL_SHAPE_TEXT];
    struct sl_shape *want = &c->attr[0].shape;
    SL_TRY(sl_graph_shape_check(want));
    struct sl_dim have = sl_graph_shape_product(&c->in[0], 0, c->in[0].rank);
    struct sl_dim asked = sl_graph_shape_product(want, 0, want->rank);
    if (!sl_graph_dim_equal(have, asked))
        return sl_graph_infer_fail(c, "%s does not have as many elements as %s",
                                   sl_graph_shape_text(&c->in[0], from),
                                   sl_graph_shape_text(want, to));
    c->out[0] = *want;
    c->out_dtype[0] = c->in_dtype[0];
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    return sl_op_grad_reshape(g, g->dout[0], *sl_graph_grad_shape(g, g->in[input]));
}

static void ref(const struct sl_ref *r) {
    size_t count = (size_t)sl_op_numel(&r->out[0].shape);
    if (r->in[0].f)
        memcpy(r->out[0].f, r->in[0].f, count * sizeof(double));
    else
        memcpy(r->out[0].i, r->in[0].i, count * sizeof(int32_t));
}

static const struct sl_attr_desc attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(reshape, "the same elements under another shape", "x", "y", .divide = SL_DIVIDE_RESHAPE,
          .attrs = attrs, .is_view = true, .infer = infer, .flops = sl_op_flops_none, .grad = grad,
          .ref = ref)
