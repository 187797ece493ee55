/* rope: rotary position embedding: rotate pairs of features by an angle proportional to position.
 *
 *   x [B,T,H,D] -> y [B,T,H,D]     angle(t, i) = (offset + t) scale base^(-2 i / D),  i < D/2
 *
 * style half:        pairs are (i, i + D/2)    (Llama, GPT-NeoX)
 * style interleaved: pairs are (2 i, 2 i + 1)  (Su et al. 2021, RoFormer, sec. 3.2)
 * scale is the factor of linear position interpolation (1/4: a context four times as long).
 * inverse rotates by the negative angle: this is the gradient.
 */
#include "op/common.h"

#include <math.h>
#include <string.h>

enum { BASE, OFFSET, STYLE, SCALE, INVERSE, ATTR_COUNT };
enum { HALF, INTERLEAVED };

#define MAX ((int64_t)1 << 40) /* positions stay exact in double */

static sl_err infer(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    const struct sl_shape *x = &c->in[0];
    SL_TRY(sl_op_need_float(c, 0));
    if (x->rank != 4 || (x->batch & ~1u) || x->dim[3] % 2)
        return sl_graph_infer_fail(c, "needs [B,T,H,D] with an even D, got %s",
                                   sl_graph_shape_text(x, text));
    if (!(c->attr[BASE].f > 0) || !isfinite(c->attr[BASE].f))
        return sl_graph_infer_fail(c, "'base' must be positive");
    if (!isfinite(c->attr[SCALE].f))
        return sl_graph_infer_fail(c, "'scale' must be finite");
    if (c->attr[OFFSET].i < -MAX || c->attr[OFFSET].i > MAX)
        return sl_graph_infer_fail(c, "'offset' %lld is too large", (long long)c->attr[OFFSET].i);
    c->out[0] = *x;
    return SL_OK;
}

/* Three flops per element; the angles are shared by all samples and heads. */
static double flops(const struct sl_op_view *v) { return 3.0 * (double)sl_op_numel(&v->out[0]); }

static int grad(struct sl_grad *g, int input) {
    union sl_attr attr[ATTR_COUNT];
    (void)input;
    memcpy(attr, g->attr, sizeof attr);
    attr[INVERSE].i = !attr[INVERSE].i;
    return sl_graph_grad_emit(g, "rope", 1, &g->dout[0], attr);
}

/* One head at one position. */
static void turn(const union sl_attr *attr, int64_t position, int64_t d, const double *x,
                 double *y) {
    bool half = attr[STYLE].i == HALF;
    for (int64_t i = 0; i < d / 2; i++) {
        double angle = (double)(attr[OFFSET].i + position) * attr[SCALE].f *
                       pow(attr[BASE].f, -2.0 * (double)i / (double)d);
        double c = cos(angle), s = attr[INVERSE].i ? -sin(angle) : sin(angle);
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
    {0},
};

SL_OP_ROW(rope, "rotary position embedding", "x", "y", .attrs = attrs, .infer = infer,
          .flops = flops, .grad = grad, .ref = ref)
