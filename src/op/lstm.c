/* lstm: one layer over a sequence; gates in PyTorch's order i, f, g, o.
 *
 *   x [B,T,I]   w_ih [4H,I]   w_hh [4H,H]   bias_ih, bias_hh [4H]   h0, c0 [B,H] (absent: 0)
 *   y [B,T,H]   c [B,T,H]     gates [B,T,4H], after their sigmoid or tanh
 *
 *   a = w_ih x[t] + bias_ih + w_hh y[t-1] + bias_hh;   i,f,o = sigmoid(a), g = tanh(a)
 *   c[t] = f c[t-1] + i g                              y[t] = o tanh(c[t])
 *
 * Only the gradient of a is serial in time (lstm_dgates). The other gradients are one product over
 * all steps: dx = da w_ih, dw_ih = da' x, dw_hh = da' (y shifted by one step).
 */
#include "op/common.h"

#include <math.h>
#include <string.h>

enum { X, W_IH, W_HH, BIAS_IH, BIAS_HH, H0, C0, IN_COUNT };

static sl_err need_shape(const struct sl_infer *c, int i, const struct sl_shape *want) {
    char got[SL_SHAPE_TEXT], expected[SL_SHAPE_TEXT], x[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, i));
    if (c->present[i] && !sl_graph_shape_equal(&c->in[i], want))
        return sl_graph_infer_fail(
            c, "input %d must be %s for x %s, it is %s", i, sl_graph_shape_text(want, expected),
            sl_graph_shape_text(&c->in[X], x), sl_graph_shape_text(&c->in[i], got));
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
    const struct sl_shape *in = c->in;
    SL_TRY(sl_op_need_float(c, X));
    if (in[X].rank != 3 || (in[X].batch & ~1u) || in[W_HH].rank != 2 || in[W_HH].batch)
        return sl_graph_infer_fail(c, "x must be [B,T,I] and w_hh [4H,H], they are %s and %s",
                                   sl_graph_shape_text(&in[X], x),
                                   sl_graph_shape_text(&in[W_HH], w));
    int64_t h = in[W_HH].dim[1];
    if (h > SL_MAX_NUMEL / 4)
        return sl_graph_infer_fail(c, "w_hh %s is too large", sl_graph_shape_text(&in[W_HH], w));
    struct sl_shape state = SL_SHAPE(2, in[X].batch, in[X].dim[0], h);
    SL_TRY(need_shape(c, W_IH, &SL_SHAPE(2, 0, 4 * h, in[X].dim[2])));
    SL_TRY(need_shape(c, W_HH, &SL_SHAPE(2, 0, 4 * h, h)));
    SL_TRY(need_shape(c, BIAS_IH, &SL_SHAPE(1, 0, 4 * h)));
    SL_TRY(need_shape(c, BIAS_HH, &SL_SHAPE(1, 0, 4 * h)));
    SL_TRY(need_shape(c, H0, &state));
    SL_TRY(need_shape(c, C0, &state));
    c->out[0] = c->out[1] = c->out[2] = in[X];
    c->out[0].dim[2] = c->out[1].dim[2] = h;
    c->out[2].dim[2] = 4 * h;
    return SL_OK;
}

/* Two products per step; per cell four non-linearities and about twelve other flops. */
static double flops(const struct sl_op_view *v) {
    double cells = (double)sl_op_numel(&v->out[0]);
    return 8.0 * cells * (double)(v->in[X].dim[2] + v->out[0].dim[2]) + 20.0 * cells;
}

static int emit_product(struct sl_grad *g, int a, int b, bool ta) {
    union sl_attr attr[2] = {{.i = ta}, {.i = false}};
    return sl_graph_grad_emit(g, "matmul", 2, (int[]){a, b}, attr);
}

static int grad(struct sl_grad *g, int input) {
    int c0 = sl_graph_grad_input(g, C0), h0 = sl_graph_grad_input(g, H0);
    if (!sl_op_grad_flows(g, 2))
        return -1;
    int da = sl_graph_grad_emit(
        g, "lstm_dgates", 6, (int[]){g->out[2], g->out[1], g->in[W_HH], c0, g->dout[0], g->dout[1]},
        NULL);
    switch (input) {
    case X: return emit_product(g, da, g->in[W_IH], false);
    case W_IH: return emit_product(g, sl_op_grad_rows(g, da), sl_op_grad_rows(g, g->in[X]), true);
    case W_HH: {
        int shifted = sl_graph_grad_emit(g, "lstm_hprev", 2, (int[]){g->out[0], h0}, NULL);
        return emit_product(g, sl_op_grad_rows(g, da), sl_op_grad_rows(g, shifted), true);
    }
    case H0: return sl_graph_grad_output(g, da, 1);
    case C0: return sl_graph_grad_output(g, da, 2);
    default: return sl_op_grad_sum_to(g, da, g->in[input]);
    }
}

struct sizes {
    int64_t b, t, i, h;
};

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }

/* Computes the gates of one sample at one step; h NULL: the state is zero. */
static void gates_at(const struct sl_ref *r, const struct sizes *z, const double *x,
                     const double *h, double *gates) {
    for (int64_t row = 0; row < 4 * z->h; row++) {
        double a = dot(r->in[W_IH].f + row * z->i, x, z->i);
        if (r->in[BIAS_IH].f)
            a += r->in[BIAS_IH].f[row];
        if (r->in[BIAS_HH].f)
            a += r->in[BIAS_HH].f[row];
        if (h)
            a += dot(r->in[W_HH].f + row * z->h, h, z->h);
        gates[row] = row / z->h == 2 ? tanh(a) : sigmoid(a);
    }
}

static void ref(const struct sl_ref *r) {
    const int64_t *x = r->in[X].shape.dim;
    struct sizes z = {x[0], x[1], x[2], r->out[0].shape.dim[2]};
    for (int64_t b = 0; b < z.b; b++)
        for (int64_t t = 0; t < z.t; t++) {
            int64_t at = b * z.t + t;
            double *y = r->out[0].f + at * z.h, *c = r->out[1].f + at * z.h;
            double *gates = r->out[2].f + at * 4 * z.h;
            const double *h0 = r->in[H0].f ? r->in[H0].f + b * z.h : NULL;
            const double *c0 = r->in[C0].f ? r->in[C0].f + b * z.h : NULL;
            const double *before = t ? c - z.h : c0;
            gates_at(r, &z, r->in[X].f + at * z.i, t ? y - z.h : h0, gates);
            for (int64_t j = 0; j < z.h; j++) {
                c[j] = gates[z.h + j] * (before ? before[j] : 0) + gates[j] * gates[2 * z.h + j];
                y[j] = gates[3 * z.h + j] * tanh(c[j]);
            }
        }
}

SL_OP_ROW(lstm, "one LSTM layer over a sequence", "x w_ih w_hh bias_ih? bias_hh? h0? c0?",
          "y c gates", .grad_outputs = 2, .layer = SL_LAYER_LSTM, .exact_out = 7, .infer = infer,
          .flops = flops, .grad = grad, .ref = ref)
