/* opaque: a layer of which only the cost is known. Plans, simulations and exports take it; no device
 * runs it.
 *
 *   opaque(x, w, shape=[B,128], flops=2e9, bytes=4e6, ms=1.5)     costs are per sample
 *
 * Inputs may be activations and parameters. The gradients of all activations together cost as much as
 * the forward pass; so do those of all parameters. ms < 0: time follows from flops and bytes. */
#include "op/common.h"

#include "graph/graph.h"

#include <string.h>

enum { SHAPE, FLOPS, BYTES, MS, PART };

static sl_err infer(struct sl_infer *c) {
    for (int i = 0; i < c->in_count; i++)
        SL_TRY(sl_op_need_float(c, i));
    if (!(c->attr[FLOPS].f >= 0 && c->attr[FLOPS].f < 1e18 && c->attr[BYTES].f >= 0 &&
          c->attr[BYTES].f < 1e15 && c->attr[MS].f < 1e9))
        return sl_graph_infer_fail(c, "flops = %g, bytes = %g, ms = %g is no cost of a layer",
                                   c->attr[FLOPS].f, c->attr[BYTES].f, c->attr[MS].f);
    c->out[0] = c->attr[SHAPE].shape;
    return SL_OK;
}

/* Returns the number of samples: the output size that contains B, divided by the stated size per
 * sample. */
static double samples(const struct sl_op_view *v) {
    const struct sl_shape *stated = &v->attr[SHAPE].shape;
    for (int i = 0; i < stated->rank; i++)
        if (sl_graph_shape_dim(stated, i).batch)
            return (double)v->out[0].dim[i] / (double)stated->dim[i];
    return 1;
}

static double flops(const struct sl_op_view *v) { return v->attr[FLOPS].f * samples(v); }
static double bytes(const struct sl_op_view *v) {
    return v->attr[BYTES].f > 0 ? v->attr[BYTES].f * samples(v) : 4;
}
static double seconds(const struct sl_op_view *v) {
    return v->attr[MS].f < 0 ? -1 : 1e-3 * v->attr[MS].f * samples(v);
}

/* The cost of a kind of gradients (activations or parameters) is divided equally among its
 * inputs. */
static int grad(struct sl_grad *g, int input) {
    const struct sl_node *node = &g->graph->nodes.at[g->node];
    bool param = sl_graph_value(g->graph, g->in[input])->kind == SL_VALUE_PARAM;
    int same = 0, in[2] = {g->dout[0], g->in[input]};
    for (int i = 0; i < node->in_count; i++)
        same += (sl_graph_value(g->graph, g->in[i])->kind == SL_VALUE_PARAM) == param;
    union sl_attr attr[5];
    memcpy(attr, g->attr, sizeof attr[0] * PART);
    for (int i = FLOPS; i <= MS; i++)
        attr[i].f /= same;
    attr[PART].shape = *sl_graph_grad_shape(g, g->in[input]);
    return sl_graph_grad_emit(g, "opaque_dx", 2, in, attr);
}

#define ATTRS                                                                                      \
    {"shape", SL_ATTR_SHAPE, NULL, NULL}, {"flops", SL_ATTR_FLOAT, "0", NULL},                     \
        {"bytes", SL_ATTR_FLOAT, "0", NULL}, {                                                     \
        "ms", SL_ATTR_FLOAT, "-1", NULL                                                            \
    }

static const struct sl_attr_desc attrs[] = {ATTRS, {0}};
static const struct sl_attr_desc attrs_dx[] = {ATTRS, {"part", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(opaque, "a layer of which only shape and cost are known: plans only", "xs*", "y",
          .attrs = attrs, .infer = infer, .flops = flops, .bytes = bytes, .seconds = seconds,
          .plan_only = true, .grad = grad)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->attr[PART].shape;
    return SL_OK;
}

/* Samples of dy are counted by the stated shape. */
static double part_of(const struct sl_op_view *v, int what) {
    struct sl_op_view forward = {.attr = v->attr};
    forward.out[0] = v->in[0];
    return what == MS ? seconds(&forward) : what == FLOPS ? flops(&forward) : bytes(&forward);
}
static double flops_dx(const struct sl_op_view *v) { return part_of(v, FLOPS); }
static double bytes_dx(const struct sl_op_view *v) { return part_of(v, BYTES); }
static double seconds_dx(const struct sl_op_view *v) { return part_of(v, MS); }

SL_OP_ROW(opaque_dx, "gradient of opaque", "dy x", "dx", .attrs = attrs_dx, .internal = true,
          .infer = infer_dx, .flops = flops_dx, .bytes = bytes_dx, .seconds = seconds_dx,
          .plan_only = true)
