/* conv2d: cross-correlation over images, with stride, padding, dilation and groups; conv1d, the same
 * over sequences; conv_transpose2d, whose result is the gradient of a conv2d.
 *
 *   x [B,C,H,W]   w [O,C/groups,KH,KW]   bias [O]   y [B,O,OH,OW]
 *
 *   y[b,o,i,j] = bias[o] + sum over c,k,l of x[b, c, i s - p + k d, j s - p + l d] w[o,c,k,l]
 *
 * where c runs over the channels of o's group. The kernels of y, dx and dw visit the same
 * triples (y, x, w); they differ only in which of the three they add to. */
#include "op/window.h"

#include "graph/graph.h"

#include <string.h>

enum { STRIDE, PAD, DILATION, GROUPS, SHAPE };

struct conv {
    struct sl_window window;
    int64_t b, c, h, w, o, oh, ow;
    int64_t in_group, out_group; /* number of channels of one group */
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

/* Visits all outputs that use kernel element (k, l). */
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

SL_OP_ROW(conv2d, "convolution of images with stride, padding, dilation and groups", "x w bias?",
          "y", .attrs = attrs, .layer = SL_LAYER_CONV, .infer = infer, .flops = flops, .grad = grad,
          .ref = ref)

/* Gradients get the shape of their result as an attribute, so that x (or w) need not be kept. */
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

SL_OP_ROW(conv2d_dw, "gradient of conv2d with respect to w", "dy x", "dw", .attrs = grad_attrs,
          .internal = true, .layer = SL_LAYER_CONV, .infer = infer_grad, .flops = flops_dw,
          .ref = ref_dw)

SL_OP_ROW(conv2d_dx, "gradient of conv2d with respect to x", "dy w", "dx", .attrs = grad_attrs,
          .internal = true, .layer = SL_LAYER_CONV, .infer = infer_grad, .flops = flops_dx,
          .ref = ref_dx)

/* ---- conv_transpose2d: y is the dx of a conv2d whose dy is x ----
 *
 *   x [B,C,H,W]   w [C,O/groups,KH,KW]   bias [O]   y [B,O,OH,OW]
 *   OH = (H - 1) stride - 2 pad + dilation (KH - 1) + out_pad + 1
 */
static sl_err infer_transpose(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
    int64_t groups = c->attr[GROUPS].i, *pair[4];
    SL_TRY(sl_op_need_image(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(sl_op_need_float(c, 2));
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_op_need_pair(c, i, i == PAD ? 0 : 1));
    SL_TRY(sl_op_need_pair(c, SHAPE, 0)); /* the attribute at SHAPE is out_pad here */
    for (int i = 0; i < 4; i++)
        pair[i] = c->attr[i == 3 ? SHAPE : i].ints.at;
    sl_graph_shape_text(&c->in[0], x);
    sl_graph_shape_text(&c->in[1], w);
    if (c->in[1].rank != 4 || c->in[1].batch || c->in[1].dim[0] != c->in[0].dim[1] || groups < 1 ||
        c->in[1].dim[0] % groups || c->in[1].dim[1] > SL_MAX_NUMEL / groups)
        return sl_graph_infer_fail(c,
                                   "the weight must be [C,O/groups,KH,KW] for %s in %lld groups, "
                                   "it is %s",
                                   x, (long long)groups, w);
    c->out[0] = c->in[0];
    c->out[0].dim[1] = c->in[1].dim[1] * groups;
    for (int i = 0; i < 2; i++) {
        int64_t stride = pair[0][i], most = stride > pair[2][i] ? stride : pair[2][i];
        double size =
            (double)(c->in[0].dim[2 + i] - 1) * (double)stride - 2.0 * (double)pair[1][i] +
            (double)pair[2][i] * (double)(c->in[1].dim[2 + i] - 1) + (double)pair[3][i] + 1;
        if (!(size >= 1 && size <= (double)SL_MAX_NUMEL) || pair[3][i] >= most)
            return sl_graph_infer_fail(c, "x %s and the weight %s give no image", x, w);
        c->out[0].dim[2 + i] = (int64_t)size;
    }
    const struct sl_shape want = SL_SHAPE(1, 0, c->out[0].dim[1]);
    if (c->present[2] && !sl_graph_shape_equal(&c->in[2], &want))
        return sl_graph_infer_fail(c, "bias does not match the %lld channels of the result of %s",
                                   (long long)c->out[0].dim[1], w);
    return SL_OK;
}

/* Makes the bias a separate addition, because the kernels take none. */
static sl_err expand_transpose(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    struct sl_node_spec plain = *spec;
    *out = -1;
    if (spec->in_count < 3)
        return SL_OK;
    union sl_attr attr = {.shape = SL_SHAPE(3, 0, 1, 1, 1)};
    attr.shape.dim[0] = sl_graph_value(graph, spec->in[2])->shape.dim[0];
    int pair[2];
    plain.in_count = 2;
    SL_TRY(sl_graph_node(graph, &plain, &pair[0]));
    SL_TRY(sl_graph_apply(graph, "reshape", 1, &spec->in[2], &attr, &pair[1]));
    return sl_graph_apply(graph, "add", 2, pair, NULL, out);
}

static double flops_transpose(const struct sl_op_view *v) { return flops_of(&v->in[0], &v->in[1]); }

static int grad_transpose(struct sl_grad *g, int input) {
    union sl_attr attr[5];
    memcpy(attr, g->attr, sizeof attr[0] * SHAPE);
    if (input == 0)
        return sl_graph_grad_emit(g, "conv2d", 2, (int[]){g->dout[0], g->in[1]}, attr);
    attr[SHAPE].shape = *sl_graph_grad_shape(g, g->in[1]);
    return sl_graph_grad_emit(g, "conv2d_dw", 2, (int[]){g->in[0], g->dout[0]}, attr);
}

static const struct sl_attr_desc transpose_attrs[] = {
    CONV_ATTRS, {"out_pad", SL_ATTR_INTS, "0,0", NULL}, {0}};

SL_OP_ROW(conv_transpose2d, "transposed convolution of images", "x w bias?", "y",
          .attrs = transpose_attrs, .layer = SL_LAYER_CONV, .infer = infer_transpose,
          .flops = flops_transpose, .grad = grad_transpose, .ref = ref_dx,
          .expand = expand_transpose)

/* ---- conv1d: x [B,C,T], w [O,C/groups,K]: images of one row ---- */

static sl_err infer_1d(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(sl_op_need_float(c, 2));
    if (c->in[0].rank != 3 || c->in[1].rank != 3)
        return sl_graph_infer_fail(c, "x must be [B,C,T] and w [O,C/groups,K], they are %s and %s",
                                   sl_graph_shape_text(&c->in[0], x),
                                   sl_graph_shape_text(&c->in[1], w));
    c->out[0] = c->in[0]; /* the conv2d that it becomes checks the rest */
    return SL_OK;
}

/* Emits a view of x with an axis of size 1 before the last one, or (wider false) without it. */
static sl_err respace(struct sl_graph *graph, int value, bool wider, int *out) {
    union sl_attr attr = {.shape = sl_graph_value(graph, value)->shape};
    struct sl_shape *s = &attr.shape;
    struct sl_dim last = sl_graph_shape_dim(s, -1);
    s->rank += wider ? 1 : -1;
    if (wider)
        sl_graph_shape_set(s, s->rank - 2, (struct sl_dim){1, false});
    sl_graph_shape_set(s, s->rank - 1, last);
    return sl_graph_apply(graph, "reshape", 1, &value, &attr, out);
}

static sl_err expand_1d(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    struct sl_node_spec wide = *spec;
    int in[3] = {-1, -1, spec->in_count > 2 ? spec->in[2] : -1};
    union sl_attr attr[4] = {{.ints = {2, {1, spec->attr[0].i}}},
                             {.ints = {2, {0, spec->attr[1].i}}},
                             {.ints = {2, {1, spec->attr[2].i}}},
                             spec->attr[3]};
    wide.op = &sl_op_conv2d;
    wide.in = in;
    wide.attr = attr;
    for (int i = 0; i < 2; i++)
        SL_TRY(respace(graph, spec->in[i], true, &in[i]));
    SL_TRY(sl_graph_node(graph, &wide, out));
    return respace(graph, *out, false, out);
}

static const struct sl_attr_desc attrs_1d[] = {{"stride", SL_ATTR_INT, "1", NULL},
                                               {"pad", SL_ATTR_INT, "0", NULL},
                                               {"dilation", SL_ATTR_INT, "1", NULL},
                                               {"groups", SL_ATTR_INT, "1", NULL},
                                               {0}};

SL_OP_ROW(conv1d, "convolution of sequences with stride, padding, dilation and groups", "x w bias?",
          "y", .attrs = attrs_1d, .infer = infer_1d, .expand = expand_1d)
