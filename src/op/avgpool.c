/* avgpool: the mean of each window.
 *
 *   x [B,C,H,W]   y [B,C,OH,OW]
 *
 * count_include_pad: divide by the kernel's size; otherwise by the number of pixels in the image.
 */
#include "op/window.h"

#include <string.h>

enum { KERNEL, STRIDE, PAD, INCLUDE, SHAPE };

static double flops_of(const struct sl_shape *y, const union sl_attr *attr) {
    const int64_t *kernel = attr[KERNEL].ints.at;
    return (double)sl_op_numel(y) * (double)(kernel[0] * kernel[1]);
}

static double flops(const struct sl_op_view *v) { return flops_of(&v->out[0], v->attr); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[5];
    memcpy(attr, g->attr, sizeof attr[0] * SHAPE);
    attr[SHAPE].shape = *sl_graph_grad_shape(g, g->in[input]);
    return sl_graph_grad_emit(g, "avgpool_dx", 1, &g->dout[0], attr);
}

struct pool {
    struct sl_window window;
    bool include;
    int64_t size[2]; /* height and width of a plane of x */
};

/* Forward: sets *y to the mean of window (i, j) of plane x. Backward: spreads *y over the
 * window. */
static void visit_window(const struct pool *p, double *x, double *y, const int64_t at[2],
                         bool backward) {
    int64_t top, bottom, left, right;
    sl_op_window_clip(&p->window, 0, at[0], p->size[0], &top, &bottom);
    sl_op_window_clip(&p->window, 1, at[1], p->size[1], &left, &right);
    double count = p->include ? (double)(p->window.kernel[0] * p->window.kernel[1])
                              : (double)((bottom - top) * (right - left));
    double sum = 0;
    for (int64_t row = top; row < bottom; row++)
        for (int64_t col = left; col < right; col++) {
            if (backward)
                x[row * p->size[1] + col] += *y / count;
            else
                sum += x[row * p->size[1] + col];
        }
    if (!backward)
        *y = sum / count;
}

static void visit(const union sl_attr *attr, const struct sl_array *x, const struct sl_array *y,
                  bool backward) {
    const int64_t *in = x->shape.dim, *out = y->shape.dim;
    struct pool pool = {sl_op_pool_window(attr), attr[INCLUDE].i != 0, {in[2], in[3]}};
    double *value = y->f;
    for (int64_t plane = 0; plane < in[0] * in[1]; plane++)
        for (int64_t i = 0; i < out[2]; i++)
            for (int64_t j = 0; j < out[3]; j++)
                visit_window(&pool, x->f + plane * in[2] * in[3], value++, (int64_t[]){i, j},
                             backward);
}

static void ref(const struct sl_ref *r) { visit(r->attr, &r->in[0], &r->out[0], false); }

#define POOL_ATTRS                                                                                 \
    {"kernel", SL_ATTR_INTS, NULL, NULL}, {"stride", SL_ATTR_INTS, "0,0", NULL},                   \
        {"pad", SL_ATTR_INTS, "0,0", NULL}, {                                                      \
        "count_include_pad", SL_ATTR_BOOL, "1", NULL                                               \
    }

static const struct sl_attr_desc attrs[] = {POOL_ATTRS, {0}};

SL_OP_ROW(avgpool, "mean of each window of an image", "x", "y", .attrs = attrs,
          .infer = sl_op_pool_infer, .flops = flops, .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) { return sl_op_infer_stated(c, SHAPE); }

static double flops_dx(const struct sl_op_view *v) { return flops_of(&v->in[0], v->attr); }

static void ref_dx(const struct sl_ref *r) {
    memset(r->out[0].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[0].shape));
    visit(r->attr, &r->out[0], &r->in[0], true);
}

static const struct sl_attr_desc dx_attrs[] = {
    POOL_ATTRS, {"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(avgpool_dx, "gradient of avgpool", "dy", "dx", .attrs = dx_attrs, .internal = true,
          .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)
