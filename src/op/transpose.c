/* transpose: axis i of y is axis perm[i] of x; the gradient is the inverse permutation.
 *
 *   x [B,3,5,7]   perm=[0,2,1,3]   y [B,5,3,7]
 */
#include "op/common.h"

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    struct sl_ints *perm = &c->attr[0].ints;
    bool taken[SL_MAX_RANK] = {false};
    sl_graph_shape_text(&c->in[0], text);
    if (perm->count != c->in[0].rank)
        return sl_graph_infer_fail(c, "perm names %d axes, %s has %d", perm->count, text,
                                   c->in[0].rank);
    c->out[0].rank = perm->count;
    for (int i = 0; i < perm->count; i++) {
        SL_TRY(sl_op_need_axis(c, perm->count, &perm->at[i]));
        if (taken[perm->at[i]])
            return sl_graph_infer_fail(c, "perm names axis %lld of %s twice",
                                       (long long)perm->at[i], text);
        taken[perm->at[i]] = true;
        sl_graph_shape_set(&c->out[0], i, sl_graph_shape_dim(&c->in[0], (int)perm->at[i]));
    }
    c->out_dtype[0] = c->in_dtype[0];
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    union sl_attr inverse[1] = {{.ints = {.count = g->attr[0].ints.count}}};
    for (int i = 0; i < inverse[0].ints.count; i++)
        inverse[0].ints.at[g->attr[0].ints.at[i]] = i;
    return sl_graph_grad_emit(g, "transpose", 1, &g->dout[0], inverse);
}

static void ref(const struct sl_ref *r) {
    const struct sl_shape *x = &r->in[0].shape, *y = &r->out[0].shape;
    int64_t stride[SL_MAX_RANK] = {0}, at[SL_MAX_RANK] = {0}, count = sl_op_numel(y), next = 1;
    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= x->dim[i];
    }
    for (int64_t to = 0; to < count; to++) {
        int64_t from = 0;
        for (int i = 0; i < y->rank; i++)
            from += at[i] * stride[r->attr[0].ints.at[i]];
        sl_op_array_copy(&r->out[0], to, &r->in[0], from);
        for (int i = y->rank - 1; i >= 0 && ++at[i] == y->dim[i]; i--)
            at[i] = 0;
    }
}

static const struct sl_attr_desc attrs[] = {{"perm", SL_ATTR_INTS, NULL, NULL}, {0}};

SL_OP_ROW(transpose, "axes in another order", "x", "y", .divide = SL_DIVIDE_TRANSPOSE,
          .attrs = attrs, .infer = infer, .flops = sl_op_flops_none, .grad = grad, .ref = ref)
