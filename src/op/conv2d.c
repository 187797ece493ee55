/* conv2d: cross-correlation over images, with stride, padding, dilation and groups.
 *
 *   x [B,C,H,W]   w [O,C/groups,KH,KW]   bias [O]   y [B,O,OH,OW]
 *
 *   y[b,o,i,j] = bias[o] + sum over c,k,l of x[b, c, i s - p + k d, j s - p + l d] w[o,c,k,l]
 *
 * where c runs over the channels of o's group. The kernels of y, dx and dw visit the same triples
 * (y, x, w) and differ only in the member they add to.
 */
#include "op/window.h"

#include <string.h>

enum { STRIDE, PAD, DILATION, GROUPS, SHAPE };

struct conv {
    struct sl_window window;
    int64_t b, c, h, w, o, oh, ow;
    int64_t in_group, out_group; /* channels of one group */
};

static struct conv conv_of(const struct sl_shape *x, const struct sl_shape *w,
                           const struct sl_shape *y, const union sl_attr *attr) {
    struct conv conv = {
        .b = x->dim[0],
        .c = x->dim[1],
        .h = x->dim[2],
        .w = x->dim[3],
        .o = w->dim[0],
        .oh = y->dim[2],
        .ow = y->dim[3],
        .in_group = w->dim[1],
        .out_group = w->dim[0] / attr[GROUPS].i,
    };
    for (int i = 0; i < 2; i++) {
        conv.window.kernel[i] = w->dim[2 + i];
        conv.window.stride[i] = attr[STRIDE].ints.at[i];
        conv.window.pad[i] = attr[PAD].ints.at[i];
        conv.window.dilation[i] = attr[DILATION].ints.at[i];
    }
    return conv;
}

static sl_err check_weight(const struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT], bias[SL_SHAPE_TEXT];
    int64_t groups = c->attr[GROUPS].i, channels = c->in[0].dim[1], o = c->in[1].dim[0];
    sl_graph_shape_text(&c->in[0], x);
    sl_graph_shape_text(&c->in[1], w);
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(sl_op_need_float(c, 2));
    if (c->in[1].rank != 4 || c->in[1].batch)
        return sl_graph_infer_fail(c, "the weight must be [O,C/groups,KH,KW], it is %s", w);
    if (groups < 1 || channels % groups || o % groups)
        return sl_graph_infer_fail(c, "%lld groups do not divide the channels of %s and %s",
                                   (long long)groups, x, w);
    if (c->in[1].dim[1] != channels / groups)
        return sl_graph_infer_fail(c,
                                   "the weight %s takes %lld channels per group, but %s in %lld "
                                   "groups has %lld",
                                   w, (long long)c->in[1].dim[1], x, (long long)groups,
                                   (long long)(channels / groups));
    const struct sl_shape want = SL_SHAPE(1, 0, o);
    if (c->present[2] && !sl_graph_shape_equal(&c->in[2], &want))
        return sl_graph_infer_fail(c, "bias %s does not match the %lld channels of the result",
                                   sl_graph_shape_text(&c->in[2], bias), (long long)o);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_image(c, 0));
    SL_TRY(sl_op_need_pair(c, STRIDE, 1));
    SL_TRY(sl_op_need_pair(c, PAD, 0));
    SL_TRY(sl_op_need_pair(c, DILATION, 1));
    SL_TRY(check_weight(c));
    c->out[0] = c->in[0];
    c->out[0].dim[1] = c->in[1].dim[0];
    struct conv conv = conv_of(&c->in[0], &c->in[1], &c->out[0], c->attr);
    return sl_op_window_infer(c, &conv.window, &c->in[0], &c->out[0]);
}

static double flops_of(const struct sl_shape *y, const struct sl_shape *w) {
    return 2.0 * (double)sl_op_numel(y) * (double)(w->dim[1] * w->dim[2] * w->dim[3]);
}

static double flops(const struct sl_op_view *v) { return flops_of(&v->out[0], &v->in[1]); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[5];
    int dy = g->dout[0];
    if (input == 2)
        return sl_op_grad_sum_channels(g, dy, g->in[2]);
    memcpy(attr, g->attr, sizeof attr[0] * SHAPE);
    attr[SHAPE].shape = *sl_graph_grad_shape(g, g->in[input]);
    return input == 0 ? sl_graph_grad_emit(g, "conv2d_dx", 2, (int[]){dy, g->in[1]}, attr)
                      : sl_graph_grad_emit(g, "conv2d_dw", 2, (int[]){dy, g->in[0]}, attr);
}

enum target { INTO_Y, INTO_X, INTO_W };

struct planes { /* one plane of the result, one of x, one of the kernel */
    double *y, *x, *w;
};

