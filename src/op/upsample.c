/* upsample: repeats every pixel `factor` times per direction.   x [B,C,H,W]   y [B,C,H f,W f] */
#include "op/window.h"

#include <string.h>

static sl_err infer(struct sl_infer *c) {
    const int64_t *factor = c->attr[0].ints.at;
    SL_TRY(sl_op_need_image(c, 0));
    SL_TRY(sl_op_need_pair(c, 0, 1));
    c->out[0] = c->in[0];
    for (int i = 0; i < 2; i++) {
        if (c->in[0].dim[2 + i] > SL_MAX_NUMEL / factor[i])
            return sl_graph_infer_fail(c, "factor %lld is too large", (long long)factor[i]);
        c->out[0].dim[2 + i] *= factor[i];
    }
    return SL_OK;
}

static int grad(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "upsample_dx", 1, &g->dout[0], g->attr);
}

/* Returns the pixel of x that pixel `at` of y repeats. */
static int64_t source(const struct sl_shape *y, const int64_t factor[2], int64_t at) {
    int64_t col = at % y->dim[3], row = at / y->dim[3]; /* row: index over the rows of all planes */
    return row / factor[0] * (y->dim[3] / factor[1]) + col / factor[1];
}

static void ref(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = r->in[0].f[source(&r->out[0].shape, r->attr[0].ints.at, i)];
}

static const struct sl_attr_desc attrs[] = {{"factor", SL_ATTR_INTS, "2,2", NULL}, {0}};

SL_OP_ROW(upsample, "larger images, nearest neighbour", "x", "y", .attrs = attrs, .infer = infer,
          .flops = sl_op_flops_none, .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[0];
    for (int i = 0; i < 2; i++)
        c->out[0].dim[2 + i] /= c->attr[0].ints.at[i];
    return SL_OK;
}

static double flops_dx(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static void ref_dx(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape);
    memset(r->out[0].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[0].shape));
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[source(&r->in[0].shape, r->attr[0].ints.at, i)] += r->in[0].f[i];
}

SL_OP_ROW(upsample_dx, "gradient of upsample: the sum of each block", "dy", "dx", .attrs = attrs,
          .internal = true, .infer = infer_dx, .flops = flops_dx, .ref = ref_dx)
