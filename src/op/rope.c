/* rope: rotary position embedding; rotates pairs of features by an angle proportional to the
 * position.
 *
 *   x [B,T,H,D] -> y [B,T,H,D]     angle(t, i) = (offset + t) rate(i),  i < D/2
 *
 * rate(i) = f (scale + (1 - scale) r)  with f = base^(-2 i / D); r = 0 without a ramp, else
 * r = (u - low) / (high - low) limited to [0, 1], where u is f (ramp frequency: Llama 3) or i (ramp
 * index: YaRN, Peng et al. 2023). src/op/rope.h computes it.
 *
 * style half:        pairs are (i, i + D/2)    (Llama, GPT-NeoX)
 * style interleaved: pairs are (2 i, 2 i + 1)  (Su et al. 2021, RoFormer, sec. 3.2)
 * scale is the factor of linear position interpolation (1/4: a context four times as long).
 * inverse rotates by the negative angle: this is the gradient. */
#include "op/rope.h"
#include "op/common.h"

#include <math.h>
#include <string.h>

#define MAX ((int64_t)1 << 40) /* positions up to this are exact in double */

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    const struct sl_shape *x = &c->in[0];
    SL_TRY(sl_op_need_float(c, 0));
    if (x->rank != 4 || (x->batch & ~1u) || x->dim[3] % 2)
        return sl_graph_infer_fail(c, "needs [B,T,H,D] with an even D, got %s",
                                   sl_graph_shape_text(x, text));
    if (!(c->attr[SL_ROPE_BASE].f > 0) || !isfinite(c->attr[SL_ROPE_BASE].f))
        return sl_graph_infer_fail(c, "'base' must be positive");
    if (!isfinite(c->attr[SL_ROPE_SCALE].f))
        return sl_graph_infer_fail(c, "'scale' must be finite");
    if (c->attr[SL_ROPE_OFFSET].i < -MAX || c->attr[SL_ROPE_OFFSET].i > MAX)
        return sl_graph_infer_fail(c, "'offset' %lld is too large",
                                   (long long)c->attr[SL_ROPE_OFFSET].i);
    double width = c->attr[SL_ROPE_HIGH].f - c->attr[SL_ROPE_LOW].f;
    if (c->attr[SL_ROPE_RAMP].i != SL_ROPE_NO_RAMP && (!isfinite(width) || width == 0))
        return sl_graph_infer_fail(c, "a ramp needs 'low' and 'high' that differ");
    c->out[0] = *x;
    return SL_OK;
}

/* Three flops per element; all samples and heads share the angles. */
static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[SL_ROPE_ATTRS];
    (void)input;
    memcpy(attr, g->attr, sizeof attr);
    attr[SL_ROPE_INVERSE].i = !attr[SL_ROPE_INVERSE].i;
    return sl_graph_grad_emit(g, "rope", 1, &g->dout[0], attr);
}

/* Rotates one head at one position. */
static void turn(const union sl_attr *attr, int64_t position, int64_t d, const double *x,
                 double *y) {
    bool half = attr[SL_ROPE_STYLE].i == SL_ROPE_HALF;
    for (int64_t i = 0; i < d / 2; i++) {
        double angle = (double)(attr[SL_ROPE_OFFSET].i + position) * sl_op_rope_rate(attr, i, d);
        double c = cos(angle), s = attr[SL_ROPE_INVERSE].i ? -sin(angle) : sin(angle);
        int64_t a = half ? i : 2 * i, b = half ? i + d / 2 : 2 * i + 1;
        y[a] = x[a] * c - x[b] * s;
        y[b] = x[a] * s + x[b] * c;
    }
}

static void ref(const struct sl_ref *r) {
    const int64_t *dim = r->in[0].shape.dim;
    int64_t t = dim[1], h = dim[2], d = dim[3];
    for (int64_t i = 0; i < dim[0] * t * h; i++)
        turn(r->attr, i / h % t, d, r->in[0].f + i * d, r->out[0].f + i * d);
}

static const struct sl_attr_desc attrs[] = {
    {"base", SL_ATTR_FLOAT, "10000", NULL},
    {"offset", SL_ATTR_INT, "0", NULL},
    {"style", SL_ATTR_ENUM, "half", "half|interleaved"},
    {"scale", SL_ATTR_FLOAT, "1", NULL},
    {"inverse", SL_ATTR_BOOL, "0", NULL},
    {"ramp", SL_ATTR_ENUM, "none", "none|frequency|index"},
    {"low", SL_ATTR_FLOAT, "0", NULL},
    {"high", SL_ATTR_FLOAT, "1", NULL},
    {0},
};

SL_OP_ROW(rope, "rotary position embedding", "x", "y", .divide = SL_DIVIDE_HEADS, .attrs = attrs,
          .infer = infer, .flops = flops, .grad = grad, .ref = ref)
