/* maxpool: the largest element of each window; among equal ones the first in row-major order.
 *
 *   x [B,C,H,W]   y [B,C,OH,OW]   index int [B,C,OH,OW]: where in its H x W plane y was found
 *
 * The backward pass needs only the index: neither x nor y is kept. A NaN is the largest element.
 */
#include "op/window.h"

#include <math.h>
#include <string.h>

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_pool_infer(c));
    if (c->in[0].dim[2] * c->in[0].dim[3] > INT32_MAX)
        return sl_graph_infer_fail(c, "images of more than 2^31 pixels");
    c->out[1] = c->out[0];
    c->out_dtype[1] = SL_INT;
    return SL_OK;
}

static double flops(const struct sl_op_view *v) {
    const int64_t *kernel = v->attr[0].ints.at;
    return (double)sl_op_numel(&v->out[0]) * (double)(kernel[0] * kernel[1]);
}

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[4] = {{.shape = *sl_graph_grad_shape(g, g->in[input])}};
    memcpy(attr + 1, g->attr, sizeof attr[0] * 3);
    return sl_graph_grad_emit(g, "maxpool_dx", 2, (int[]){g->dout[0], g->out[1]}, attr);
}

/* Returns the index in the plane of the largest element of window (i, j). */
static int32_t find_largest(const struct sl_window *w, const double *plane, const int64_t size[2],
                            int64_t i, int64_t j) {
    int64_t top, bottom, left, right;
    sl_op_window_clip(w, 0, i, size[0], &top, &bottom);
    sl_op_window_clip(w, 1, j, size[1], &left, &right);
    int64_t best = top * size[1] + left;
    for (int64_t row = top; row < bottom; row++)
        for (int64_t col = left; col < right; col++) {
            int64_t at = row * size[1] + col;
            if (plane[at] > plane[best] || (isnan(plane[at]) && !isnan(plane[best])))
                best = at;
        }
    return (int32_t)best;
}

static void ref(const struct sl_ref *r) {
    const struct sl_window window = sl_op_pool_window(r->attr);
    const int64_t *in = r->in[0].shape.dim, *out = r->out[0].shape.dim;
    int64_t at = 0;
    for (int64_t plane = 0; plane < in[0] * in[1]; plane++) {
        const double *x = r->in[0].f + plane * in[2] * in[3];
        for (int64_t i = 0; i < out[2]; i++)
            for (int64_t j = 0; j < out[3]; j++, at++) {
                r->out[1].i[at] = find_largest(&window, x, in + 2, i, j);
                r->out[0].f[at] = x[r->out[1].i[at]];
            }
    }
}

/* clang-format off */
#define WINDOW                                                                                     \
    {"kernel", SL_ATTR_INTS, NULL, NULL},                                                          \
    {"stride", SL_ATTR_INTS, "0,0", NULL}, /* 0: the kernel */                                     \
    {"pad", SL_ATTR_INTS, "0,0", NULL}
/* clang-format on */

static const struct sl_attr_desc attrs[] = {WINDOW, {0}};

SL_OP_ROW(maxpool, "largest element of each window of an image", "x", "y index", .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) { return sl_op_infer_stated(c, 0); }

static double flops_dx(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static void ref_dx(const struct sl_ref *r) {
    const int64_t *in = r->out[0].shape.dim, *out = r->in[0].shape.dim;
    int64_t count = out[2] * out[3];
    memset(r->out[0].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[0].shape));
    for (int64_t plane = 0; plane < in[0] * in[1]; plane++) {
        double *dx = r->out[0].f + plane * in[2] * in[3];
        for (int64_t i = plane * count; i < (plane + 1) * count; i++)
            dx[r->in[1].i[i]] += r->in[0].f[i];
    }
}

/* The reference needs only the index; a device kernel uses the window to find its outputs. */
static const struct sl_attr_desc dx_attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, WINDOW, {0}};

SL_OP_ROW(maxpool_dx, "gradient of maxpool", "dy index", "dx", .attrs = dx_attrs, .internal = true,
          .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)