/* Visit all outputs that use kernel element (k, l). */
static void visit_tap(const struct conv *c, const struct planes *p, int64_t k, int64_t l,
                      enum target target) {
    double *w = p->w + k * c->window.kernel[1] + l;
    for (int64_t i = 0; i < c->oh; i++) {
        int64_t row = i * c->window.stride[0] - c->window.pad[0] + k * c->window.dilation[0];
        if (row < 0 || row >= c->h)
            continue;
        for (int64_t j = 0; j < c->ow; j++) {
            int64_t col = j * c->window.stride[1] - c->window.pad[1] + l * c->window.dilation[1];
            if (col < 0 || col >= c->w)
                continue;
            double *y = p->y + i * c->ow + j, *x = p->x + row * c->w + col;
            switch (target) {
            case INTO_Y: *y += *x * *w; break;
            case INTO_X: *x += *y * *w; break;
            case INTO_W: *w += *y * *x; break;
            }
        }
    }
}

static void visit_planes(const struct conv *c, const struct planes *p, enum target target) {
    for (int64_t k = 0; k < c->window.kernel[0]; k++)
        for (int64_t l = 0; l < c->window.kernel[1]; l++)
            visit_tap(c, p, k, l, target);
}

static void visit(const struct conv *c, struct planes all, enum target target) {
    int64_t taps = c->window.kernel[0] * c->window.kernel[1];
    for (int64_t b = 0; b < c->b; b++)
        for (int64_t o = 0; o < c->o; o++)
            for (int64_t i = 0; i < c->in_group; i++) {
                int64_t channel = o / c->out_group * c->in_group + i;
                struct planes p = {
                    .y = all.y + (b * c->o + o) * c->oh * c->ow,
                    .x = all.x + (b * c->c + channel) * c->h * c->w,
                    .w = all.w + (o * c->in_group + i) * taps,
                };
                visit_planes(c, &p, target);
            }
}

static void ref(const struct sl_ref *r) {
    struct conv c = conv_of(&r->in[0].shape, &r->in[1].shape, &r->out[0].shape, r->attr);
    int64_t plane = c.oh * c.ow;
    for (int64_t i = 0; i < c.b * c.o * plane; i++)
        r->out[0].f[i] = r->in[2].f ? r->in[2].f[i / plane % c.o] : 0;
    visit(&c, (struct planes){r->out[0].f, r->in[0].f, r->in[1].f}, INTO_Y);
}

#define CONV_ATTRS                                                                                 \
    {"stride", SL_ATTR_INTS, "1,1", NULL}, {"pad", SL_ATTR_INTS, "0,0", NULL},                     \
        {"dilation", SL_ATTR_INTS, "1,1", NULL}, {                                                 \
        "groups", SL_ATTR_INT, "1", NULL                                                           \
    }

static const struct sl_attr_desc attrs[] = {CONV_ATTRS, {0}};

const struct sl_op sl_op_conv2d = {
    .name = "conv2d",
    .brief = "convolution of images with stride, padding, dilation and groups",
    .inputs = "x w bias?",
    .outputs = "y",
    .attrs = attrs,
    .layer = SL_LAYER_CONV,
    .infer = infer,
    .flops = flops,
    .grad = grad,
    .ref = ref,
};

/* Gradients: the result's shape is an attribute, so that x (or w) need not be kept. */
static const struct sl_attr_desc grad_attrs[] = {
    CONV_ATTRS, {"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

static sl_err infer_grad(struct sl_infer *c) { return sl_op_infer_stated(c, SHAPE); }

static double flops_dx(const struct sl_op_view *v) { return flops_of(&v->in[0], &v->in[1]); }
static double flops_dw(const struct sl_op_view *v) { return flops_of(&v->in[0], &v->out[0]); }

static void ref_dx(const struct sl_ref *r) {
    struct conv c = conv_of(&r->out[0].shape, &r->in[1].shape, &r->in[0].shape, r->attr);
    memset(r->out[0].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[0].shape));
    visit(&c, (struct planes){r->in[0].f, r->out[0].f, r->in[1].f}, INTO_X);
}

static void ref_dw(const struct sl_ref *r) {
    struct conv c = conv_of(&r->in[1].shape, &r->out[0].shape, &r->in[0].shape, r->attr);
    memset(r->out[0].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[0].shape));
    visit(&c, (struct planes){r->in[0].f, r->in[1].f, r->out[0].f}, INTO_W);
}

const struct sl_op sl_op_conv2d_dw = {
    .name = "conv2d_dw",
    .brief = "gradient of conv2d with respect to w",
    .inputs = "dy x",
    .outputs = "dw",
    .attrs = grad_attrs,
    .internal = true,
    .layer = SL_LAYER_CONV,
    .infer = infer_grad,
    .flops = flops_dw,
    .ref = ref_dw,
};

const struct sl_op sl_op_conv2d_dx = {
    .name = "conv2d_dx",
    .brief = "gradient of conv2d with respect to x",
    .inputs = "dy w",
    .outputs = "dx",
    .attrs = grad_attrs,
    .internal = true,
    .layer = SL_LAYER_CONV,
    .infer = infer_grad,
    .flops = flops_dx,
    .ref = ref_dx,
};
