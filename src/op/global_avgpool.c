/* global_avgpool: the mean of each image plane.   x [B,C,H,W]   y [B,C] */
#include "op/window.h"

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_image(c, 0));
    c->out[0] = SL_SHAPE(2, c->in[0].batch, c->in[0].dim[0], c->in[0].dim[1]);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[1] = {{.shape = *sl_graph_grad_shape(g, g->in[input])}};
    return sl_graph_grad_emit(g, "global_avgpool_dx", 1, &g->dout[0], attr);
}

static int64_t plane_of(const struct sl_shape *image) { return image->dim[2] * image->dim[3]; }

static void ref(const struct sl_ref *r) {
    int64_t plane = plane_of(&r->in[0].shape), count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < plane; j++)
            sum += r->in[0].f[i * plane + j];
        r->out[0].f[i] = sum / (double)plane;
    }
}

SL_OP_ROW(global_avgpool, "mean of each image plane", "x", "y", .infer = infer, .flops = flops,
          .grad = grad, .ref = ref)

static sl_err infer_dx(struct sl_infer *c) { return sl_op_infer_stated(c, 0); }

static void ref_dx(const struct sl_ref *r) {
    int64_t plane = plane_of(&r->out[0].shape), count = sl_op_numel(&r->out[0].shape);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[i] = r->in[0].f[i / plane] / (double)plane;
}

static const struct sl_attr_desc dx_attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(global_avgpool_dx, "gradient of global_avgpool", "dy", "dx", .attrs = dx_attrs,
          .internal = true, .infer = infer_dx, .flops = sl_op_flops_elementwise, .ref = ref_dx)
