/* groupnorm: gives each group of channels of a sample mean 0 and variance 1, then scales and
 * shifts each channel. instancenorm: one group per channel.
 *
 *   x [B,C,...]   w, b [C]   y [B,C,...]   mean, rstd [B,groups] */
#include "op/window.h"

#include "graph/graph.h"

#include <math.h>
#include <string.h>

enum { GROUPS, EPS };

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    const struct sl_shape *x = &c->in[0];
    int64_t groups = c->attr[GROUPS].i;
    SL_TRY(sl_op_need_float(c, 0));
    if (x->rank < 2 || (x->batch & ~1u) || groups < 1 || x->dim[1] % groups ||
        !(c->attr[EPS].f > 0))
        return sl_graph_infer_fail(c,
                                   "x must be [B,C,...] with C a multiple of groups = %lld, eps "
                                   "= %g positive; it is %s",
                                   (long long)groups, c->attr[EPS].f, sl_graph_shape_text(x, text));
    SL_TRY(sl_op_need_channels(c, 1, x));
    SL_TRY(sl_op_need_channels(c, 2, x));
    c->out[0] = *x;
    c->out[1] = c->out[2] = SL_SHAPE(2, x->batch, x->dim[0], groups);
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 8.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    int in[5] = {g->dout[0], g->in[0], g->out[1], g->out[2], sl_graph_grad_input(g, 1)};
    if (g->dout[0] < 0)
        return -1;
    if (input == 0)
        return sl_graph_grad_emit(g, "groupnorm_dx", in[4] >= 0 ? 5 : 4, in, NULL);
    if (input == 2)
        return sl_op_grad_sum_channels(g, g->dout[0], g->in[2]);
    return sl_graph_grad_emit(g, "groupnorm_dw", 4, in, NULL);
}

struct sizes {
    int64_t b, c, plane, groups, each; /* each: number of elements of a group */
};

static struct sizes sizes_of(const struct sl_shape *x, const struct sl_shape *mean) {
    struct sizes z = {x->dim[0], x->dim[1], 1, mean->dim[1], 1};
    z.plane = sl_op_numel(x) / (z.b * z.c);
    z.each = z.c / z.groups * z.plane;
    return z;
}

static void ref(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[0].shape, &r->out[1].shape);
    for (int64_t g = 0; g < z.b * z.groups; g++) {
        const double *x = r->in[0].f + g * z.each;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < z.each; i++)
            mean += x[i] / (double)z.each;
        for (int64_t i = 0; i < z.each; i++)
            var += (x[i] - mean) * (x[i] - mean) / (double)z.each;
        r->out[1].f[g] = mean;
        r->out[2].f[g] = 1 / sqrt(var + r->attr[EPS].f);
        for (int64_t i = 0; i < z.each; i++) {
            int64_t c = (g * z.each + i) / z.plane % z.c;
            r->out[0].f[g * z.each + i] =
                (x[i] - mean) * r->out[2].f[g] * (r->in[1].f ? r->in[1].f[c] : 1) +
                (r->in[2].f ? r->in[2].f[c] : 0);
        }
    }
}

static const struct sl_attr_desc attrs[] = {
    {"groups", SL_ATTR_INT, NULL, NULL}, {"eps", SL_ATTR_FLOAT, "1e-5", NULL}, {0}};

SL_OP_ROW(groupnorm, "normalise over groups of channels, scale and shift", "x w? b?", "y mean rstd",
          .attrs = attrs, .exact_out = 6, .infer = infer, .flops = flops, .grad = grad, .ref = ref)

/* Inputs: dy x mean rstd w?. dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy w. */
static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static void ref_dx(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[1].shape, &r->in[2].shape);
    for (int64_t g = 0; g < z.b * z.groups; g++) {
        double mean = r->in[2].f[g], rstd = r->in[3].f[g], sum = 0, dot = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t i = g * z.each; i < (g + 1) * z.each; i++) {
                double xhat = (r->in[1].f[i] - mean) * rstd;
                double dy = r->in[0].f[i] * (r->in[4].f ? r->in[4].f[i / z.plane % z.c] : 1);
                sum += pass ? 0 : dy / (double)z.each;
                dot += pass ? 0 : dy * xhat / (double)z.each;
                r->out[0].f[i] = rstd * (dy - sum - xhat * dot);
            }
    }
}

SL_OP_ROW(groupnorm_dx, "gradient of groupnorm with respect to x", "dy x mean rstd w?", "dx",
          .internal = true, .infer = infer_dx, .flops = flops, .ref = ref_dx)

static sl_err infer_dw(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(1, 0, c->in[1].dim[1]);
    return SL_OK;
}

static void ref_dw(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[1].shape, &r->in[2].shape);
    memset(r->out[0].f, 0, sizeof(double) * (size_t)z.c);
    for (int64_t i = 0; i < sl_op_numel(&r->in[1].shape); i++)
        r->out[0].f[i / z.plane % z.c] +=
            r->in[0].f[i] * (r->in[1].f[i] - r->in[2].f[i / z.each]) * r->in[3].f[i / z.each];
}

SL_OP_ROW(groupnorm_dw, "gradient of groupnorm with respect to w", "dy x mean rstd", "dw",
          .internal = true, .infer = infer_dw, .flops = flops, .ref = ref_dw)

static sl_err infer_instance(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_infer_same(c));
    if (c->in[0].rank < 3)
        return sl_graph_infer_fail(c, "x must be [B,C,...] with rank 3 or more, it is %s",
                                   sl_graph_shape_text(&c->in[0], text));
    return SL_OK;
}

static sl_err expand_instance(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    struct sl_node_spec grouped = *spec;
    union sl_attr attr[2] = {{.i = sl_graph_value(graph, spec->in[0])->shape.dim[1]},
                             spec->attr[0]};
    grouped.op = &sl_op_groupnorm;
    grouped.attr = attr;
    return sl_graph_node(graph, &grouped, out);
}

static const struct sl_attr_desc attrs_eps[] = {{"eps", SL_ATTR_FLOAT, "1e-5", NULL}, {0}};

SL_OP_ROW(instancenorm, "normalise every channel of every sample, scale and shift", "x w? b?", "y",
          .attrs = attrs_eps, .infer = infer_instance, .expand = expand_instance)
