/* split: divides one axis into equal parts, one output per part.
 *
 *   x [B,T,12]   axis=2 parts=3   y0 y1 y2 [B,T,4]
 *
 * The gradient is one concat, which is cheaper than the sum of zero-padded parts (q, k, v). */
#include "op/slice.h"

enum { AXIS, PARTS };
enum { PARTS_MAX = 6 };

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    int64_t parts = c->attr[PARTS].i;
    SL_TRY(sl_op_need_plain_axis(c, 0, &c->attr[AXIS].i));
    int64_t size = c->in[0].dim[c->attr[AXIS].i];
    if (parts < 2 || parts > PARTS_MAX || size % parts)
        return sl_graph_infer_fail(c,
                                   "axis %lld of %s does not split into %lld equal parts (2 to %d)",
                                   (long long)c->attr[AXIS].i, sl_graph_shape_text(&c->in[0], text),
                                   (long long)parts, PARTS_MAX);
    c->out_count = (int)parts;
    for (int i = 0; i < c->out_count; i++) {
        c->out[i] = c->in[0];
        c->out[i].dim[c->attr[AXIS].i] = size / parts;
        c->out_dtype[i] = c->in_dtype[0];
    }
    return SL_OK;
}

/* If all parts have a gradient, it is their concat; otherwise the sum of the zero-padded parts. */
static int grad(struct sl_grad *g, int input) {
    int parts = (int)g->attr[PARTS].i, present = 0, sum = -1;
    struct sl_shape shape = *sl_graph_grad_shape(g, g->in[input]);
    for (int i = 0; i < parts; i++)
        present += g->dout[i] >= 0;
    if (present == parts)
        return sl_graph_grad_emit(g, "concat", parts, g->dout, &g->attr[AXIS]);
    int64_t size = shape.dim[g->attr[AXIS].i] / parts;
    for (int i = 0; i < parts; i++) {
        if (g->dout[i] < 0)
            continue;
        union sl_attr attr[3] = {g->attr[AXIS], {.i = i * size}, {.shape = shape}};
        int piece = sl_graph_grad_emit(g, "slice_dx", 1, &g->dout[i], attr);
        sum = sum < 0 ? piece : sl_graph_grad_emit(g, "add", 2, (int[]){sum, piece}, NULL);
    }
    return sum;
}

static void ref(const struct sl_ref *r) {
    struct sl_around x = sl_around(&r->in[0].shape, r->attr[AXIS].i);
    int64_t run = x.size * x.inner / r->out_count;
    for (int64_t o = 0; o < x.outer; o++)
        for (int p = 0; p < r->out_count; p++)
            for (int64_t k = 0; k < run; k++)
                sl_op_array_copy(&r->out[p], o * run + k, &r->in[0],
                                 o * x.size * x.inner + p * run + k);
}

static const struct sl_attr_desc attrs[] = {
    {"axis", SL_ATTR_INT, "-1", NULL},
    {"parts", SL_ATTR_INT, "2", NULL},
    {0},
};

SL_OP_ROW(split, "divide one axis into equal parts, one output per part", "x", "y0 y1 y2 y3 y4 y5",
          .grad_outputs = PARTS_MAX, .divide = SL_DIVIDE_SPLIT, .attrs = attrs, .is_split = true,
          .infer = infer, .flops = sl_op_flops_none, .grad = grad, .ref = ref)
