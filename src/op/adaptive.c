/* adaptive_avgpool: the mean over bins that cover the image; bin i of n over `size` pixels is
 * [floor(i size / n), ceil((i + 1) size / n)), as in PyTorch.
 *
 *   x [B,C,H,W]   out=[OH,OW]   y [B,C,OH,OW]
 */
#include "op/window.h"

#include <string.h>

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_image(c, 0));
    SL_TRY(sl_op_need_pair(c, 0, 1));
    c->out[0] = c->in[0];
    for (int i = 0; i < 2; i++)
        c->out[0].dim[2 + i] = c->attr[0].ints.at[i];
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[1] = {{.shape = *sl_graph_grad_shape(g, g->in[input])}};
    return sl_graph_grad_emit(g, "adaptive_avgpool_dx", 1, &g->dout[0], attr);
}

/* Visits every pixel of every bin: y += x / count, or x += y / count. */
static void visit(const struct sl_array *x, const struct sl_array *y, bool into_x) {
    const int64_t *from = x->shape.dim, *to = y->shape.dim;
    for (int64_t i = 0; i < sl_op_numel(&y->shape); i++) {
        int64_t row = i / to[3] % to[2], column = i % to[3], plane = i / (to[2] * to[3]);
        int64_t top = row * from[2] / to[2], bottom = ((row + 1) * from[2] + to[2] - 1) / to[2];
        int64_t left = column * from[3] / to[3];
        int64_t right = ((column + 1) * from[3] + to[3] - 1) / to[3];
        double count = (double)((bottom - top) * (right - left));
        for (int64_t h = top; h < bottom; h++)
            for (int64_t w = left; w < right; w++) {
                int64_t at = (plane * from[2] + h) * from[3] + w;
                *(into_x ? &x->f[at] : &y->f[i]) += (into_x ? y->f[i] : x->f[at]) / count;
            }
    }
}

static void ref(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    visit(&r->in[0], &r->out[0], false);
}

static void ref_dx(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    visit(&r->out[0], &r->in[0], true);
}

static sl_err infer_dx(struct sl_infer *c) { return sl_op_infer_stated(c, 0); }

static const struct sl_attr_desc attrs[] = {{"out", SL_ATTR_INTS, NULL, NULL}, {0}};
static const struct sl_attr_desc attrs_dx[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(adaptive_avgpool, "average pooling to a given size", "x", "y", .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)

SL_OP_ROW(adaptive_avgpool_dx, "gradient of adaptive_avgpool", "dy", "dx", .attrs = attrs_dx,
          .internal = true, .infer = infer_dx, .flops = flops, .ref = ref_dx)
